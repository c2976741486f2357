"""ListOffsets: the ends of a partition, and the first record at or after a time."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from tidelog.model.errors import ErrorCode
from tidelog.sim.checkers.view import EARLIEST, LATEST
from tidelog.sim.history import EntryType
from tidelog.sim.workload.world import TopicFacts, World
from tidelog.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

API_KEY = 2


@dataclass(slots=True, frozen=True)
class LookupPlan:
    """`asked` is a timestamp, EARLIEST or LATEST."""

    topic: TopicFacts
    partition: int
    asked: int

    @property
    def tp(self) -> tuple[str, int]:
        return self.topic.label, self.partition


@dataclass(slots=True, frozen=True)
class LookupOutcome:
    type: EntryType
    offset: int
    timestamp: int
    error: ErrorCode


def sample(random: Random, world: World, *, topic: TopicFacts, partition: int) -> LookupPlan:
    asked = random.choice((LATEST, LATEST, EARLIEST, world.draw_timestamp()))
    return LookupPlan(topic, partition, asked)


def build(plan: LookupPlan) -> ListOffsetsRequest:
    asked = ListOffsetsPartition(partition_index=plan.partition, timestamp=plan.asked)
    return ListOffsetsRequest(
        replica_id=-1,
        topics=[ListOffsetsTopic(name=plan.topic.name, partitions=[asked])],
    )


def classify(plan: LookupPlan, response: ListOffsetsResponse) -> LookupOutcome:
    """A look-up changes nothing: an error is a `fail`."""
    answer = response.topics[0].partitions[0]
    error = answer.error_code
    is_ok = error is ErrorCode.NONE
    return LookupOutcome("ok" if is_ok else "fail", answer.offset, answer.timestamp, error)


def predict(plan: LookupPlan, world: World, life: int) -> tuple[ErrorCode, ...]:
    return world.read_excuses(life, plan.tp)
