"""What a topic's settings have the leader look at within a producer's batch.

Whether a batch can be read at all is decided here, once, before it is appended: afterwards every
reader of the partition would meet it. `records.validation` says how much of it is walked over:

- `full`: each record of each batch, decompressed for that.
- `sampled`: the first 8 records of a batch, as far as they lie within its first 64 KB, and so all
  records of a small batch. Bytes behind those 64 KB are not even copied, however few records there
  are. A compressed batch stays closed, and must begin as its codec does. The cost of a batch is
  bounded, and what a client does wrong each time is noticed the first time; what is wrong deeper in
  a batch is not.
- `header`: nothing. The batch's header is checked anyway (`log/admission.py`).

A compacted topic needs a key from each record, so it is always walked in full. Where a batch was
walked in full and its header has another newest timestamp than its records, the header is put
right, as Kafka does: it is what look-ups by time and retention go by.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tidelog.log.record_spans import body_of
from tidelog.model.settings import TopicSettings
from tidelog.wire.batch import COMPRESSION_MASK, HEADER_BYTES, BatchHeader
from tidelog.wire.compression import begins_like
from tidelog.wire.errors import DecodeError
from tidelog.wire.record_walk import walk_records

SAMPLED_RECORDS = 8
SAMPLED_BYTES = 64 * 1024


class Walked(NamedTuple):
    """What was seen of a batch that was walked in full. `body` is its decompressed records, where
    they were needed."""

    body: bytes | None
    latest_timestamp: int
    keyless: Sequence[int]


@dataclass(frozen=True, slots=True)
class RecordChecks:
    """How much of each batch is looked at."""

    is_full: bool
    is_sampled: bool
    needs_keys: bool

    @property
    def does_nothing(self) -> bool:
        return not (self.is_full or self.is_sampled)

    def look_at(self, batch: memoryview, header: BatchHeader) -> Walked | None:
        """None if not all of it was looked at; `DecodeError` if it can't be read."""
        if self.is_full:
            return self._in_full(batch, header)
        latest = sample(batch, header) if self.is_sampled else None
        return None if latest is None else Walked(None, header.base_timestamp + latest, ())

    def _in_full(self, batch: memoryview, header: BatchHeader) -> Walked:
        if header.attributes & COMPRESSION_MASK:
            body = body_of(batch, header)
        else:
            body = batch[HEADER_BYTES:].tobytes()
        count, keyless = header.records_count, list[int]() if self.needs_keys else None
        latest = walk_records(body, body_bytes=len(body), count=count, most=count, keyless=keyless)
        return Walked(body, header.base_timestamp + latest, keyless or ())


def sample(batch: memoryview, header: BatchHeader) -> int | None:
    """The latest timestamp, relative to the batch's, if all records were walked over.

    HOT PATH: once for each produced batch of a topic with `records.validation=sampled`.
    """
    body, count = batch[HEADER_BYTES:], header.records_count
    compression = header.attributes & COMPRESSION_MASK
    if compression:
        if not begins_like(body, compression):
            raise DecodeError("the records are not compressed as the batch says")
        return None
    size, first = len(body), body[:SAMPLED_BYTES].tobytes()
    latest = walk_records(first, body_bytes=size, count=count, most=SAMPLED_RECORDS)
    return latest if count <= SAMPLED_RECORDS and size <= SAMPLED_BYTES else None


def checks_of(settings: TopicSettings) -> RecordChecks:
    validation, needs_keys = settings.records_validation, settings.is_compacted
    return RecordChecks(
        is_full=needs_keys or validation == "full",
        is_sampled=validation == "sampled",
        needs_keys=needs_keys,
    )
