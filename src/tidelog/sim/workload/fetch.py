"""Fetch: a poll of an assigned consumer, with or without a fetch session (KIP-227)."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from tidelog.model.errors import ErrorCode
from tidelog.sim.history import Partition
from tidelog.sim.workload.payload import ReadBatch
from tidelog.sim.workload.world import TopicFacts, World
from tidelog.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
)

API_KEY = 1
FIRST_SESSION_VERSION = 7
FIRST_VERSION_BY_ID = 13


@dataclass(slots=True, frozen=True)
class FetchPlan:
    """Positions by partition. A running session must be told what `changed`, and which partitions
    are to be left out from now on (`forgotten`)."""

    topics: dict[str, TopicFacts]
    positions: dict[Partition, int]
    changed: tuple[Partition, ...]
    version: int
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    partition_max_bytes: int
    session_id: int = 0
    session_epoch: int = -1
    isolation_level: int = 0
    forgotten: tuple[Partition, ...] = ()
    leader_epochs: dict[Partition, int] = field(default_factory=dict)
    """Which leader the client believes in, if it says so."""


@dataclass(slots=True)
class PolledPartition:
    """One partition's share of the answer."""

    error: ErrorCode = ErrorCode.NONE
    high_watermark: int = -1
    batches: list[ReadBatch] = field(default_factory=list)


@dataclass(slots=True)
class Polled:
    """The whole answer. In a session, partitions without news are absent."""

    error: ErrorCode
    session_id: int
    partitions: dict[Partition, PolledPartition]


def sample(
    random: Random,
    world: World,
    *,
    positions: dict[Partition, int],
    topics: dict[str, TopicFacts],
    version: int,
) -> FetchPlan:
    """How much to ask for, and how long to wait for it."""
    return FetchPlan(
        topics=topics,
        positions=dict(positions),
        changed=tuple(positions),
        version=version,
        max_wait_ms=random.choice((0, 5, 50, 500)),
        min_bytes=random.choice((0, 1, 1, 300)),
        max_bytes=random.choice((1, 500, 5_000, 1 << 20)),
        partition_max_bytes=random.choice((1, 300, 3_000, 1 << 20)),
        isolation_level=random.randint(0, 1),
    )


def build(plan: FetchPlan) -> FetchRequest:
    """The request; a session that runs is told only what changed."""
    topics: dict[str, FetchTopic] = {}
    for label, number in plan.changed:
        facts = plan.topics[label]
        topic = topics.setdefault(
            label, FetchTopic(topic=facts.name, topic_id=facts.topic_id, partitions=[])
        )
        topic.partitions.append(
            FetchPartition(
                partition=number,
                current_leader_epoch=plan.leader_epochs.get((label, number), -1),
                fetch_offset=plan.positions[label, number],
                partition_max_bytes=plan.partition_max_bytes,
            )
        )
    return FetchRequest(
        max_wait_ms=plan.max_wait_ms,
        min_bytes=plan.min_bytes,
        max_bytes=plan.max_bytes,
        isolation_level=plan.isolation_level,
        session_id=plan.session_id,
        session_epoch=plan.session_epoch,
        topics=list(topics.values()),
        forgotten_topics_data=[
            ForgottenTopic(
                topic=plan.topics[label].name,
                topic_id=plan.topics[label].topic_id,
                partitions=[number],
            )
            for label, number in plan.forgotten
        ],
    )


def classify(plan: FetchPlan, response: FetchResponse, world: World) -> Polled:
    """The answer by partition; `DecodeError` if a batch is not sound."""
    labels = {facts.name: label for label, facts in plan.topics.items()}
    by_id = {facts.topic_id: label for label, facts in plan.topics.items()}
    polled = Polled(response.error_code, response.session_id, {})
    for topic in response.responses:
        label = labels.get(topic.topic) or by_id.get(topic.topic_id) or f"?{topic.topic}"
        for data in topic.partitions:
            records = data.records
            assert records is None or isinstance(records, bytes | bytearray | memoryview)
            polled.partitions[label, data.partition_index] = PolledPartition(
                error=data.error_code,
                high_watermark=data.high_watermark,
                batches=world.reader.read(bytes(records or b"")),
            )
    return polled


def predict(tp: Partition, world: World, life: int) -> tuple[ErrorCode, ...]:
    """Past the end is the client's mistake, and C20's to judge."""
    return (ErrorCode.OFFSET_OUT_OF_RANGE, *world.read_excuses(life, tp))
