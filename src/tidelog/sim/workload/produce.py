"""Produce: batches to one or several partitions; good ones, and some that must be refused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from random import Random
from typing import Literal

from tidelog.model.errors import ErrorCode
from tidelog.sim.history import EntryType
from tidelog.sim.workload.outcome import type_of
from tidelog.sim.workload.payload import Sent, encode_sent
from tidelog.sim.workload.world import TopicFacts, World
from tidelog.wire.batch import HEADER_BYTES
from tidelog.wire.compression import Compression
from tidelog.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

API_KEY = 0
FIRST_VERSION = 3
FIRST_VERSION_BY_ID = 13
_BATCHES_REMEMBERED = 64

Flaw = Literal["none", "corrupt", "too large", "unknown partition", "empty"]
_FLAWS: tuple[Flaw, ...] = ("corrupt", "too large", "unknown partition", "empty")


@dataclass(slots=True, frozen=True)
class BatchPlan:
    """One batch for one partition. Without a producer id it is a plain producer's."""

    topic: TopicFacts
    partition: int
    records: tuple[Sent, ...]
    compression: Compression = Compression.NONE
    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1
    flaw: Flaw = "none"

    @property
    def tp(self) -> tuple[str, int]:
        return self.topic.label, self.partition


@dataclass(slots=True, frozen=True)
class BatchOutcome:
    """What became of a batch. `base_offset` is the answer's, errors' included."""

    type: EntryType
    base_offset: int
    error: ErrorCode


def sample(
    random: Random, world: World, *, topic: TopicFacts, partition: int, may_be_flawed: bool
) -> BatchPlan:
    """A batch of a few records, below the smallest segment's size; a plain producer's is sometimes
    flawed on purpose."""
    count = random.choice((1, 1, 2, 3, 8))
    sizes = (0, 10, 40) if count > 3 else (0, 10, 60, 200)
    records = tuple(
        Sent(world.new_value(), world.draw_timestamp(), random.choice(sizes)) for _ in range(count)
    )
    flaw: Flaw = "none"
    if may_be_flawed and random.random() < 0.05:
        flaw = random.choice(_FLAWS)
    compression = random.choice(
        (Compression.NONE, Compression.NONE, Compression.GZIP, Compression.LZ4, Compression.ZSTD)
    )
    return BatchPlan(topic, partition, records, compression, flaw=flaw)


def build(batches: Sequence[BatchPlan], *, acks: int, timeout_ms: int) -> ProduceRequest:
    """A request carrying at most one batch per partition."""
    topics: dict[str, TopicProduceData] = {}
    for batch in batches:
        data = topics.setdefault(
            batch.topic.name,
            TopicProduceData(
                name=batch.topic.name, topic_id=batch.topic.topic_id, partition_data=[]
            ),
        )
        data.partition_data.append(
            PartitionProduceData(index=_index(batch), records=_encode(batch))
        )
    return ProduceRequest(acks=acks, timeout_ms=timeout_ms, topic_data=list(topics.values()))


def classify(batches: Sequence[BatchPlan], response: ProduceResponse) -> list[BatchOutcome]:
    """One outcome per batch, in the order of the plan."""
    answers: dict[tuple[object, int], PartitionProduceResponse] = {}
    for topic in response.responses:
        for answer in topic.partition_responses:
            answers[topic.name or topic.topic_id, answer.index] = answer
    outcomes = []
    for batch in batches:
        key = (batch.topic.name, _index(batch))
        found = answers.get(key) or answers.get((batch.topic.topic_id, _index(batch)))
        if found is None:
            outcomes.append(BatchOutcome("info", -1, ErrorCode.UNKNOWN_SERVER_ERROR))
        else:
            error = found.error_code
            outcomes.append(BatchOutcome(type_of(error), found.base_offset, error))
    return outcomes


def predict(batch: BatchPlan, world: World, life: int) -> tuple[ErrorCode, ...]:
    """The errors that the flaw, or the state of the disk, explains."""
    flaw_errors: dict[Flaw, tuple[ErrorCode, ...]] = {
        "none": (ErrorCode.REQUEST_TIMED_OUT,),
        "corrupt": (ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_RECORD),
        "too large": (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE),
        "unknown partition": (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,),
        "empty": (ErrorCode.INVALID_RECORD, ErrorCode.CORRUPT_MESSAGE),
    }
    return flaw_errors[batch.flaw] + world.write_excuses(life)


def _index(batch: BatchPlan) -> int:
    return batch.partition + 1000 if batch.flaw == "unknown partition" else batch.partition


@lru_cache(_BATCHES_REMEMBERED)
def _encode(batch: BatchPlan) -> bytes:
    """A batch is sent again and again until somebody answers."""
    records = batch.records
    if batch.flaw == "too large":
        records = (*records[:-1], Sent(records[-1].value, records[-1].timestamp, 70_000))
    encoded = encode_sent(
        records,
        compression=Compression.NONE if batch.flaw == "too large" else batch.compression,
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        base_sequence=batch.base_sequence,
    )
    if batch.flaw == "corrupt":
        encoded[-1] ^= 0x40
    if batch.flaw == "empty":
        del encoded[HEADER_BYTES // 2 :]
    return bytes(encoded)
