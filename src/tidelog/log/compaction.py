"""What compaction keeps: per key the latest record, at its offset. Pure, but for the bytes given.

The rules, for one pass over the closed segments of a log:

- The *latest offset of each key* is collected over the records not compacted yet (the dirty ones),
  as far as the memory for it goes. A record below its key's latest is dropped; so is one without a
  key, which can only be left from a time before the topic was compacted.
- A tombstone (no value) is kept for `delete.retention.ms` from the pass that first met it, so that
  whoever reads from the start has time to see it. That pass writes the *delete horizon* into its
  batch, as Kafka does: attribute bit 6, the base timestamp is the horizon and the records' times
  are counted from it. A later pass drops it, unless something older could not be looked into.
- A batch keeps its offsets, its epoch and its producer's sequence, whatever it loses. Without
  records left it stays for its producer's sake, if its repetition would still be recognized.
  Otherwise it becomes a *filler*: a batch without records and producer that stands for its offsets,
  merged with its neighbours. So the offsets of a log never have a gap, and a gap is always damage.
- A batch that can't be opened, or belongs to a transaction, stays as it is.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import NamedTuple, Protocol

from tidelog.log.admission import DELETE_HORIZON_BIT
from tidelog.log.record_spans import RecordSpan, body_of, record_spans
from tidelog.log.restyle import with_body
from tidelog.log.segment_indexes import MAX_RELATIVE_OFFSET
from tidelog.model.ids import NO_EPOCH, NO_PRODUCER, NO_TIMESTAMP
from tidelog.wire.batch import (
    CONTROL_BIT,
    HEADER_BYTES,
    LENGTH_PREFIX_BYTES,
    MAGIC,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
    BatchHeader,
)
from tidelog.wire.compression import Compression, compress
from tidelog.wire.errors import DecodeError
from tidelog.wire.varints import append_varint, read_varint, read_varlong

RECORD_COST_BYTES = 256
"""A record costs about as much time as reading and writing this many bytes: what a slice of work
is measured in, so that one of small records is not longer than one of large ones."""

RECORDS_AT_ONCE = 1000
"""After so many, whoever does the work may pause."""

_DIGEST_BYTES = 16
ENTRY_BYTES = 176
"""The most that a key costs in memory, measured: digest, offset, the growing dict's share."""

_LATEST_HORIZON = 2**63 - 1
"""What fits into a batch."""

_UNTOUCHABLE = CONTROL_BIT | TRANSACTIONAL_BIT


class LatestOffsets:
    """The latest offset of each key, in bounded memory: keys are kept as digests of 16 bytes, or
    as they are if shorter. Two keys of one digest do not happen."""

    def __init__(self, budget_bytes: int) -> None:
        self.limit = max(1, budget_bytes // ENTRY_BYTES)
        self._offsets: dict[bytes, int] = {}

    def __len__(self) -> int:
        return len(self._offsets)

    def has_room_for(self, records: int) -> bool:
        """A single batch always has: a pass that gets nowhere would be repeated for ever."""
        return not self._offsets or len(self._offsets) + records <= self.limit

    def note(self, key: bytes, offset: int) -> None:
        if len(key) >= _DIGEST_BYTES:
            key = blake2b(key, digest_size=_DIGEST_BYTES).digest()
        self._offsets[key] = offset

    def of(self, key: bytes) -> int:
        """-1 for a key that has not been noted."""
        if len(key) >= _DIGEST_BYTES:
            key = blake2b(key, digest_size=_DIGEST_BYTES).digest()
        return self._offsets.get(key, -1)


def is_opaque(header: BatchHeader) -> bool:
    """Not to be opened: what a transaction wrote counts only once it is known to be committed."""
    return bool(header.attributes & _UNTOUCHABLE)


def note_keys(
    latest: LatestOffsets, batch: memoryview, header: BatchHeader
) -> Generator[int, None, None]:
    """Collect the keys of a batch, if it can be opened. Yields what it has cost so far."""
    if is_opaque(header) or not header.records_count:
        return
    base, number = header.base_offset, 0
    try:
        for _, _, _, delta, key, _ in record_spans(body_of(batch, header), header):
            if key is not None:
                latest.note(key, base + delta)
            number += 1
            if number % RECORDS_AT_ONCE == 0:
                yield RECORDS_AT_ONCE * RECORD_COST_BYTES
    except DecodeError:
        pass  # it stays as it is, with the records that were noted
    yield number % RECORDS_AT_ONCE * RECORD_COST_BYTES


class Remembering(Protocol):
    """Of a log's producers, what matters here."""

    def remembers(self, producer_id: int, base_offset: int) -> bool: ...


@dataclass(slots=True)
class Pass:
    """One pass: what it goes by, and what came of it.

    `now_ms` and `latest_ms`: see `Cleaning.step`.

    Tombstones from `first_dirty` up to `mapped_to` are met for the first time. `is_blind` once
    something was met that could not be looked into: below it may lie older records of any key, so
    tombstones stay from there on.
    """

    latest: LatestOffsets
    producers: Remembering
    first_dirty: int
    mapped_to: int
    now_ms: int
    latest_ms: int
    delete_retention_ms: int
    keeps_tombstones: bool = True
    is_blind: bool = False
    records_dropped: int = 0
    keyless_dropped: int = 0
    unopened: list[int] = field(default_factory=list)


class Compacted(NamedTuple):
    """What becomes of a batch. `batch` None: a filler stands for it. `is_same`: no change."""

    header: BatchHeader
    batch: memoryview | bytearray | None
    is_same: bool


def compact_batch(
    work: Pass, batch: memoryview, header: BatchHeader
) -> Generator[int, None, Compacted]:
    """Yields what it has cost so far."""
    if is_opaque(header):
        work.is_blind = True
        return Compacted(header, batch, True)
    if not header.records_count:
        return _without_records(work, batch, header)
    kept: list[RecordSpan] = []
    try:
        body = body_of(batch, header)
        keyless = yield from _sift(work, header, body, kept)
    except DecodeError:
        work.is_blind = True
        work.unopened.append(header.base_offset)
        return Compacted(header, batch, True)
    work.keyless_dropped += keyless
    work.records_dropped += header.records_count - len(kept)
    if not kept:
        return _without_records(work, batch, header)
    is_marked = _gets_horizon(work, header, kept)
    if len(kept) == header.records_count and not is_marked:
        return Compacted(header, batch, True)
    rewritten = _rewritten(work, header, body, kept, is_marked=is_marked)
    return Compacted(header, rewritten, False)


def _sift(
    work: Pass, header: BatchHeader, body: bytes, kept: list[RecordSpan]
) -> Generator[int, None, int]:
    """Adds to `kept`; gives how many records have no key."""
    drops_tombstones = _may_drop_tombstones(work, header)
    latest_of, base, number, keyless = work.latest.of, header.base_offset, 0, 0
    for span in record_spans(body, header):
        key = span[4]
        if key is None:
            keyless += 1
        elif latest_of(key) <= base + span[3] and not (span[5] and drops_tombstones):
            kept.append(span)
        number += 1
        if number % RECORDS_AT_ONCE == 0:
            yield RECORDS_AT_ONCE * RECORD_COST_BYTES
    yield number % RECORDS_AT_ONCE * RECORD_COST_BYTES
    return keyless


def _may_drop_tombstones(work: Pass, header: BatchHeader) -> bool:
    if not work.keeps_tombstones:
        return True
    has_horizon = bool(header.attributes & DELETE_HORIZON_BIT)
    return has_horizon and work.now_ms >= header.base_timestamp and not work.is_blind


def _gets_horizon(work: Pass, header: BatchHeader, kept: Sequence[RecordSpan]) -> bool:
    """Only where all older records of the keys are compared with the tombstone in this pass."""
    return (
        not header.attributes & DELETE_HORIZON_BIT
        and not work.is_blind
        and work.first_dirty <= header.base_offset < work.mapped_to
        and any(span[5] for span in kept)
    )


def _rewritten(
    work: Pass, header: BatchHeader, body: bytes, kept: list[RecordSpan], *, is_marked: bool
) -> bytearray:
    attributes, base_timestamp = header.attributes, header.base_timestamp
    is_dated_by_log = bool(attributes & TIMESTAMP_TYPE_BIT)
    max_timestamp = header.max_timestamp
    if not is_dated_by_log:
        max_timestamp = base_timestamp + max(span[2] for span in kept)
    if is_marked:
        attributes |= DELETE_HORIZON_BIT
        base_timestamp = min(work.latest_ms + work.delete_retention_ms, _LATEST_HORIZON)
    shift = 0 if is_dated_by_log else header.base_timestamp - base_timestamp
    records = [body[span[0] : span[1]] for span in kept]
    if shift:
        records = [_redated(record, shift) for record in records]
    codec = Compression(header.compression)
    changed = header._replace(
        attributes=attributes,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
        records_count=len(kept),
    )
    return with_body(changed, compress(b"".join(records), codec), codec)


def _redated(record: bytes, shift: int) -> bytes:
    """The record with `shift` added to its distance from the batch's base timestamp."""
    _, start = read_varint(record, 0)
    delta, rest = read_varlong(record, start + 1)
    inside = bytearray(record[start : start + 1])
    append_varint(inside, delta + shift)
    inside += record[rest:]
    out = bytearray()
    append_varint(out, len(inside))
    return bytes(out + inside)


# --- batches without records ------------------------------------------------------------------


def _without_records(work: Pass, batch: memoryview, header: BatchHeader) -> Compacted:
    if not work.producers.remembers(header.producer_id, header.base_offset):
        return Compacted(header, None, is_filler(header))
    if not header.records_count:
        return Compacted(header, batch, True)
    return Compacted(header, emptied(header), False)


def emptied(header: BatchHeader) -> bytearray:
    """The batch without its records: its producer's sequence is all that it says."""
    attributes = header.attributes & TIMESTAMP_TYPE_BIT
    empty = header._replace(attributes=attributes, base_timestamp=NO_TIMESTAMP, records_count=0)
    return with_body(empty, b"", Compression.NONE)


def is_filler(header: BatchHeader) -> bool:
    return not header.records_count and header.producer_id == NO_PRODUCER


def filler(base_offset: int, next_offset: int, leader_epoch: int) -> bytearray:
    """A batch that stands for offsets without records."""
    header = BatchHeader(
        base_offset=base_offset,
        batch_length=HEADER_BYTES - LENGTH_PREFIX_BYTES,
        leader_epoch=leader_epoch,
        magic=MAGIC,
        crc=0,
        attributes=0,
        last_offset_delta=next_offset - base_offset - 1,
        base_timestamp=NO_TIMESTAMP,
        max_timestamp=NO_TIMESTAMP,
        producer_id=NO_PRODUCER,
        producer_epoch=-1,
        base_sequence=-1,
        records_count=0,
    )
    return with_body(header, b"", Compression.NONE)


class Gap:
    """Offsets without records that are still to be written as one filler."""

    def __init__(self) -> None:
        self.base_offset = self.next_offset = -1
        self.leader_epoch = int(NO_EPOCH)

    @property
    def is_open(self) -> bool:
        return self.base_offset >= 0

    def takes(self, header: BatchHeader) -> bool:
        """One filler is of one leader epoch, and its length has 31 bits."""
        return (
            self.is_open
            and header.leader_epoch == self.leader_epoch
            and header.next_offset - self.base_offset <= MAX_RELATIVE_OFFSET
        )

    def add(self, header: BatchHeader) -> None:
        if not self.is_open:
            self.base_offset, self.leader_epoch = header.base_offset, header.leader_epoch
        self.next_offset = header.next_offset

    def close(self) -> bytearray:
        batch = filler(self.base_offset, self.next_offset, self.leader_epoch)
        self.base_offset = -1
        return batch
