"""The disk has the room of deleted segments back at once: none of them stays open in the node."""

from __future__ import annotations

from pathlib import Path

from tests.endtoend.observing import attempts, wait_until
from tests.support.node_process import RunningNode, StartNode
from tests.support.open_files import deleted_but_open
from tests.support.raw_client import RawClient

_SETTINGS = ("--set", "log.retention.check.interval.ms=20")
_AT_ONCE = 8 * 3
"""Files of the segments that one turn of the node deletes: it may be looked at amid that."""


def _deleted(node: RunningNode, data: Path) -> list[str]:
    return deleted_but_open(data, process=node.process.pid)


def test_segments_deleted_by_retention_are_closed(start_node: StartNode, tmp_path: Path) -> None:
    node = start_node(tmp_path, *_SETTINGS)
    most = 0
    with RawClient(node) as client:
        client.create_topic("t", segment_bytes="20000", retention_bytes="40000")
        for number in range(300):
            client.must_produce("t", b"%d " % number + bytes(5000))
            if number % 10 == 0:
                client.fetch("t", number)
            most = max(most, len(_deleted(node, tmp_path)))
        for _ in attempts("retention has deleted what is too much"):
            sizes = [path.stat().st_size for path in tmp_path.glob("topics/*/*/*.log")]
            if sum(sizes) < 100_000:
                break
        wait_until(lambda: not _deleted(node, tmp_path), "every deleted file is closed")
        assert most <= _AT_ONCE
        client.delete_topic("t")
        wait_until(lambda: not list(tmp_path.glob("topics/t.*")), "the topic is gone")
        wait_until(lambda: not _deleted(node, tmp_path), "every file of the topic is closed")
