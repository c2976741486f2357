"""Batches with a right header and checksum, and garbage for records: none may be appended.

If one were, every reader of the partition would meet it: those of the simulator would report it,
too, but here the answer says so at once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NO_TIMESTAMP
from tidelog.sim.workload.world import TopicFacts, World
from tidelog.wire.batch import (
    HEADER_BYTES,
    LENGTH_PREFIX_BYTES,
    read_header,
    seal,
    write_header,
)
from tidelog.wire.compression import Compression
from tidelog.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from tidelog.wire.records import Record, encode_batch
from tidelog.wire.varints import append_varint

API_KEY = 0
FIRST_VERSION = 3
_TIMEOUT_MS = 500


@dataclass(slots=True, frozen=True)
class GarbageRecordsPlan:
    """One batch for one partition, and what is wrong with it."""

    kind: str
    topic: TopicFacts
    partition: int
    batch: bytes


def sample(random: Random, world: World) -> GarbageRecordsPlan:
    topic = world.topics[random.choice(list(world.topics))]
    kind = random.choice(list(_KINDS))
    batch = _KINDS[kind](random)
    return GarbageRecordsPlan(kind, topic, random.randrange(topic.partitions), batch)


def build(plan: GarbageRecordsPlan) -> ProduceRequest:
    data = PartitionProduceData(index=plan.partition, records=plan.batch)
    topic = TopicProduceData(
        name=plan.topic.name, topic_id=plan.topic.topic_id, partition_data=[data]
    )
    return ProduceRequest(acks=-1, timeout_ms=_TIMEOUT_MS, topic_data=[topic])


def classify(response: ProduceResponse) -> ErrorCode:
    return response.responses[0].partition_responses[0].error_code


def predict(world: World, life: int) -> tuple[ErrorCode, ...]:
    """Refused for what it is, or for what the disk does."""
    return (ErrorCode.INVALID_RECORD, *world.write_excuses(life))


def _batch(body: bytes, count: int, *, compression: Compression = Compression.NONE) -> bytes:
    made = encode_batch([Record(0, NO_TIMESTAMP)], base_offset=0)[:HEADER_BYTES] + body
    header = read_header(made)
    write_header(
        made,
        header._replace(
            batch_length=len(made) - LENGTH_PREFIX_BYTES,
            attributes=compression,
            last_offset_delta=count - 1,
            records_count=count,
        ),
    )
    seal(made)
    return bytes(made)


def _sound(random: Random, count: int) -> bytes:
    records = [Record(0, NO_TIMESTAMP, None, random.randbytes(9)) for _ in range(count)]
    return bytes(encode_batch(records, base_offset=0)[HEADER_BYTES:])


def _wrong_length(random: Random) -> bytes:
    body = bytearray()
    append_varint(body, random.choice((2**30, -5, -1, 0, 3, 100)))
    return _batch(bytes(body) + bytes(30), 1)


def _noise(random: Random) -> bytes:
    return _batch(b"\x7f" + random.randbytes(random.randint(20, 60)), random.randint(1, 2))


def _wrong_offset(random: Random) -> bytes:
    """The second record's offset: the byte after its length, attributes and timestamp."""
    first, body = len(_sound(random, 1)), bytearray(_sound(random, 2))
    body[first + 3] = random.choice((0, 4, 1, 60))
    return _batch(bytes(body), 2)


def _wrong_count(random: Random) -> bytes:
    return _batch(_sound(random, 3), random.choice((1, 2, 4)))


def _false_codec(random: Random) -> bytes:
    codec = random.choice((Compression.GZIP, Compression.LZ4, Compression.ZSTD))
    return _batch(_sound(random, 3), 3, compression=codec)


_KINDS: dict[str, Callable[[Random], bytes]] = {
    "wrong length": _wrong_length,
    "noise": _noise,
    "wrong offset": _wrong_offset,
    "wrong count": _wrong_count,
    "false codec": _false_codec,
}
