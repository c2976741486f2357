"""Records with keys, for topics that are cleaned: written one batch at a time, and read again.

A record's identity is its timestamp, since a tombstone has no value to carry one.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from tidelog.model.errors import ErrorCode
from tidelog.sim.clock import EPOCH_MS
from tidelog.sim.workload.payload import decode_value, encode_value
from tidelog.sim.workload.world import TopicFacts, World
from tidelog.wire.batch import has_valid_crc, iter_batches
from tidelog.wire.errors import DecodeError
from tidelog.wire.messages.fetch import FetchResponse
from tidelog.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from tidelog.wire.records import Record, decode_records, encode_batch

KEYS = 12
_MAX_BATCH_BYTES = 1 << 20


@dataclass(slots=True, frozen=True)
class Put:
    """One record to write; a tombstone deletes its key."""

    key: int
    number: int
    is_tombstone: bool
    size: int

    def to_history(self) -> list[int]:
        return [self.key, self.number, int(self.is_tombstone)]


@dataclass(slots=True, frozen=True)
class Page:
    """One answer: what of the log it covers, and `[offset, key, number, is_tombstone]` each."""

    error: ErrorCode
    log_start: int
    high_watermark: int
    end: int
    records: list[list[int]]


def sample(random: Random, world: World) -> list[Put]:
    """Small enough together for the smallest of segments."""
    return [
        Put(
            random.randrange(KEYS),
            world.new_value(),
            random.random() < 0.2,
            random.choice((0, 50, 100)),
        )
        for _ in range(random.randint(1, 5))
    ]


def build(topic: TopicFacts, puts: list[Put]) -> ProduceRequest:
    records = [
        Record(
            index,
            EPOCH_MS + put.number,
            str(put.key).encode(),
            None if put.is_tombstone else encode_value(put.number, put.size),
        )
        for index, put in enumerate(puts)
    ]
    data = PartitionProduceData(index=0, records=encode_batch(records))
    topic_data = TopicProduceData(name=topic.name, topic_id=topic.topic_id, partition_data=[data])
    return ProduceRequest(acks=-1, timeout_ms=5_000, topic_data=[topic_data])


def read(response: FetchResponse, position: int) -> Page:
    """`DecodeError` if a batch is not sound or a record is not what was sent."""
    data = response.responses[0].partitions[0]
    raw = data.records
    assert raw is None or isinstance(raw, bytes | bytearray | memoryview)
    end, records = position, []
    for header, batch in iter_batches(memoryview(bytes(raw or b""))):
        if not has_valid_crc(batch, header):
            raise DecodeError(f"the batch at offset {header.base_offset} fails its checksum")
        end = header.next_offset
        for record in decode_records(batch, _MAX_BATCH_BYTES):
            number = record.timestamp - EPOCH_MS
            if record.value is not None and decode_value(record.value) != number:
                raise DecodeError(f"offset {record.offset} holds another record's value")
            if record.offset >= position:
                key = int(bytes(record.key or b"-1"))
                records.append([record.offset, key, number, int(record.value is None)])
    return Page(data.error_code, data.log_start_offset, data.high_watermark, end, records)
