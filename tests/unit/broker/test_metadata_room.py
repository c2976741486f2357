"""The room that is reserved for metadata, on a disk that is nearly full."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from tests.support.neighbours import Neighbours
from tests.support.node_driver import NodeDriver

from tidelog.broker import quorum_journal
from tidelog.metadata.image import Image
from tidelog.metadata.snapshot import SnapshotEncoding
from tidelog.model.errors import ErrorCode
from tidelog.sim.disk import SimDisk
from tidelog.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tidelog.wire.requests import encode_request

VOTERS = "1@127.0.0.1:9001"


def snapshots(disk: SimDisk) -> list[str]:
    return [name for name in disk.list("metadata") if ".checkpoint" in name]


def runs_for(neighbours: Neighbours, seconds: float) -> Callable[[], bool]:
    end_ms = neighbours.now.monotonic_ms + seconds * 1000
    return lambda: neighbours.now.monotonic_ms >= end_ms


def test_a_snapshot_without_room_leaves_the_reserve_alone_and_is_taken_when_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries: list[Image] = []

    def begun(image: Image) -> SnapshotEncoding:
        tries.append(image)
        return SnapshotEncoding(image)

    monkeypatch.setattr(quorum_journal, "SnapshotEncoding", begun)
    disk, neighbours = SimDisk(Random(1)), Neighbours(tmp_path)
    node = neighbours.start(
        1,
        disk=disk,
        controller_quorum_voters=VOTERS,
        metadata_reserve_bytes="65536",
        metadata_log_max_records_between_snapshots="50",
    )
    neighbours.run_until(lambda: node.is_serving and node.state.reserve.is_whole, "a start")
    topic = CreatableTopic(name="t", num_partitions=100, replication_factor=1)
    request = CreateTopicsRequest(topics=[topic])
    neighbours.ask(1, encode_request(request, 7, correlation_id=1, client_id="test"))
    neighbours.run_until(lambda: len(node.state.replicas.by_key) == 100, "the topic's logs")
    disk.faults.capacity_bytes = disk.used_bytes() + 1_500
    neighbours.run_until(runs_for(neighbours, 30), "time")
    assert snapshots(disk) == []
    assert node.state.reserve.is_whole
    assert len(tries) == 1
    disk.faults.capacity_bytes = None
    neighbours.run_until(runs_for(neighbours, 40), "time")
    assert len(tries) == 2
    assert len(snapshots(disk)) == 1


def test_records_are_refused_in_plain_words_while_the_metadata_has_its_reserve(
    tmp_path: Path,
) -> None:
    disk = SimDisk(Random(1))
    node = NodeDriver(tmp_path, disk, metadata_reserve_bytes="65536")
    node.create_topic("t")
    disk.faults.capacity_bytes = disk.used_bytes()
    for number in range(3):
        node.create_topic(f"t{number}")
        node.advance(1_500)
    assert not node.node.state.reserve.is_whole
    assert node.produce("t", b"a").error_code is ErrorCode.KAFKA_STORAGE_ERROR
    told = [text for text in node.reports if text.startswith("disk full")]
    assert told == [
        "disk full: the remaining space is reserved for metadata; free some disk space. Records "
        "are refused until metadata.reserve.bytes are free again"
    ]
