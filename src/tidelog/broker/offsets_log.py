"""`__consumer_offsets`, the compacted topic that groups are kept in: settings, bytes, reading."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tidelog.groups.decision import GroupRecord
from tidelog.model.clock import Now
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import Offset
from tidelog.partition.replica import Replica
from tidelog.wire.batch import iter_batches
from tidelog.wire.errors import DecodeError
from tidelog.wire.records import Record, decode_records, encode_batch

OFFSETS_TOPIC = "__consumer_offsets"
OFFSETS_CONFIGS = {
    "cleanup.policy": "compact",
    "segment.bytes": str(100 * 1024 * 1024),
    "max.message.bytes": str(64 * 1024 * 1024),
}
"""Kafka's, and room for the group metadata of thousands of members in one batch."""

_READ_BYTES = 1 << 20
_MAX_BATCH_BYTES = 1 << 30


class ShardDamaged(Exception):
    """A partition of the offsets topic can't be read whole: its groups must not be guessed."""


class DecisionRefused(Exception):
    """The log does not take what a coordinator decided, although the disk would."""


def append_records(replica: Replica, records: Sequence[GroupRecord], now: Now) -> None:
    """One decision, one batch: all of it or nothing. `DiskError` or `DecisionRefused` if it could
    not be written."""
    wall_ms = now.wall_ms
    batch = encode_batch(
        [
            Record(index, wall_ms, key, value, headers)
            for index, (key, value, headers, _) in enumerate(records)
        ]
    )
    appended = replica.append(memoryview(batch), now.wall_ms)
    if appended.error is not ErrorCode.NONE:
        raise DecisionRefused(f"{replica.name}: {appended.error.name}")


def read_records(replica: Replica) -> Iterator[Record]:
    """Everything in the partition, in order, read as it is asked for."""
    log = replica.log
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        span = log.read(
            offset, max_bytes=_READ_BYTES, limit_offset=log.log_end_offset, at_least_one=True
        )
        if span is None or isinstance(span, ErrorCode):
            raise ShardDamaged(f"{replica.name} is damaged at offset {offset}")
        for header, batch in iter_batches(memoryview(span.read())):
            try:
                yield from decode_records(batch, _MAX_BATCH_BYTES)
            except DecodeError as error:
                raise ShardDamaged(f"{replica.name} at offset {offset}: {error}") from None
            offset = Offset(header.next_offset)
