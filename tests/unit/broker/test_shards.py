"""Shards of the offsets topic: loaded in slices, and what a full disk does to them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from tests.support.node_driver import NodeDriver

from tidelog.broker.offsets_log import read_records
from tidelog.broker.shards import RECORDS_PER_SLICE, RETRY_MS, ShardState
from tidelog.model.errors import ErrorCode
from tidelog.partition.replica import Replica
from tidelog.sim.disk import SimDisk
from tidelog.testing.disk import FillableDisk, Room
from tidelog.wire.messages.find_coordinator import FindCoordinatorRequest
from tidelog.wire.messages.heartbeat import HeartbeatRequest
from tidelog.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from tidelog.wire.messages.list_groups import ListGroupsRequest
from tidelog.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tidelog.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from tidelog.wire.records import Record

UNAVAILABLE = ErrorCode.COORDINATOR_NOT_AVAILABLE


@pytest.fixture
def room() -> Room:
    return Room()


@pytest.fixture
def node(tmp_path: Path, room: Room) -> NodeDriver:
    disk = FillableDisk(tmp_path, room)
    node = NodeDriver(tmp_path, disk, offsets_topic_num_partitions="1")
    node.create_topic("orders", partitions=RECORDS_PER_SLICE)
    node.request(FindCoordinatorRequest(coordinator_keys=["billing"]))
    return node


def commit(node: NodeDriver, offset: int, partitions: int = 1) -> ErrorCode:
    rows = [
        OffsetCommitRequestPartition(partition_index=index, committed_offset=offset)
        for index in range(partitions)
    ]
    request = OffsetCommitRequest(
        group_id="billing",
        topics=[OffsetCommitRequestTopic(name="orders", partitions=rows)],
    )
    answer = node.request(request, version=9)
    error: ErrorCode = answer.topics[0].partitions[0].error_code
    return error


def fetched(node: NodeDriver) -> tuple[ErrorCode, list[int]]:
    group = OffsetFetchRequestGroup(group_id="billing", topics=None)
    found = node.request(OffsetFetchRequest(groups=[group]), version=9).groups[0]
    offsets = [each.committed_offset for topic in found.topics for each in topic.partitions]
    return found.error_code, offsets


def join(node: NodeDriver, member_id: str = "") -> ErrorCode:
    request = JoinGroupRequest(
        group_id="shipping",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=60_000,
        member_id=member_id,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )
    number = node.submit(request, version=3)
    node.advance(200)
    error: ErrorCode = node.responses[number].error_code
    return error


def replayed(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The keys of all records that coordinators replay while they are loaded from now on."""
    seen: list[bytes] = []

    def reading(replica: Replica) -> Iterator[Record]:
        for record in read_records(replica):
            assert record.key is not None
            seen.append(record.key)
            yield record

    monkeypatch.setattr("tidelog.broker.shards.read_records", reading)
    return seen


def make_room(node: NodeDriver, room: Room) -> None:
    """The metadata's reserve is the first to have it back."""
    room.is_full = False
    for _ in range(3):
        node.advance(RETRY_MS)


def test_a_large_partition_is_loaded_in_slices_between_requests(node: NodeDriver) -> None:
    for offset in range(4):
        assert commit(node, offset, RECORDS_PER_SLICE) is ErrorCode.NONE
    node.restart()
    loading: tuple[ErrorCode, list[int]] = (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, [])
    assert fetched(node) == loading
    assert node.request(ListGroupsRequest()).error_code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert commit(node, 9) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    slices = 0
    while fetched(node) == loading:
        assert node.node.next_deadline() == 0.0
        node.advance(0)
        slices += 1
        assert slices < 8
    assert slices >= 3
    assert fetched(node) == (ErrorCode.NONE, [3] * RECORDS_PER_SLICE)
    assert commit(node, 9) is ErrorCode.NONE


def test_a_small_partition_is_loaded_before_anybody_asks(node: NodeDriver) -> None:
    commit(node, 7)
    node.restart()
    assert fetched(node) == (ErrorCode.NONE, [7])


def test_a_commit_on_a_full_disk_is_refused_and_nothing_is_replayed_for_it(
    node: NodeDriver, room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit(node, 1)
    seen = replayed(monkeypatch)
    room.is_full = True
    for offset in range(2, 50):
        assert commit(node, offset) is UNAVAILABLE
        node.advance(RETRY_MS)
    assert fetched(node) == (ErrorCode.NONE, [1])
    make_room(node, room)
    assert commit(node, 2) is ErrorCode.NONE
    assert fetched(node) == (ErrorCode.NONE, [2])
    assert not seen


def test_a_shard_whose_decision_found_no_room_is_loaded_once_there_is_some(
    node: NodeDriver, room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit(node, 1)
    seen = replayed(monkeypatch)
    room.is_full = True
    assert join(node) is UNAVAILABLE
    for _ in range(20):
        assert join(node) is UNAVAILABLE
        assert fetched(node)[0] is UNAVAILABLE
        node.advance(RETRY_MS)
    assert not seen
    make_room(node, room)
    assert fetched(node) == (ErrorCode.NONE, [1])
    assert len(seen) == 1
    assert join(node) is ErrorCode.NONE


def test_a_shard_that_was_without_room_is_loading_until_it_is_loaded(
    node: NodeDriver, room: Room
) -> None:
    commit(node, 1)
    room.is_full = True
    assert join(node) is UNAVAILABLE
    room.is_full = False
    said: list[ErrorCode] = []
    while not said or said[-1] is not ErrorCode.NONE:
        node.advance(RETRY_MS / 2)
        said.append(fetched(node)[0])
        assert len(said) < 20
    assert set(said[:-2]) == {UNAVAILABLE}
    assert said[-2:] == [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NONE]


def test_after_an_error_of_the_disk_a_shard_does_not_know_what_its_log_says(
    tmp_path: Path,
) -> None:
    disk = SimDisk(Random(1))
    node = NodeDriver(tmp_path, disk, offsets_topic_num_partitions="1")
    node.create_topic("orders")
    node.request(FindCoordinatorRequest(coordinator_keys=["billing"]))
    assert commit(node, 1) is ErrorCode.NONE
    disk.faults.write_error_rate = 1.0
    assert commit(node, 2) is UNAVAILABLE
    (shard,) = node.node.state.coordinators.describe()
    assert shard["state"] == ShardState.STALLED.name


def test_members_live_on_while_their_commits_find_no_room(node: NodeDriver, room: Room) -> None:
    assert join(node) is ErrorCode.NONE
    described = node.node.state.coordinators.describe()[0]["recorded"]
    room.is_full = True
    assert commit(node, 1) is UNAVAILABLE
    beat = HeartbeatRequest(group_id="shipping", generation_id=1, member_id="nobody")
    assert node.request(beat).error_code is ErrorCode.UNKNOWN_MEMBER_ID
    assert node.node.state.coordinators.describe()[0]["recorded"] == described


def test_a_partition_that_cannot_be_read_is_reported_once_and_tried_again(
    node: NodeDriver, tmp_path: Path
) -> None:
    commit(node, 1)
    node.stop()
    (path,) = tmp_path.glob("topics/__consumer_offsets.*/0/*.log")
    sound = path.read_bytes()
    path.write_bytes(sound[:-3] + bytes([sound[-3] ^ 1]) + sound[-2:])
    node.restart()
    for _ in range(5):
        assert commit(node, 2) is UNAVAILABLE
        node.advance(RETRY_MS)
        node.advance(0)
    assert len([text for text in node.reports if "cannot load its consumer groups" in text]) == 1
