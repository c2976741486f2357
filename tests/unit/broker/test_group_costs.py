"""What group coordination costs: calls so that it is the same every time.

The members of other groups, or of the same, cost nothing. A turn of the clock costs what is due.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.support.call_counts import python_calls_of
from tests.support.group_driver import GroupDriver
from tests.support.node_driver import NodeDriver
from tests.unit.broker.test_call_budgets import Meter

from tidelog.groups.coordinator import Coordinator
from tidelog.groups.group import Generation
from tidelog.groups.members import Member
from tidelog.groups.records import GroupMetadataKey, record
from tidelog.groups.timers import STALE_PER_LOOK
from tidelog.model.clock import Now
from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from tidelog.wire.messages.find_coordinator import FindCoordinatorRequest
from tidelog.wire.messages.heartbeat import HeartbeatRequest
from tidelog.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from tidelog.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tidelog.wire.messages.sync_group import SyncGroupRequest

CLASSIC, CONSUMER, COMMIT = 4, 1, 8
"""Versions."""


@pytest.fixture
def node(tmp_path: Path) -> NodeDriver:
    node = NodeDriver(tmp_path, offsets_topic_num_partitions="1")
    node.create_topic("orders")
    node.request(FindCoordinatorRequest(coordinator_keys=["billing"]))
    return node


def beat(node: NodeDriver, group_id: str = "billing") -> HeartbeatRequest:
    """Of the only member of a stable group."""
    join = JoinGroupRequest(
        group_id=group_id,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=60_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )
    number = node.submit(join, version=3)
    node.advance(3_000)
    joined = node.responses[number]
    who = {"generation_id": joined.generation_id, "member_id": joined.member_id}
    node.request(SyncGroupRequest(group_id=group_id, **who), version=3)
    return HeartbeatRequest(group_id=group_id, **who)


def consumer_beat(node: NodeDriver) -> ConsumerGroupHeartbeatRequest:
    join = ConsumerGroupHeartbeatRequest(
        group_id="shipping",
        member_id="one",
        member_epoch=0,
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=["orders"],
        topic_partitions=[],
    )
    joined = node.request(join, version=CONSUMER)
    return ConsumerGroupHeartbeatRequest(
        group_id="shipping", member_id="one", member_epoch=joined.member_epoch
    )


def commit(member: HeartbeatRequest, offset: int = 1) -> OffsetCommitRequest:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    return OffsetCommitRequest(
        group_id=member.group_id,
        generation_id_or_member_epoch=member.generation_id,
        member_id=member.member_id,
        topics=[OffsetCommitRequestTopic(name="orders", partitions=[partition])],
    )


def test_a_classic_heartbeat_keeps_to_its_budget(node: NodeDriver) -> None:
    assert Meter(node).request(beat(node), CLASSIC) <= 57


def test_a_consumer_heartbeat_that_says_nothing_new_keeps_to_its_budget(node: NodeDriver) -> None:
    assert Meter(node).request(consumer_beat(node), CONSUMER) <= 60


def test_a_heartbeat_leaves_no_row_and_no_deadline_to_look_at(node: NodeDriver) -> None:
    for request, version in ((beat(node), CLASSIC), (consumer_beat(node), CONSUMER)):
        coordinators, deadline = node.node.state.coordinators, node.node.next_deadline()
        node.now_ms += 1
        assert node.request(request, version=version).error_code is ErrorCode.NONE
        assert not len(node.node.state.pending)
        assert not any(shard.waiting or shard.outbox for shard in coordinators._shards.values())
        assert node.node.next_deadline() == deadline


def test_a_heartbeat_is_answered_when_what_it_tells_is_committed(node: NodeDriver) -> None:
    """Otherwise a member could be told of what a power failure takes back."""
    requests: list[tuple[Any, int]] = [(beat(node), CLASSIC), (consumer_beat(node), CONSUMER)]
    member = requests[0][0]
    node.holds_flushes = True
    node.submit(commit(member), version=COMMIT)
    numbers = [
        node.submit(request, version=version, connection=node.connect())
        for request, version in requests
    ]
    assert not node.responses.keys() & set(numbers)
    node.finish_flushes()
    assert [node.responses[number].error_code for number in numbers] == [ErrorCode.NONE] * 2


def load(coordinator: Coordinator, now: Now, *, groups: int, members: int = 1) -> list[str]:
    """Stable groups, as a coordinator finds them in its log; their names."""
    names = [f"group-{number}" for number in range(groups)]
    for name in names:
        recorded = {
            f"member-{number}": Member(
                member_id=f"member-{number}",
                instance_id=None,
                client_id="",
                client_host="",
                rebalance_timeout_ms=60_000,
                session_timeout_ms=10_000,
                subscription=b"",
            )
            for number in range(members)
        }
        generation = Generation(generation=1, leader="member-0", members=recorded)
        coordinator.replay(*record(GroupMetadataKey(group=name), generation.recorded()))
    coordinator.loaded(now)
    return names


def test_ten_thousand_other_members_make_no_heartbeat_dearer(node: NodeDriver) -> None:
    member, meter = beat(node), Meter(node)
    alone = meter.request(member, CLASSIC)
    coordinator = node.node.state.coordinators._shards[0].coordinator
    load(coordinator, node.now, groups=1_000, members=10)
    assert len(coordinator.timers) > 10_000
    assert meter.request(member, CLASSIC) == alone


def test_a_turn_of_the_clock_looks_at_the_group_that_is_due_alone() -> None:
    def calls_when_one_expires(groups: int) -> int:
        driver = GroupDriver()
        load(driver.coordinator, driver.now, groups=groups)
        driver.join(group="due", session_timeout_ms=6_000)
        driver.advance(5_999)
        driver.now_ms += 1
        calls, decision = python_calls_of(lambda: driver.coordinator.tick(driver.now))
        assert decision.records, "the member's session is over"
        return calls

    calls_when_one_expires(1)  # the first use of a codec makes it
    assert calls_when_one_expires(1_000) <= calls_when_one_expires(1)


def test_postponed_sessions_are_looked_at_a_few_at_a_time() -> None:
    """All have the same deadline, as after a start, and all have been heard of since."""
    driver = GroupDriver()
    coordinator = driver.coordinator
    names = load(coordinator, driver.now, groups=1_000)
    driver.now_ms += 5_000
    for name in names:
        request = HeartbeatRequest(group_id=name, generation_id=1, member_id="member-0")
        coordinator.answer_heartbeat(driver.now, request)
    driver.now_ms += 5_000
    looks = 0
    while (coordinator.next_deadline() or 0) <= driver.now_ms:
        calls, decision = python_calls_of(lambda: coordinator.tick(driver.now))
        assert calls <= 5 * STALE_PER_LOOK
        assert not decision.records, "nobody's session is over yet"
        looks += 1
    assert looks >= len(names) // (3 * STALE_PER_LOOK)
    assert coordinator.next_deadline() == driver.now_ms + 5_000


def test_a_commit_keeps_to_its_budget(node: NodeDriver) -> None:
    """The frame's step and that of the flush."""
    assert Meter(node).request(commit(beat(node)), COMMIT) <= 207
