"""ConsumerGroupHeartbeat: a member of the newer protocol (KIP-848) joins, lives and leaves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from tidelog.model.errors import ErrorCode
from tidelog.sim.workload.world import World
from tidelog.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

API_KEY = 68
FIRST_WITH_REGEX = 1
JOINING = 0
LEAVING = -1
LEAVING_FOR_A_WHILE = -2

Owned = tuple[tuple[str, int], ...]
"""Partitions by the topic's id, as text, because topics that match a regex come and go."""


@dataclass(slots=True, frozen=True)
class BeatPlan:
    """`topics` and `regex` are what the member is subscribed to. That is said on joining, and
    whenever an answer was lost (`is_full`): then the coordinator tells all in its turn."""

    group: str
    member_id: str
    epoch: int
    owned: Owned
    rebalance_timeout_ms: int
    topics: Sequence[str] | None = None
    regex: str | None = None
    instance_id: str | None = None
    assignor: str | None = None
    is_full: bool = False


@dataclass(slots=True, frozen=True)
class Beaten:
    """`assigned` is None where it has not changed."""

    error: ErrorCode
    member_id: str
    epoch: int
    assigned: Owned | None


def build(plan: BeatPlan) -> ConsumerGroupHeartbeatRequest:
    is_full = plan.epoch == JOINING or plan.is_full
    topics: dict[str, list[int]] = {}
    for topic, partition in plan.owned:
        topics.setdefault(topic, []).append(partition)
    return ConsumerGroupHeartbeatRequest(
        group_id=plan.group,
        member_id=plan.member_id,
        member_epoch=plan.epoch,
        instance_id=plan.instance_id,
        rebalance_timeout_ms=plan.rebalance_timeout_ms if is_full else -1,
        subscribed_topic_names=list(plan.topics) if is_full and plan.topics else None,
        subscribed_topic_regex=plan.regex if is_full else None,
        server_assignor=plan.assignor if is_full else None,
        topic_partitions=[
            TopicPartitions(topic_id=UUID(topic), partitions=own) for topic, own in topics.items()
        ],
    )


def classify(response: ConsumerGroupHeartbeatResponse) -> Beaten:
    assigned = None
    if response.assignment is not None:
        assigned = tuple(
            sorted(
                (str(topic.topic_id), partition)
                for topic in response.assignment.topic_partitions
                for partition in topic.partitions
            )
        )
    return Beaten(response.error_code, response.member_id or "", response.member_epoch, assigned)


def predict(plan: BeatPlan, world: World, life: int) -> tuple[ErrorCode, ...]:
    """Somebody new is always welcome, except in the place of an instance that has not left."""
    excuses = world.coordinator_excuses(life)
    if plan.epoch == JOINING:
        is_static = plan.instance_id is not None
        return (*excuses, ErrorCode.UNRELEASED_INSTANCE_ID) if is_static else excuses
    return (
        *excuses,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.FENCED_MEMBER_EPOCH,
        ErrorCode.FENCED_INSTANCE_ID,
    )
