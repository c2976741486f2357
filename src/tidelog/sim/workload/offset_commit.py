"""OffsetCommit: one partition's offset, by a member of the group or by somebody who is none."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from tidelog.model.errors import ErrorCode
from tidelog.sim.history import EntryType
from tidelog.sim.workload.outcome import type_of
from tidelog.sim.workload.world import TopicFacts, World
from tidelog.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)

API_KEY = 8
FIRST_WITH_INSTANCES = 7
FIRST_WITH_EPOCHS = 9
NO_GENERATION = -1


@dataclass(slots=True, frozen=True)
class CommitPlan:
    """`offset` is a number that nobody else commits, so that a fetch tells whose it is."""

    group: str
    topic: TopicFacts
    partition: int
    offset: int
    generation: int = NO_GENERATION
    member_id: str = ""
    instance_id: str | None = None
    first_version: int = 0
    """Older ones can't say what the plan says."""

    @property
    def tp(self) -> tuple[str, int]:
        return self.topic.label, self.partition


@dataclass(slots=True, frozen=True)
class CommitOutcome:
    type: EntryType
    error: ErrorCode


def sample(random: Random, world: World, *, group: str) -> CommitPlan:
    """By somebody who is no member. Old clients went back as well as forward, and may."""
    topic, partition = world.draw_tp()
    value = world.new_value()
    offset = value if random.random() < 0.8 else 2**40 - value
    return CommitPlan(group, topic, partition, offset)


def build(plan: CommitPlan) -> OffsetCommitRequest:
    """Topics by name and by id, whichever the version knows."""
    partition = OffsetCommitRequestPartition(
        partition_index=plan.partition,
        committed_offset=plan.offset,
        committed_metadata=str(plan.offset),
    )
    topic = OffsetCommitRequestTopic(
        name=plan.topic.name, topic_id=plan.topic.topic_id, partitions=[partition]
    )
    return OffsetCommitRequest(
        group_id=plan.group,
        generation_id_or_member_epoch=plan.generation,
        member_id=plan.member_id,
        group_instance_id=plan.instance_id,
        topics=[topic],
    )


def classify(response: OffsetCommitResponse) -> CommitOutcome:
    error = response.topics[0].partitions[0].error_code
    return CommitOutcome(type_of(error), error)


def predict(plan: CommitPlan, world: World, life: int) -> tuple[ErrorCode, ...]:
    """A member may have been given up at any time; somebody who is none has nothing to lose."""
    excuses = world.coordinator_excuses(life)
    if plan.generation == NO_GENERATION:
        return excuses
    return (
        *excuses,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.STALE_MEMBER_EPOCH,
    )
