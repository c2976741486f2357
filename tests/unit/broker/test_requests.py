"""Requests of one connection: what a client may count on when it does not wait for answers."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.node_driver import NodeDriver, batch_of, fetch_request, produce_request

from tidelog.broker.effects import PauseReading, ResumeReading
from tidelog.broker.events import ConnectionClosed, FlushDone, FrameReceived
from tidelog.log.disk import DiskError
from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from tidelog.wire.messages.find_coordinator import FindCoordinatorRequest
from tidelog.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from tidelog.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tidelog.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from tidelog.wire.requests import encode_request


@pytest.fixture
def node(tmp_path: Path) -> NodeDriver:
    node = NodeDriver(tmp_path)
    node.create_topic("orders")
    node.produce("orders", b"zero")
    node.holds_flushes = True
    node.effects.clear()
    return node


def produce(node: NodeDriver, value: bytes = b"x") -> int:
    return node.submit(produce_request("orders", batch_of(value)), version=9)


def list_offsets(node: NodeDriver, timestamp: int) -> int:
    partition = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
    topic = ListOffsetsTopic(name="orders", partitions=[partition])
    return node.submit(ListOffsetsRequest(replica_id=-1, topics=[topic]))


def delete_records(node: NodeDriver, offset: int, *, timeout_ms: int = 1000) -> int:
    partition = DeleteRecordsPartition(partition_index=0, offset=offset)
    topic = DeleteRecordsTopic(name="orders", partitions=[partition])
    return node.submit(DeleteRecordsRequest(topics=[topic], timeout_ms=timeout_ms))


def have_groups(node: NodeDriver) -> None:
    """The offsets topic is there, and its coordinator has a group of this test."""
    node.holds_flushes = False
    node.request(FindCoordinatorRequest(coordinator_keys=["billing"]))
    assert node.responses[commit(node, 0)].topics[0].partitions[0].error_code == 0
    node.holds_flushes = True
    node.effects.clear()


def commit(node: NodeDriver, offset: int) -> int:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    topic = OffsetCommitRequestTopic(name="orders", partitions=[partition])
    return node.submit(OffsetCommitRequest(group_id="billing", topics=[topic]), version=7)


def committed_offset(node: NodeDriver) -> int:
    topic = OffsetFetchRequestTopics(name="orders", partition_indexes=[0])
    group = OffsetFetchRequestGroup(group_id="billing", topics=[topic])
    return node.submit(OffsetFetchRequest(groups=[group]), version=8)


def offset_of(node: NodeDriver, number: int) -> int:
    offset: int = node.responses[number].topics[0].partitions[0].offset
    return offset


def flush_once(node: NodeDriver) -> None:
    """One round; what that lets begin waits for the next."""
    flush = node.held.pop(0)
    for target in flush.targets:
        target.sync()
    node.step(FlushDone(flush.round))


def test_a_read_behind_a_produce_sees_it(node: NodeDriver) -> None:
    written = produce(node)
    latest = list_offsets(node, -1)
    fetched = node.submit(fetch_request(offset=1), version=12)
    assert latest not in node.responses
    node.finish_flushes()
    assert list(node.responses)[-3:] == [written, latest, fetched]
    assert offset_of(node, latest) == 2
    assert node.responses[fetched].responses[0].partitions[0].records


def test_a_read_behind_a_deletion_sees_it(node: NodeDriver) -> None:
    delete_records(node, 1)
    earliest = list_offsets(node, -2)
    node.finish_flushes()
    assert offset_of(node, earliest) == 1


def test_a_deletion_without_patience_waits_for_the_disk_of_its_own_node(node: NodeDriver) -> None:
    """The timeout is for other replicas, and there are none."""
    deleted = delete_records(node, 1, timeout_ms=0)
    node.advance(1)
    assert deleted not in node.responses
    node.finish_flushes()
    answer = node.responses[deleted].topics[0].partitions[0]
    assert (answer.error_code, answer.low_watermark) == (ErrorCode.NONE, 1)


def test_a_produce_behind_a_produce_is_handled_at_once(node: NodeDriver) -> None:
    numbers = [produce(node) for _ in range(3)]
    flush_once(node)
    flush_once(node)
    assert all(number in node.responses for number in numbers)
    assert node.held == []
    assert node.effects_of(PauseReading) == []


def test_a_produce_behind_a_deletion_waits_for_it(node: NodeDriver) -> None:
    """The high watermark that the deletion goes up to is that from before the produce."""
    deleted = delete_records(node, -1)
    written = produce(node)
    while deleted not in node.responses:
        assert written not in node.responses
        flush_once(node)
    assert written not in node.responses
    node.finish_flushes()
    answer = node.responses[written].responses[0].partition_responses[0]
    assert (answer.error_code, answer.base_offset) == (ErrorCode.NONE, 1)
    assert node.responses[deleted].topics[0].partitions[0].low_watermark == 1


def test_commits_behind_commits_share_a_flush(node: NodeDriver) -> None:
    have_groups(node)
    numbers = [commit(node, offset) for offset in (1, 2, 3)]
    behind = committed_offset(node)
    flush_once(node)
    assert not any(number in node.responses for number in numbers[1:])
    flush_once(node)
    assert list(node.responses)[-4:] == [*numbers, behind]
    assert node.responses[behind].groups[0].topics[0].partitions[0].committed_offset == 3
    assert node.held == []


def test_a_commit_behind_a_produce_waits_for_it(node: NodeDriver) -> None:
    have_groups(node)
    produce(node)
    committed = commit(node, 1)
    flush_once(node)
    assert len(node.held) == 1, "of the commit, which was handled now"
    assert committed not in node.responses


def test_a_produce_behind_a_commit_waits_for_it_and_keeps_its_records(node: NodeDriver) -> None:
    have_groups(node)
    committed = commit(node, 1)
    request = produce_request("orders", batch_of(b"two"))
    memory = bytearray(encode_request(request, 9, correlation_id=700, client_id="test")[4:])
    node._sent[node.connection, 700] = (0, 9)
    node.step(FrameReceived(node.connection, memoryview(memory)))
    memory[:] = bytes(len(memory))
    flush_once(node)
    assert committed in node.responses
    assert 700 not in node.responses
    node.finish_flushes()
    answer = node.responses[700].responses[0].partition_responses[0]
    assert (answer.error_code, answer.base_offset) == (ErrorCode.NONE, 1)


def test_a_held_request_pauses_the_reading_until_it_is_handled(node: NodeDriver) -> None:
    produce(node)
    assert node.effects_of(PauseReading) == []
    list_offsets(node, -1)
    assert len(node.effects_of(PauseReading)) == 1
    assert node.effects_of(ResumeReading) == []
    node.finish_flushes()
    assert len(node.effects_of(ResumeReading)) == 1


def test_what_was_on_its_way_when_the_reading_was_paused_keeps_its_place(node: NodeDriver) -> None:
    """Also when the memory of its frame is used for something else before it is handled."""
    produce(node, b"one")
    before = list_offsets(node, -1)
    request = produce_request("orders", batch_of(b"two"))
    memory = bytearray(encode_request(request, 9, correlation_id=700, client_id="test")[4:])
    node._sent[node.connection, 700] = (0, 9)
    node.step(FrameReceived(node.connection, memoryview(memory)))
    memory[:] = bytes(len(memory))
    after = list_offsets(node, -1)
    node.finish_flushes()
    assert (offset_of(node, before), offset_of(node, after)) == (2, 3)
    assert node.responses[700].responses[0].partition_responses[0].base_offset == 2


def test_other_connections_wait_for_nothing(node: NodeDriver) -> None:
    produce(node)
    list_offsets(node, -1)
    node.connection = node.connect()
    assert offset_of(node, list_offsets(node, -1)) == 1


def test_a_read_behind_a_produce_that_fails_is_answered(node: NodeDriver) -> None:
    written = produce(node)
    latest = list_offsets(node, -1)
    node.finish_flushes(DiskError("gone"))
    answer = node.responses[written].responses[0].partition_responses[0]
    assert answer.error_code is ErrorCode.KAFKA_STORAGE_ERROR
    assert offset_of(node, latest) == 1


def test_a_client_that_leaves_takes_its_held_request_along(node: NodeDriver) -> None:
    produce(node)
    latest = list_offsets(node, -1)
    node.step(ConnectionClosed(node.connection))
    node.finish_flushes()
    assert latest not in node.responses
    assert node.node.describe()["connections"] == []
