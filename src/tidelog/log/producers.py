"""What the log remembers of idempotent producers: enough to refuse gaps and to recognize repeats.

Kafka's rules. Per producer: its epoch and its last five batches. A batch that repeats one of them
is answered with *its* offsets. Otherwise it must follow on: first sequence = last + 1, modulo 2³¹;
a new epoch begins at 0; a lower epoch is refused. Of an unknown producer any sequence is accepted,
since its earlier batches may have been lost to retention. The state is a function of the log
(`note` each batch in order); snapshots merely save the replay. Who is silent for long is forgotten
(`expire`), by when we heard of them, not by their timestamps: old records may be sent today.

And one rule of our own. Producers have several batches under way. If one is refused for the moment
(the disk is full, too few are in sync) and the next is not, Kafka calls the next out of order, or
takes it for the first of a producer that it does not know; then the one before can never be sent
again. Out of order is a hard word: librdkafka begins a new epoch, and what it had sent before and
was not told of is there twice. Here the refused batch is `owed`: until it comes, what follows it is
refused with the same error, which clients answer by sending all of them again, in order. In memory
alone, and for a while: what was under way when the node ended is sent anew.

Batches may also have been lost to damage (`lost_sight`): of whom, nobody knows. A batch that lies
between two that are known was there. It is not out of order, it can't be read, and it is refused
with KAFKA_STORAGE_ERROR, which clients answer by sending it again. Whoever was known before may
have gone on in the damage, and others may have begun there: what comes of them behind all that is
known may be new, or sent again. While other replicas may have what was lost, it is refused like
that, too: to take it could have it there twice once the damage is repaired. Else it is taken.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from crc32c import crc32c

from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NO_PRODUCER, NO_TIMESTAMP
from tidelog.model.limits import BATCHES_REMEMBERED, MAX_PRODUCERS_PER_PARTITION
from tidelog.wire.batch import BatchHeader

_SEQUENCE_MASK = 0x7FFFFFFF

_HEAD = struct.Struct(">4sBqi")
_KNOWS_DAMAGE = 3
_HAS_GAPS = struct.Struct(">?")
_PRODUCERS = {1: struct.Struct(">qhb"), 2: struct.Struct(">qhbq"), 3: struct.Struct(">qhbq?")}
"""By version: 1 knew no timestamps, 2 nothing of damage."""
_BATCH = struct.Struct(">iiqi")
_CRC = struct.Struct(">I")
_MAGIC = b"TDLP"
_VERSION = 3

_OWED_MS = 30_000
"""After that nothing can be under way that was sent before its producer knew of the refusal."""


class Remembered(NamedTuple):
    """One appended batch of a producer."""

    first_sequence: int
    last_sequence: int
    base_offset: int
    last_offset_delta: int

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta


class Producer(NamedTuple):
    """`batches`: the last five of this epoch, oldest first.

    `last_timestamp` is the newest batch's largest. `heard_ms`: when it was appended, if that was in
    this life of the node; it is no function of the log.
    """

    epoch: int
    batches: tuple[Remembered, ...]
    last_timestamp: int = NO_TIMESTAMP
    heard_ms: int = NO_TIMESTAMP


class Owed(NamedTuple):
    """A producer's next batch, which was not taken because of `error`, or was lost."""

    epoch: int
    first_sequence: int
    since_ms: int
    error: ErrorCode


class ProducerView(NamedTuple):
    """One producer as DescribeProducers tells of it."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int


class Producers:
    """Ordered by last append, so that the longest silent is the first to be forgotten."""

    def __init__(self, *, limit: int = MAX_PRODUCERS_PER_PARTITION) -> None:
        self._producers: dict[int, Producer] = {}
        self._owed: dict[int, Owed] = {}
        self._unsure: dict[int, None] = {}
        """Producers of which later batches may have been lost."""
        self._has_gaps = False
        self._limit = limit

    def __len__(self) -> int:
        return len(self._producers)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Producers):
            return NotImplemented
        return self._remembered() == other._remembered()

    __hash__ = None  # type: ignore[assignment]

    def _remembered(self) -> list[tuple[int, int, tuple[Remembered, ...]]]:
        return [(pid, one.epoch, one.batches) for pid, one in self._producers.items()]

    def remembers(self, producer_id: int, base_offset: int) -> bool:
        """Whether the batch at `base_offset` is one whose repetition would be recognized."""
        producer = self._producers.get(producer_id)
        return producer is not None and any(
            batch.base_offset == base_offset for batch in producer.batches
        )

    def describe(self) -> list[ProducerView]:
        return [
            ProducerView(pid, one.epoch, one.batches[-1].last_sequence, one.last_timestamp)
            for pid, one in self._producers.items()
        ]

    def judge(
        self, headers: Sequence[BatchHeader], now_ms: int, *, awaits_repair: bool = False
    ) -> ErrorCode | tuple[int, int] | None:
        """May these batches, one request's, be appended? None: yes. Two offsets: they are there
        already, from the first to the second. An error: no.

        A request is appended whole or not at all, so it is repeated whole or not at all: a mixture
        of old and new batches, or a repeat of batches that do not lie together, is a gap in the
        producer's thinking and refused as one.
        """
        if len(headers) == 1:
            producer = self._producers.get(headers[0].producer_id)
            return self._judge_one(headers[0], producer, now_ms, awaits_repair)
        return self._judge_several(headers, now_ms, awaits_repair)

    def _judge_several(
        self, headers: Sequence[BatchHeader], now_ms: int, awaits_repair: bool
    ) -> ErrorCode | tuple[int, int] | None:
        seen = dict[int, Producer]()
        repeats: list[tuple[int, int]] = []
        for number, header in enumerate(headers):
            pid = header.producer_id
            producer = seen.get(pid) or self._producers.get(pid)
            verdict = self._judge_one(header, producer, now_ms, awaits_repair)
            if isinstance(verdict, ErrorCode):
                return verdict
            if verdict is not None:
                repeats.append(verdict)
            elif header.is_idempotent:
                seen[pid] = _following(producer, header, -1)
            is_mixed = len(repeats) not in (0, number + 1)
            if is_mixed or (len(repeats) > 1 and repeats[-2][1] + 1 != repeats[-1][0]):
                return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        return (repeats[0][0], repeats[-1][1]) if repeats else None

    def _judge_one(
        self, header: BatchHeader, producer: Producer | None, now_ms: int, awaits_repair: bool
    ) -> ErrorCode | tuple[int, int] | None:
        if header.producer_id == NO_PRODUCER:
            return None
        if producer is None:
            if awaits_repair and self._has_gaps:
                return ErrorCode.KAFKA_STORAGE_ERROR
            return self._owed_before(header, now_ms) if self._owed else None
        if header.producer_epoch < producer.epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        is_in_doubt = awaits_repair and header.producer_id in self._unsure
        if not is_in_doubt and _is_next(producer, header):
            return None
        first, last = header.base_sequence, header.last_sequence
        for batch in producer.batches if header.producer_epoch == producer.epoch else ():
            if batch.first_sequence == first and batch.last_sequence == last:
                return batch.base_offset, batch.last_offset
        owed_error = self._owed_before(header, now_ms)
        if owed_error is not None:
            return owed_error
        if is_in_doubt or self._lies_in_gap(producer, header):
            return ErrorCode.KAFKA_STORAGE_ERROR
        if header.producer_id in self._unsure and _is_later(producer, header):
            return None
        return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER

    def _lies_in_gap(self, producer: Producer, header: BatchHeader) -> bool:
        """It was appended and lost to damage: it fits between two remembered batches that do not
        follow on each other, or, if damage hid the producer's beginning, before the first."""
        if header.producer_epoch != producer.epoch:
            return False
        known = producer.batches
        if any(
            _is_before(one.last_sequence, header.base_sequence)
            and _is_before(header.last_sequence, following.first_sequence)
            for one, following in pairwise(known)
        ):
            return True
        is_whole = not self._has_gaps or len(known) == BATCHES_REMEMBERED
        return not is_whole and _is_before(header.last_sequence, known[0].first_sequence)

    def _owed_before(self, header: BatchHeader, now_ms: int) -> ErrorCode | None:
        """Why another batch of this producer, which is to come before this one, was refused."""
        owed = self._owed.get(header.producer_id)
        if owed is None or owed.epoch != header.producer_epoch:
            return None
        is_after = _is_before(owed.first_sequence, header.base_sequence)
        return owed.error if is_after and 0 <= now_ms - owed.since_ms < _OWED_MS else None

    def owe(self, header: BatchHeader, now_ms: int, error: ErrorCode) -> None:
        """The batch was refused, and is to be sent again."""
        pid = header.producer_id
        producer = self._producers.get(pid)
        is_due = producer is None or _is_next(producer, header)
        if pid >= 0 and is_due and self._owed_before(header, now_ms) is None:
            owed = Owed(header.producer_epoch, header.base_sequence, now_ms, error)
            self._note_owed(pid, owed)

    def owe_lost(self, former: Producers) -> None:
        """The end of the log was cut off. Whoever `former` knew from there alone begins again; of a
        former life of the node nothing is under way."""
        error = ErrorCode.NOT_LEADER_OR_FOLLOWER
        for pid, producer in former._producers.items():
            if pid not in self._producers and producer.heard_ms != NO_TIMESTAMP:
                first = producer.batches[0].first_sequence
                self._note_owed(pid, Owed(producer.epoch, first, producer.heard_ms, error))

    def lost_sight(self) -> None:
        """Here in the log batches can't be read: of whom, nobody knows."""
        self._unsure = dict.fromkeys(self._producers)
        self._has_gaps = True

    def _note_owed(self, pid: int, owed: Owed) -> None:
        self._owed.pop(pid, None)
        self._owed[pid] = owed
        if len(self._owed) > self._limit:
            del self._owed[next(iter(self._owed))]

    def note(self, header: BatchHeader, base_offset: int, now_ms: int = NO_TIMESTAMP) -> None:
        """The batch is in the log; live, `now_ms` says since when."""
        pid = header.producer_id
        if pid < 0:
            return
        if self._owed:
            self._owed.pop(pid, None)
        if self._unsure:
            self._unsure.pop(pid, None)
        producers = self._producers
        producers[pid] = _following(producers.pop(pid, None), header, base_offset, now_ms)
        if len(producers) > self._limit:
            del producers[next(iter(producers))]

    def expire(self, now_ms: int, max_idle_ms: int) -> int:
        """Forget those not heard of for longer; gives how many. One restored by a start counts as
        heard of when it is first asked about."""
        expired: list[int] = []
        for pid, producer in self._producers.items():
            if producer.heard_ms == NO_TIMESTAMP:
                self._producers[pid] = producer._replace(heard_ms=now_ms)
            elif now_ms - producer.heard_ms > max_idle_ms:
                expired.append(pid)
            else:
                break
        for pid in expired:
            del self._producers[pid]
            self._unsure.pop(pid, None)
        return len(expired)

    def clear(self) -> None:
        self._producers.clear()
        self._owed.clear()
        self._unsure.clear()
        self._has_gaps = False

    def encode(self, offset: int) -> bytes:
        """The snapshot of the state at `offset`."""
        parts = [_HEAD.pack(_MAGIC, _VERSION, offset, len(self._producers))]
        parts.append(_HAS_GAPS.pack(self._has_gaps))
        pack = _PRODUCERS[_VERSION].pack
        for pid, producer in self._producers.items():
            count, is_unsure = len(producer.batches), pid in self._unsure
            parts.append(pack(pid, producer.epoch, count, producer.last_timestamp, is_unsure))
            parts.extend(_BATCH.pack(*batch) for batch in producer.batches)
        body = b"".join(parts)
        return body + _CRC.pack(crc32c(body))

    def decode(self, data: bytes, offset: int) -> bool:
        """Take over a snapshot; false (and nothing taken) if it is not a sound one of `offset`."""
        body, crc = data[: -_CRC.size], data[-_CRC.size :]
        if len(body) < _HEAD.size or _CRC.pack(crc32c(body)) != crc:
            return False
        magic, version, at, count = _HEAD.unpack_from(body)
        if (magic, at) != (_MAGIC, offset) or not 1 <= version <= _VERSION:
            return False
        layout = _PRODUCERS[version]
        producers: dict[int, Producer] = {}
        unsure: dict[int, None] = {}
        position, has_gaps = _HEAD.size, False
        if version >= _KNOWS_DAMAGE:
            (has_gaps,) = _HAS_GAPS.unpack_from(body, position)
            position += _HAS_GAPS.size
        for _ in range(count):
            pid, epoch, batches, *more = layout.unpack_from(body, position)
            position += layout.size
            if version >= _KNOWS_DAMAGE and more[1]:
                unsure[pid] = None
            end = position + batches * _BATCH.size
            remembered = map(Remembered._make, _BATCH.iter_unpack(body[position:end]))
            producers[pid] = Producer(epoch, tuple(remembered), *more[:1])
            position = end
        self._producers, self._unsure, self._has_gaps = producers, unsure, has_gaps
        return True


def _is_later(producer: Producer, header: BatchHeader) -> bool:
    """It is of the same epoch, and behind all that is known of it."""
    is_behind = _is_before(producer.batches[-1].last_sequence, header.base_sequence)
    return header.producer_epoch == producer.epoch and is_behind


def _is_before(sequence: int, other: int) -> bool:
    """Sequences are counted modulo 2³¹: the nearer way is the one that is meant."""
    return 0 < (other - sequence) & _SEQUENCE_MASK <= _SEQUENCE_MASK // 2


def _is_next(producer: Producer, header: BatchHeader) -> bool:
    """It follows on what is known, or begins a new epoch."""
    if header.producer_epoch != producer.epoch:
        return header.producer_epoch > producer.epoch and header.base_sequence == 0
    due = (producer.batches[-1].last_sequence + 1) & _SEQUENCE_MASK
    return header.base_sequence == due


def _following(
    producer: Producer | None, header: BatchHeader, base_offset: int, now_ms: int = NO_TIMESTAMP
) -> Producer:
    batch = Remembered(
        header.base_sequence, header.last_sequence, base_offset, header.last_offset_delta
    )
    if producer is None or producer.epoch != header.producer_epoch:
        return Producer(header.producer_epoch, (batch,), header.max_timestamp, now_ms)
    batches = (*producer.batches[1 - BATCHES_REMEMBERED :], batch)
    return Producer(producer.epoch, batches, header.max_timestamp, now_ms)
