"""Cleaning through the node: it happens by itself, in turns, and is durable before it shows."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from tests.support.node_driver import NodeDriver, produce_request
from tests.unit.broker.test_groups import commit, find

from tidelog.broker.effects import Stop
from tidelog.log.cleaner import Cleaning
from tidelog.log.directory import PartitionDirectory
from tidelog.log.disk import DiskError, DiskFull
from tidelog.model.errors import ErrorCode
from tidelog.partition.replica import Replica
from tidelog.sim.disk import SimDisk
from tidelog.sim.disk_faults import DiskFaults
from tidelog.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from tidelog.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from tidelog.wire.records import Record, decode_records, encode_batch

HOUR_MS = 3_600_000


@pytest.fixture
def node(tmp_path: Path) -> NodeDriver:
    return NodeDriver(tmp_path, offsets_topic_num_partitions="1")


def make(node: NodeDriver, **configs: str) -> Replica:
    settings = {"segment.bytes": "1024", "message.timestamp.type": "LogAppendTime"}
    settings |= {name.replace("_", "."): value for name, value in configs.items()}
    topic = CreatableTopic(
        name="orders",
        num_partitions=1,
        replication_factor=1,
        configs=[CreatableTopicConfig(name=name, value=value) for name, value in settings.items()],
    )
    result = node.request(CreateTopicsRequest(topics=[topic])).topics[0]
    assert result.error_code is ErrorCode.NONE, result.error_message
    leader = node.node.state.replicas.find("orders", 0)
    assert isinstance(leader, Replica)
    return leader


def fill(node: NodeDriver, count: int, keys: int = 1) -> None:
    for number in range(count):
        key = b"key-%d" % (number % keys)
        record = Record(offset=0, timestamp=1, key=key, value=b"%d" % number + b"." * 100)
        batch = bytes(encode_batch([record]))
        response = node.request(produce_request("orders", batch), version=9)
        assert response.responses[0].partition_responses[0].error_code is ErrorCode.NONE


def turns(node: NodeDriver, count: int = 60) -> None:
    for _ in range(count):
        node.advance(20)


def latest_by_key(leader: Replica) -> dict[bytes | None, bytes | None]:
    found: dict[bytes | None, bytes | None] = {}
    offset = leader.log.log_start_offset
    while offset < leader.high_watermark:
        span = leader.read(offset, max_bytes=1 << 20, at_least_one=True)
        assert span is not None
        assert not isinstance(span, ErrorCode)
        data = memoryview(span.read())
        while data:
            size = int.from_bytes(data[8:12], "big") + 12
            for record in decode_records(data[:size], 1 << 20):
                found[record.key] = record.value
            last = int.from_bytes(data[:8], "big") + int.from_bytes(data[23:27], "big")
            offset = type(offset)(last + 1)
            data = data[size:]
    return found


def test_old_segments_go_by_themselves(node: NodeDriver) -> None:
    leader = make(node, retention_ms=str(HOUR_MS))
    fill(node, 30)
    assert leader.log.log_start_offset == 0
    node.advance(2 * HOUR_MS)
    turns(node)
    assert leader.log.log_start_offset == 30
    node.restart()
    leader = node.node.state.replicas.find("orders", 0)  # type: ignore[assignment]
    assert leader.log.log_start_offset == 30


@pytest.mark.interpreted
def test_a_full_disk_postpones_retention_and_says_so(
    node: NodeDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    leader = make(node, retention_ms=str(HOUR_MS))
    fill(node, 30)

    def full(*_: object, **__: object) -> int:
        raise DiskFull("no space left on device")

    monkeypatch.setattr(leader.log, "apply_retention", full)
    node.advance(2 * HOUR_MS)
    turns(node)
    assert "orders-0: retention is postponed: no space left on device" in node.reports
    assert leader.log.log_start_offset == 0


def test_a_partition_stays_within_its_size(node: NodeDriver) -> None:
    leader = make(node, retention_bytes="3000")
    fill(node, 60)
    node.advance(300_001)
    turns(node)
    assert leader.log.log_start_offset > 0
    assert leader.log.size_bytes() < 3000 + 2 * 1024


def test_consumed_segments_go_when_every_group_has_read_them(node: NodeDriver) -> None:
    leader = make(node, cleanup_policy="consumed")
    fill(node, 40)
    find(node)
    node.advance(300_001)
    turns(node)
    assert leader.log.log_start_offset == 0, "no group reads it: everything is kept"
    assert commit(node, 40) is ErrorCode.NONE
    assert commit(node, 10, group_id="slow") is ErrorCode.NONE
    node.advance(300_001)
    turns(node)
    assert 0 < leader.log.log_start_offset <= 10
    assert commit(node, 40, group_id="slow") is ErrorCode.NONE
    node.advance(300_001)
    turns(node)
    assert leader.log.log_start_offset > 10


def test_a_compacted_topic_keeps_the_latest_of_each_key(node: NodeDriver) -> None:
    leader = make(node, cleanup_policy="compact", min_cleanable_dirty_ratio="0.1")
    fill(node, 100, keys=5)
    before = latest_by_key(leader)
    size = leader.log.size_bytes()
    node.advance(15_001)
    turns(node, 200)
    assert leader.log.size_bytes() < size / 2
    assert latest_by_key(leader) == before
    assert leader.log.log_end_offset == 100
    node.restart()
    leader = node.node.state.replicas.find("orders", 0)  # type: ignore[assignment]
    assert latest_by_key(leader) == before


def _in_the_middle_of_a_replacement(node: NodeDriver) -> Replica:
    leader = make(node, cleanup_policy="compact", min_cleanable_dirty_ratio="0.1")
    fill(node, 100, keys=5)
    node.advance(15_001)
    for _ in range(200):
        cleaning = leader.log.cleaning
        if isinstance(cleaning, Cleaning) and cleaning.is_swapping:
            break
        node.advance(20)
    assert isinstance(leader.log.cleaning, Cleaning)
    assert leader.log.cleaning.is_swapping
    return leader


def test_a_stop_after_a_failed_flush_counts_nothing_as_flushed(tmp_path: Path) -> None:
    """The next sync would succeed, though what the failed one covered is not on the disk."""
    node = NodeDriver(tmp_path, SimDisk(Random(1)), offsets_topic_num_partitions="1")
    leader = _in_the_middle_of_a_replacement(node)
    node.holds_flushes = True
    record = Record(offset=0, timestamp=1, key=b"key-1", value=b"the last")
    node.submit(produce_request("orders", bytes(encode_batch([record]))), version=9)
    flushed = leader.log.flushed_offset
    assert flushed < leader.log.log_end_offset
    node.finish_flushes(DiskError("input/output error on fsync"))
    node.stop()
    assert leader.log.flushed_offset == flushed
    assert "stopped without the clean mark" in node.reports


class _OneSyncFails(DiskFaults):
    """Once `is_armed`."""

    is_armed = False

    def is_sync_failing(self, path: str) -> bool:
        is_failing, self.is_armed = self.is_armed, False
        return is_failing


def test_a_stop_that_fails_to_sync_a_replacement_leaves_no_clean_mark(tmp_path: Path) -> None:
    disk = SimDisk(Random(1))
    disk.faults = faults = _OneSyncFails(Random(1))
    node = NodeDriver(tmp_path, disk, offsets_topic_num_partitions="1")
    _in_the_middle_of_a_replacement(node)
    faults.is_armed = True
    node.stop()
    assert not faults.is_armed
    assert "stopped without the clean mark" in node.reports


def delete(node: NodeDriver, offset: int) -> tuple[ErrorCode, int]:
    partition = DeleteRecordsPartition(partition_index=0, offset=offset)
    topic = DeleteRecordsTopic(name="orders", partitions=[partition])
    response = node.request(DeleteRecordsRequest(topics=[topic], timeout_ms=1000))
    result = response.topics[0].partitions[0]
    return result.error_code, result.low_watermark


def test_records_are_deleted_up_to_an_offset(node: NodeDriver) -> None:
    make(node)
    fill(node, 20)
    assert delete(node, 7) == (ErrorCode.NONE, 7)
    assert delete(node, 3) == (ErrorCode.NONE, 7)
    assert delete(node, 21) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
    assert delete(node, -1) == (ErrorCode.NONE, 20)
    node.restart()
    leader = node.node.state.replicas.find("orders", 0)
    assert isinstance(leader, Replica)
    assert leader.log.log_start_offset == 20


def test_records_of_a_compacted_topic_are_not_deleted_by_offset(node: NodeDriver) -> None:
    make(node, cleanup_policy="compact")
    fill(node, 3)
    assert delete(node, 2) == (ErrorCode.POLICY_VIOLATION, -1)


# --- scrubbing ------------------------------------------------------------------------------------


def a_scrubbing_node(directory: Path, *, rate: str = "100000") -> NodeDriver:
    return NodeDriver(
        directory,
        offsets_topic_num_partitions="1",
        log_scrub_bytes_per_second=rate,
        log_scrub_interval_ms="1000",
    )


def flip_in_first_segment(directory: Path) -> None:
    path = min((directory / "topics").glob("orders.*/0/*.log"))
    data = bytearray(path.read_bytes())
    data[200] ^= 1
    path.write_bytes(data)


def test_a_flip_in_a_running_node_is_reported_though_nobody_reads(tmp_path: Path) -> None:
    node = a_scrubbing_node(tmp_path)
    leader = make(node)
    fill(node, 30)
    flip_in_first_segment(tmp_path)
    node.advance(2000)
    turns(node)
    (damage,) = leader.log.damage
    assert damage.kind == "quarantined"
    assert leader.log.first_damaged_offset() == damage.first_offset
    assert any("quarantined" in report for report in node.reports)


def test_without_a_rate_nothing_is_scrubbed(tmp_path: Path) -> None:
    node = a_scrubbing_node(tmp_path, rate="0")
    leader = make(node)
    fill(node, 30)
    flip_in_first_segment(tmp_path)
    for _ in range(20):
        node.advance(1000)
    assert not leader.log.damage


def test_scrubbing_keeps_to_its_rate(tmp_path: Path) -> None:
    node = a_scrubbing_node(tmp_path, rate="1000")
    leader = make(node)
    fill(node, 100)
    closed = leader.log.closed_segments()
    for path in sorted((tmp_path / "topics").glob("orders.*/0/*.log"))[: len(closed)]:
        data = bytearray(path.read_bytes())
        data[200] ^= 1
        path.write_bytes(data)
    node.advance(1000)
    for _ in range(40):
        node.advance(100)
    assert 1 <= len(leader.log.damage) <= 7, "five seconds are enough for five kilobytes"


def test_a_segment_that_cannot_be_deleted_makes_the_node_read_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = SimDisk(Random(1))
    node = NodeDriver(tmp_path, disk)
    node.create_topic("orders")
    (replica,) = node.node.state.replicas.by_key.values()
    for _ in range(3):
        node.produce("orders", b"value")
        replica.log.roll()
    delete_segment = PartitionDirectory.delete_segment

    def struck(directory: PartitionDirectory, base_offset: int) -> None:
        disk.faults.write_error_rate = 1.0
        delete_segment(directory, base_offset)

    monkeypatch.setattr(PartitionDirectory, "delete_segment", struck)
    delete(node, 2)
    assert "input/output error" in str(node.node.state.storage_error)
    assert not node.effects_of(Stop)
    assert node.produce("orders", b"value").error_code is ErrorCode.KAFKA_STORAGE_ERROR
