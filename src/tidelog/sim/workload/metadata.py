"""Metadata: what exists and who leads it."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from uuid import UUID

from tidelog.model.errors import ErrorCode
from tidelog.sim.workload.world import TopicFacts, World
from tidelog.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

API_KEY = 3


@dataclass(slots=True, frozen=True)
class MetadataPlan:
    """`name` None asks for everything; `may_create` a topic that does not exist yet."""

    name: str | None
    may_create: bool = False


@dataclass(slots=True, frozen=True)
class Seen:
    """One topic in the answer."""

    topic_id: UUID
    partitions: int
    leaders: tuple[int, ...]
    error: ErrorCode


def sample(random: Random, world: World) -> MetadataPlan:
    names = [*world.topics, None]
    return MetadataPlan(random.choice(names))


def build(plan: MetadataPlan) -> MetadataRequest:
    topics = None if plan.name is None else [MetadataRequestTopic(name=plan.name)]
    return MetadataRequest(topics=topics, allow_auto_topic_creation=plan.may_create)


def classify(response: MetadataResponse) -> dict[str, Seen]:
    return {
        topic.name or "": Seen(
            topic.topic_id,
            len(topic.partitions),
            tuple(partition.leader_id for partition in topic.partitions),
            topic.error_code,
        )
        for topic in response.topics
    }


def predict(facts: TopicFacts, seen: Seen | None) -> str | None:
    """What is wrong with what was said of a topic that exists, if anything."""
    if seen is None:
        return f"{facts.name} is missing from the metadata"
    if seen.error is not ErrorCode.NONE:
        return f"{facts.name} is answered with {seen.error.name}"
    if seen.partitions != facts.partitions:
        return f"{facts.name} has {seen.partitions} partitions, not {facts.partitions}"
    return None
