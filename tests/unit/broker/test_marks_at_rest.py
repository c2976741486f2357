"""The flushed mark of a log that nobody appends to reaches the disk once, and then rests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest
from tests.support.node_driver import NodeDriver, batch_of, produce_request

from tidelog.broker import housekeeping
from tidelog.broker.effects import StartFlush
from tidelog.log.disk import Buffer
from tidelog.log.marks import MarkFile
from tidelog.log.paths import FLUSHED
from tidelog.sim.disk import SimDisk, SimFile

SECOND_MS = 1000


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """What is done to the files named `flushed` of the topic."""
    calls: Counter[str] = Counter()
    write, sync = SimFile.write, SimFile.sync

    def is_mark(file: SimFile) -> bool:
        return file.path.endswith(FLUSHED) and "orders" in file.path

    def counted_write(
        file: SimFile, position: int, parts: Sequence[Buffer], *, needs_sync: bool = True
    ) -> None:
        calls["writes"] += is_mark(file)
        write(file, position, parts, needs_sync=needs_sync)

    def counted_sync(file: SimFile) -> None:
        calls["syncs"] += is_mark(file)
        sync(file)

    monkeypatch.setattr(SimFile, "write", counted_write)
    monkeypatch.setattr(SimFile, "sync", counted_sync)
    return calls


@pytest.fixture
def disk() -> SimDisk:
    return SimDisk(Random(0))


@pytest.fixture
def node(tmp_path: Path, disk: SimDisk, calls: Counter[str]) -> NodeDriver:
    node = NodeDriver(tmp_path, disk=disk)
    node.create_topic("orders", partitions=5)
    return node


def seconds(node: NodeDriver, count: int) -> None:
    for _ in range(count):
        node.advance(SECOND_MS)


def test_a_log_that_was_never_appended_to_has_no_mark_to_sync(
    node: NodeDriver, calls: Counter[str]
) -> None:
    seconds(node, 10)
    assert calls["syncs"] == 0


@pytest.mark.parametrize("appends", [1, 2, 5])
def test_the_mark_is_synced_once_after_the_last_append_and_the_log_rests(
    node: NodeDriver, disk: SimDisk, calls: Counter[str], appends: int
) -> None:
    for _ in range(appends):
        node.produce("orders", b"value")
    seconds(node, 3)
    calls.clear()
    seconds(node, 60)
    assert not calls
    log = next(iter(node.node.state.replicas.by_key.values())).log
    disk.lose_power()
    mark = MarkFile(disk, log.directory.path).load()
    assert mark is not None
    assert mark.flushed_offset == appends


def test_a_log_that_is_appended_to_is_not_flushed_for_its_mark(
    node: NodeDriver, calls: Counter[str]
) -> None:
    seconds(node, 5)  # the metadata log comes to rest
    node.effects.clear()
    for _ in range(100):
        node.produce("orders", b"value")
        node.advance(SECOND_MS / 10)
    assert len([each for each in node.effects if isinstance(each, StartFlush)]) == 100
    assert calls["syncs"] <= 20


def test_of_many_logs_that_come_to_rest_only_so_many_are_synced_at_a_time(
    node: NodeDriver, calls: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(housekeeping, "_MARKS_PER_TURN", 2)
    for partition in range(5):
        node.request(produce_request("orders", batch_of(b"value"), partition=partition), version=9)
    synced = []
    for _ in range(6):
        calls.clear()
        seconds(node, 1)
        synced.append(calls["syncs"])
    assert sorted(filter(None, synced)) == [1, 2, 2]
