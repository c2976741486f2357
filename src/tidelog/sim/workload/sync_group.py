"""SyncGroup: the leader hands in who gets what, and everybody receives their share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tidelog.model.errors import ErrorCode
from tidelog.sim.history import Partition
from tidelog.sim.workload.join_group import PROTOCOL, PROTOCOL_TYPE
from tidelog.sim.workload.world import World
from tidelog.wire.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    TopicPartition,
    decode_assignment,
    encode_assignment,
)
from tidelog.wire.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)

API_KEY = 14
FIRST_WITH_INSTANCES = 3


@dataclass(slots=True, frozen=True)
class SyncPlan:
    """`shares`, by member id, is the leader's; the others bring nothing."""

    group: str
    generation: int
    member_id: str
    shares: Mapping[str, Sequence[Partition]] = field(default_factory=dict)
    instance_id: str | None = None


@dataclass(slots=True, frozen=True)
class Synced:
    share: tuple[Partition, ...]
    error: ErrorCode


def build(plan: SyncPlan) -> SyncGroupRequest:
    return SyncGroupRequest(
        group_id=plan.group,
        generation_id=plan.generation,
        member_id=plan.member_id,
        group_instance_id=plan.instance_id,
        protocol_type=PROTOCOL_TYPE,
        protocol_name=PROTOCOL,
        assignments=[
            SyncGroupRequestAssignment(member_id=member_id, assignment=_encode(share))
            for member_id, share in plan.shares.items()
        ],
    )


def _encode(share: Sequence[Partition]) -> bytes:
    topics: dict[str, list[int]] = {}
    for topic, partition in share:
        topics.setdefault(topic, []).append(partition)
    assigned = [TopicPartition(topic=topic, partitions=own) for topic, own in topics.items()]
    return encode_assignment(ConsumerProtocolAssignment(assigned_partitions=assigned))


def classify(response: SyncGroupResponse) -> Synced:
    """No bytes at all are a share of nothing."""
    if response.error_code is not ErrorCode.NONE or not response.assignment:
        return Synced((), response.error_code)
    assignment = decode_assignment(response.assignment)
    share = tuple(
        (topic.topic, partition)
        for topic in assignment.assigned_partitions
        for partition in topic.partitions
    )
    return Synced(tuple(sorted(share)), response.error_code)


def predict(world: World, life: int) -> tuple[ErrorCode, ...]:
    """The group may have gone on without the member."""
    return (
        *world.coordinator_excuses(life),
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.REBALANCE_IN_PROGRESS,
    )
