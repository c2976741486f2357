"""What is not in memory is read as an effect, and whoever asked for it looks again when it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.support.node_driver import NodeDriver, batch_of, fetch_request, produce_request

from tidelog.broker.apis.fetch import FOLLOWERS_PATIENCE_MS, READ_PATIENCE_MS
from tidelog.broker.events import ConnectionClosed, RangeRead
from tidelog.broker.reading import MAX_REPEATS, MAX_UNDER_WAY, RANGES_PER_REQUEST
from tidelog.broker.replication import FETCH_GRACE_MS
from tidelog.log.disk import DiskError
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import ConnectionId, LeaderEpoch, Offset
from tidelog.partition.replica import Replica
from tidelog.sim.disk import SimDisk
from tidelog.sim.page_cache import CachePlan
from tidelog.wire.messages.api_versions import ApiVersionsRequest
from tidelog.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)

COLD = CachePlan(cold_share=1.0)
NEVER_THERE = CachePlan(cold_share=1.0, drop_share=1.0)
FIRST_MS = 1_700_000_000_000


class Stage:
    """A node on a disk of which nothing is in memory but what was written lately. Reads are held.
    Each record of "orders" has a segment of its own, and all but the last are closed."""

    def __init__(self, path: Path, *, partitions: int = 1, records: int = 3) -> None:
        self.disk = SimDisk(Random(1))
        self.disk.page_cache.plan = COLD
        self.driver = NodeDriver(path, self.disk, segment_bytes="1024")
        self.driver.holds_reads = True
        self.driver.create_topic("orders", partitions=partitions)
        for partition in range(partitions):
            for number in range(records):
                records_ = batch_of(b"%600d" % number, timestamp=FIRST_MS + number)
                request = produce_request("orders", records_, partition=partition)
                self.driver.request(request, version=9)

    def replica(self, partition: int = 0) -> Replica:
        found = self.driver.node.state.replicas.find("orders", partition)
        assert isinstance(found, Replica)
        return found

    def finish_all(self) -> None:
        """One read after the other, until nobody wants another."""
        while self.driver.held_reads:
            self.driver.finish_reads()

    def waits(self) -> list[str]:
        pending = self.driver.node.describe()["pending"]
        assert isinstance(pending, list)
        return pending


def data_of(response: Any, partition: int = 0) -> Any:
    (found,) = [
        each
        for topic in response.responses
        for each in topic.partitions
        if each.partition_index == partition
    ]
    return found


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


def test_what_was_written_lately_is_answered_at_once(stage: Stage) -> None:
    response = stage.driver.request(fetch_request(offset=2), version=12)
    assert data_of(response).records
    assert not stage.driver.held_reads


def test_a_fetch_of_what_is_not_in_memory_is_a_row_until_it_was_read(stage: Stage) -> None:
    asked = stage.driver.submit(fetch_request(offset=0), version=12)
    (effect,) = stage.driver.held_reads
    assert asked not in stage.driver.responses
    (row,) = stage.waits()
    assert "Fetch waits" in row
    assert f"of {effect.file.path} at {effect.position} to be read" in row
    stage.finish_all()
    assert b"0" in bytes(data_of(stage.driver.responses[asked]).records)
    assert not stage.waits()
    assert stage.driver.node.describe()["reads"] == {"under_way": [], "queued": 0}


def test_one_range_is_read_once_for_all_who_wait_for_it(stage: Stage) -> None:
    connections = [stage.driver.connect() for _ in range(3)]
    asked = [
        stage.driver.submit(fetch_request(offset=0), version=12, connection=each)
        for each in connections
    ]
    assert len(stage.driver.held_reads) == 1
    stage.finish_all()
    assert all(data_of(stage.driver.responses[each]).records for each in asked)


def test_the_answers_of_a_connection_keep_their_order(stage: Stage) -> None:
    cold = stage.driver.submit(fetch_request(offset=0), version=12)
    other = stage.driver.submit(
        ApiVersionsRequest(client_software_name="test", client_software_version="1"), version=3
    )
    assert not {cold, other} & stage.driver.responses.keys()
    stage.finish_all()
    assert list(stage.driver.responses)[-2:] == [cold, other]


def test_other_connections_are_served_meanwhile(stage: Stage) -> None:
    stage.driver.submit(fetch_request(offset=0), version=12, connection=stage.driver.connect())
    assert stage.driver.produce("orders", b"more").error_code is ErrorCode.NONE
    assert data_of(stage.driver.request(fetch_request(offset=3), version=12)).records


def test_what_is_in_memory_does_not_wait_for_what_is_not(tmp_path: Path) -> None:
    stage = Stage(tmp_path, partitions=2)
    request = fetch_request(offset=2, partitions=(0, 1), max_wait_ms=500)
    request.topics[0].partitions[0].fetch_offset = 0
    response = stage.driver.request(request, version=12)
    assert not data_of(response, 0).records
    assert data_of(response, 1).records
    stage.finish_all()  # it was read all the same, for the next fetch
    stage.driver.holds_reads = False
    assert data_of(stage.driver.request(fetch_request(offset=0), version=12)).records


def test_a_fetch_that_needs_more_bytes_than_are_there_waits_no_longer_than_it_said(
    stage: Stage,
) -> None:
    request = fetch_request(offset=0, max_wait_ms=500, min_bytes=1 << 20)
    asked = stage.driver.submit(request, version=12)
    stage.finish_all()
    stage.driver.advance(499)
    assert asked not in stage.driver.responses
    stage.driver.advance(2)
    assert data_of(stage.driver.responses[asked]).records


@pytest.mark.parametrize("max_wait_ms", [0, 500])
def test_a_read_that_takes_too_long_is_not_waited_for(stage: Stage, max_wait_ms: int) -> None:
    request = fetch_request(offset=0, max_wait_ms=max_wait_ms)
    asked = stage.driver.submit(request, version=12)
    stage.driver.advance(max_wait_ms)
    stage.driver.advance(READ_PATIENCE_MS - 1)
    assert asked not in stage.driver.responses
    stage.driver.advance(2)
    late = data_of(stage.driver.responses[asked])
    assert (late.error_code, late.records) == (ErrorCode.NONE, b"")
    again = stage.driver.submit(request, version=12)
    assert len(stage.driver.held_reads) == 1, "it is being read already"
    stage.finish_all()
    assert data_of(stage.driver.responses[again]).records


def test_a_follower_is_answered_before_it_gives_the_connection_up() -> None:
    """Both begin to count when `max_wait_ms` is over."""
    assert FOLLOWERS_PATIENCE_MS < FETCH_GRACE_MS


def test_a_read_error_is_the_answer(stage: Stage) -> None:
    asked = stage.driver.submit(fetch_request(offset=0), version=12)
    stage.driver.finish_reads(DiskError("input/output error"))
    found = data_of(stage.driver.responses[asked])
    assert found.error_code is ErrorCode.KAFKA_STORAGE_ERROR
    assert stage.driver.node.state.storage_error is None
    again = stage.driver.submit(fetch_request(offset=0), version=12)
    stage.finish_all()
    assert data_of(stage.driver.responses[again]).records


# --- what happens meanwhile -------------------------------------------------------------------


def begin_later(stage: Stage) -> None:
    replica = stage.replica()
    replica.log.advance_start(Offset(2))
    stage.driver.node.state.wants_flush(replica)
    stage.driver.advance(1)
    assert replica.log.log_start_offset == 2


def cut_all(stage: Stage) -> None:
    replica = stage.replica()
    replica.log.truncate_to(Offset(0))
    assert replica.leader is not None
    replica.leader.high_watermark = Offset(0)


def lead_in_another_epoch(stage: Stage) -> None:
    replica = stage.replica()
    epoch = LeaderEpoch(replica.state.leader_epoch + 1)
    replica.follow(replace(replica.state, leader_epoch=epoch), stage.driver.now_ms)


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (begin_later, ErrorCode.OFFSET_OUT_OF_RANGE),
        (lead_in_another_epoch, ErrorCode.FENCED_LEADER_EPOCH),
    ],
)
def test_what_has_changed_meanwhile_is_the_answer(
    stage: Stage, event: Callable[[Stage], None], expected: ErrorCode
) -> None:
    request = fetch_request(offset=0, epoch=stage.replica().state.leader_epoch)
    asked = stage.driver.submit(request, version=12)
    event(stage)
    stage.finish_all()
    found = data_of(stage.driver.responses[asked])
    assert (found.error_code, found.records) == (expected, b"")


def test_what_was_cut_meanwhile_is_not_given_out(stage: Stage) -> None:
    asked = stage.driver.submit(fetch_request(offset=0), version=12)
    cut_all(stage)
    stage.finish_all()
    found = data_of(stage.driver.responses[asked])
    assert (found.error_code, found.records) == (ErrorCode.NONE, b"")
    assert found.high_watermark == 0


def test_whoever_waits_for_a_read_keeps_no_file_from_being_deleted(stage: Stage) -> None:
    stage.driver.submit(fetch_request(offset=0), version=12)
    begin_later(stage)
    assert not stage.disk.deleted_but_pinned()


def test_nobody_is_left_when_the_connection_is_closed_meanwhile(stage: Stage) -> None:
    gone = stage.driver.connect()
    asked = stage.driver.submit(fetch_request(offset=0), version=12, connection=gone)
    (effect,) = stage.driver.held_reads
    stage.driver.step(ConnectionClosed(gone))
    assert not stage.waits()
    stage.driver.step(RangeRead(effect.number))
    assert asked not in stage.driver.responses
    assert stage.driver.node.describe()["reads"] == {"under_way": [], "queued": 0}


def test_a_node_that_stops_answers_with_what_it_has(stage: Stage) -> None:
    asked = stage.driver.submit(fetch_request(offset=0), version=12)
    stage.driver.stop()
    assert data_of(stage.driver.responses[asked]).records


# --- bounds -----------------------------------------------------------------------------------


def test_what_does_not_stay_in_memory_is_given_out_all_the_same(stage: Stage) -> None:
    stage.disk.page_cache.plan = NEVER_THERE
    asked = stage.driver.submit(fetch_request(offset=0), version=12)
    reads = 0
    while asked not in stage.driver.responses:
        reads += len(stage.driver.held_reads)
        stage.driver.finish_reads()
    assert data_of(stage.driver.responses[asked]).records
    assert reads <= 2 * MAX_REPEATS, "of an index, and of the batches"


def test_few_ranges_are_under_way_at_a_time(tmp_path: Path) -> None:
    partitions = MAX_UNDER_WAY + RANGES_PER_REQUEST
    stage = Stage(tmp_path, partitions=partitions)
    every = tuple(range(partitions))
    connections: list[ConnectionId] = []
    for start in range(0, partitions, RANGES_PER_REQUEST // 2):
        connections.append(stage.driver.connect())
        request = fetch_request(offset=0, partitions=every[start:])
        stage.driver.submit(request, version=12, connection=connections[-1])
        assert len(stage.driver.held_reads) <= MAX_UNDER_WAY
    assert len(stage.driver.held_reads) == MAX_UNDER_WAY
    stage.finish_all()
    assert not stage.waits()


# --- look-ups by time -------------------------------------------------------------------------


def look_up(timestamp: int) -> ListOffsetsRequest:
    partition = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
    return ListOffsetsRequest(
        replica_id=-1, topics=[ListOffsetsTopic(name="orders", partitions=[partition])]
    )


def test_a_look_up_by_time_waits_for_cold_indexes(stage: Stage) -> None:
    asked = stage.driver.submit(look_up(FIRST_MS + 1), version=7)
    assert asked not in stage.driver.responses
    (row,) = stage.waits()
    assert "ListOffsets waits for" in row
    stage.finish_all()
    found = stage.driver.responses[asked].topics[0].partitions[0]
    assert (found.error_code, found.offset) == (ErrorCode.NONE, 1)


def test_a_look_up_that_takes_too_long_is_told_to_come_again(stage: Stage) -> None:
    asked = stage.driver.submit(look_up(FIRST_MS + 1), version=7)
    stage.driver.advance(READ_PATIENCE_MS + 1)
    found = stage.driver.responses[asked].topics[0].partitions[0]
    assert found.error_code is ErrorCode.REQUEST_TIMED_OUT


def test_a_look_up_that_the_disk_refuses_is_a_storage_error(stage: Stage) -> None:
    asked = stage.driver.submit(look_up(FIRST_MS + 1), version=7)
    stage.driver.finish_reads(DiskError("input/output error"))
    found = stage.driver.responses[asked].topics[0].partitions[0]
    assert found.error_code is ErrorCode.KAFKA_STORAGE_ERROR
