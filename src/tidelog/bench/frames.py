"""The requests that the raw generators send, built once before a run."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass

from tidelog.wire.messages.api_versions import ApiVersionsRequest
from tidelog.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tidelog.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tidelog.wire.records import Record, encode_batch
from tidelog.wire.requests import encode_request

PRODUCE_VERSION = 9
FETCH_VERSION = 12
API_VERSIONS_VERSION = 0
"""Versions that this node and Apache Kafka 4 both serve, naming topics by name."""

CLIENT_ID = "bench"
ACKS_LEADER, ACKS_ALL = 1, -1
PRODUCE_TIMEOUT_MS = 30_000
FETCH_WAIT_MS = 500

_MARK_OFFSET = 0x1122334455667788


@dataclass(frozen=True, slots=True)
class Shape:
    """What one batch holds: records of equal size, no keys, no compression."""

    value_bytes: int
    records: int

    @property
    def data_bytes(self) -> int:
        """What a figure counts: the values, not the framing around them."""
        return self.value_bytes * self.records


KILOBYTE = Shape(value_bytes=1_000, records=1_000)
HUNDRED_BYTES = Shape(value_bytes=100, records=9_000)
SMALL_BATCH = Shape(value_bytes=1_000, records=100)
SINGLE = Shape(value_bytes=100, records=1)
SINGLE_KILOBYTE = Shape(value_bytes=1_000, records=1)


def record_batch(shape: Shape, timestamp_ms: int) -> bytes:
    """A sealed batch. The values differ from each other, so that nobody can cheat by sameness."""
    records = [
        Record(offset, timestamp_ms, None, _value(offset, shape.value_bytes))
        for offset in range(shape.records)
    ]
    return bytes(encode_batch(records, base_offset=0))


def key_of(number: int) -> bytes:
    return b"key-%08d" % number


def keyed_batch(keys: Iterable[int], *, value_bytes: int, timestamp_ms: int) -> bytes:
    """A sealed batch with a record for each of `keys`: what compaction works on."""
    records = [
        Record(offset, timestamp_ms, key_of(key), _value(key, value_bytes))
        for offset, key in enumerate(keys)
    ]
    return bytes(encode_batch(records, base_offset=0))


def _value(number: int, size: int) -> bytes:
    seed = b"%08x" % (number * 2_654_435_761 % 2**32)
    return (seed * (size // len(seed) + 1))[:size]


def produce_frames(
    topic: str, partitions: Iterable[int], *, batch: bytes, acks: int
) -> list[bytes]:
    """One request per partition, each with the same batch."""
    return [_produce_frame(topic, partition, batch=batch, acks=acks) for partition in partitions]


def _produce_frame(topic: str, partition: int, *, batch: bytes, acks: int) -> bytes:
    request = ProduceRequest(
        acks=acks,
        timeout_ms=PRODUCE_TIMEOUT_MS,
        topic_data=[
            TopicProduceData(
                name=topic, partition_data=[PartitionProduceData(index=partition, records=batch)]
            )
        ],
    )
    return encode_request(request, PRODUCE_VERSION, correlation_id=1, client_id=CLIENT_ID)


def fetch_frame(topic: str, *, max_bytes: int) -> tuple[bytes, int]:
    """A fetch of partition 0, and where in it the offset lies: the generator writes its own."""
    request = FetchRequest(
        max_wait_ms=FETCH_WAIT_MS,
        min_bytes=1,
        max_bytes=max_bytes,
        topics=[
            FetchTopic(
                topic=topic,
                partitions=[
                    FetchPartition(
                        partition=0, fetch_offset=_MARK_OFFSET, partition_max_bytes=max_bytes
                    )
                ],
            )
        ],
    )
    frame = encode_request(request, FETCH_VERSION, correlation_id=1, client_id=CLIENT_ID)
    position = frame.index(struct.pack(">q", _MARK_OFFSET))
    return frame, position


def api_versions_frame() -> bytes:
    """The smallest request there is."""
    return encode_request(
        ApiVersionsRequest(), API_VERSIONS_VERSION, correlation_id=1, client_id=CLIENT_ID
    )
