"""A wall clock that jumps takes nothing away from a node, however far it jumps."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from tests.support.node_driver import NodeDriver, produce_request
from tests.unit.broker.test_cleaning import HOUR_MS, delete, fill, latest_by_key, make, turns
from tests.unit.broker.test_groups import commit, committed, find

from tidelog.controller.configs import Operation
from tidelog.model.clock_settings import CLOCK_CONFIRMED
from tidelog.model.errors import ErrorCode
from tidelog.sim.disk import SimDisk
from tidelog.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tidelog.wire.records import Record, encode_batch

DAY_MS = 24 * HOUR_MS
CHECK_MS = 700_000
"""More than the time between two looks for what is too old."""


@pytest.fixture
def node(tmp_path: Path) -> NodeDriver:
    """Its clock is believed, and nothing is old yet."""
    idle_ms = str(2**31 - 1)
    made = NodeDriver(tmp_path, offsets_topic_num_partitions="1", connections_max_idle_ms=idle_ms)
    made.advance(HOUR_MS)
    return made


def kept_under_jump(node: NodeDriver, *jumps_ms: int) -> None:
    """Records, an offset and a producer are there before, and after each jump."""
    leader = make(node, retention_ms=str(7 * DAY_MS))
    fill(node, 30)
    batch = encode_batch(
        [Record(0, 1, b"key-1", b"once")], producer_id=5, producer_epoch=0, base_sequence=0
    )
    node.request(produce_request("orders", bytes(batch)), version=9)
    find(node)
    assert commit(node, 10) is ErrorCode.NONE
    for by_ms in jumps_ms:
        node.wall_ahead_ms += by_ms
        node.advance(CHECK_MS)
        turns(node)
        assert leader.log.log_start_offset == 0
        assert committed(node) == [10]
        assert len(leader.log.producers) == 1


@pytest.mark.parametrize("by_ms", [8 * DAY_MS, 236 * 365 * DAY_MS])
def test_a_jump_ahead_and_back_deletes_nothing(node: NodeDriver, by_ms: int) -> None:
    kept_under_jump(node, by_ms, -by_ms)
    assert len([text for text in node.reports if "jumped ahead" in text]) == 1
    node.advance(HOUR_MS)
    turns(node)
    assert committed(node) == [10]
    assert len([text for text in node.reports if "age-based deletion goes on" in text]) == 2


@pytest.mark.parametrize(
    "wall_ms", [-62_135_596_800_000, -86_400_000, -1, 9_223_372_036_854, 300_000_000_000_000]
)
def test_no_wall_clock_breaks_a_node(node: NodeDriver, wall_ms: int) -> None:
    kept_under_jump(node, wall_ms - node.now.wall_ms)
    node.wall_ahead_ms += wall_ms - node.now.wall_ms
    fill(node, 3)
    assert delete(node, 2) == (ErrorCode.NONE, 2)
    node.restart()
    assert committed(node) == [10]
    node.advance(HOUR_MS)
    turns(node)


def test_an_offset_committed_while_the_clock_was_behind_is_not_old_afterwards(
    node: NodeDriver,
) -> None:
    make(node)
    find(node)
    assert commit(node, 1) is ErrorCode.NONE
    node.wall_ahead_ms -= 8 * DAY_MS
    node.advance(1000)
    assert commit(node, 2) is ErrorCode.NONE
    node.wall_ahead_ms += 8 * DAY_MS
    node.advance(HOUR_MS)
    turns(node)
    assert committed(node) == [2]


def test_a_node_started_under_a_wrong_clock_waits_before_it_deletes(node: NodeDriver) -> None:
    leader = make(node, retention_ms=str(7 * DAY_MS))
    fill(node, 30)
    node.wall_ahead_ms += 8 * DAY_MS
    node.restart()
    node.advance(CHECK_MS)
    turns(node)
    node.wall_ahead_ms -= 8 * DAY_MS
    node.advance(HOUR_MS)
    turns(node)
    leader = node.node.state.replicas.find("orders", 0)  # type: ignore[assignment]
    assert leader.log.log_start_offset == 0


def test_a_clock_that_stays_where_it_jumped_to_is_believed_in_the_end(node: NodeDriver) -> None:
    leader = make(node, retention_ms=str(7 * DAY_MS))
    fill(node, 30)
    node.wall_ahead_ms += 8 * DAY_MS
    node.advance(1000)
    node.advance(HOUR_MS)
    turns(node)
    assert leader.log.log_start_offset == 30


def configure(node: NodeDriver, kind: int, resource_name: str, name: str, value: str) -> None:
    config = AlterableConfig(name=name, config_operation=Operation.SET, value=value)
    resource = AlterConfigsResource(
        resource_type=kind, resource_name=resource_name, configs=[config]
    )
    answer = node.request(IncrementalAlterConfigsRequest(resources=[resource]))
    assert answer.responses[0].error_code is ErrorCode.NONE


def confirm_clock(node: NodeDriver) -> None:
    configure(node, 4, "", CLOCK_CONFIRMED, str(node.now.wall_ms))


def test_an_operator_confirms_the_clock(node: NodeDriver) -> None:
    leader = make(node, retention_ms=str(7 * DAY_MS))
    fill(node, 30)
    node.wall_ahead_ms += 8 * DAY_MS
    node.advance(1000)
    confirm_clock(node)
    node.advance(1000)
    node.advance(300_000)
    turns(node)
    assert leader.log.log_start_offset == 30
    assert any("an operator has confirmed" in text for text in node.reports)


def test_a_disk_that_fills_up_after_a_start_is_freed_by_size_at_once_and_by_age_on_confirmation(
    tmp_path: Path,
) -> None:
    disk = SimDisk(Random(1))
    idle_ms = str(2**31 - 1)
    node = NodeDriver(tmp_path, disk, connections_max_idle_ms=idle_ms)
    leader = make(node)
    fill(node, 60)
    disk.faults.capacity_bytes = disk.used_bytes()
    configure(node, 2, "orders", "retention.ms", "1000")
    node.advance(CHECK_MS)
    turns(node)
    assert leader.log.log_start_offset == 0, "the clock has not been steady for long enough"
    configure(node, 2, "orders", "retention.bytes", "4096")
    node.advance(310_000)
    turns(node)
    assert 0 < leader.log.log_start_offset < 50
    confirm_clock(node)
    node.advance(1000)
    node.advance(310_000)
    turns(node)
    assert leader.log.log_start_offset >= 50


def test_a_tombstone_marked_while_the_clock_was_behind_stays_its_time(node: NodeDriver) -> None:
    leader = make(node, cleanup_policy="compact", min_cleanable_dirty_ratio="0.01")
    node.wall_ahead_ms -= 8 * DAY_MS
    node.advance(1000)
    fill(node, 20, keys=2)
    tombstone = encode_batch([Record(0, 1, b"gone", None)])
    node.request(produce_request("orders", bytes(tombstone)), version=9)
    fill(node, 20, keys=2)
    node.advance(15_001)
    turns(node)
    node.wall_ahead_ms += 8 * DAY_MS
    node.advance(HOUR_MS)
    fill(node, 20, keys=2)
    node.advance(15_001)
    turns(node)
    assert b"gone" in latest_by_key(leader)
