"""Above the mark, batch by batch: what recovery keeps, what it steps over, and where the log ends.

The mark trails what was flushed; the note beside it may say more (`marks.py`). So there are two
kinds of unreadable bytes above the mark:

- Below the flushed offset they are *damage*: acknowledged records may have been there. They become
  a hole that reaches to the next batch that is right, and what follows is kept.
- At the flushed offset or beyond they are what a crash leaves of writes that were never synced: the
  log ends there.
- Behind the last batch of a closed segment they hold no offsets at all, and are no part of the log.

Offset and leader epoch of a batch lie outside its checksum. An offset is checked against the one
that is due, an epoch against those around it: it never falls, and never exceeds `latest_epoch`. So
where it falls in the next batch, it is the batch that raised it which is wrong.
"""

from __future__ import annotations

from typing import NamedTuple

from tidelog.log import scan
from tidelog.log.epochs import Epochs
from tidelog.log.segment import Segment
from tidelog.model.ids import NO_EPOCH
from tidelog.wire.batch import BatchHeader

MAX_OFFSET = 2**63 - 1


class _Raise(NamedTuple):
    """The last batch that raised the epoch."""

    segment: Segment
    position: int
    offset: int


class TailScan:
    """One recovery's. `due` is the offset that must come next."""

    def __init__(
        self,
        epochs: Epochs,
        *,
        flushed_offset: int,
        latest_epoch: int,
        checks_crc: bool,
    ) -> None:
        self.due = 0
        self.has_read = False
        """There was a batch above the mark, or something that is none."""
        self._epochs = epochs
        self._flushed_offset = flushed_offset
        self._latest_epoch = latest_epoch
        self._walk = scan.walk_checked if checks_crc else scan.walk
        self._raise: _Raise | None = None

    def take(self, segment: Segment, position: int, following: int) -> int | None:
        """Read `segment` from `position` on; the next segment begins at offset `following`. Where
        the log ends within this one, if it does."""
        segment.trusted_from = position
        wrong = self._read(segment, position)
        while wrong is not None:
            self.has_read = True
            if self.due == following:
                segment.end_offset = following
                segment.disregard_tail(wrong)
                return None
            if self.due >= self._flushed_offset:
                return wrong
            wrong = self._read(segment, self._step_over(segment, wrong, following))
        return None

    def _read(self, segment: Segment, position: int) -> int | None:
        """Where something other than the next batch begins, if it does."""
        epochs = self._epochs
        for at, header in self._walk(segment.file, position, segment.size):
            if header is None or header.base_offset != self.due:
                return at
            if header.leader_epoch < epochs.latest and not self._disowns_raise(segment, at):
                return at
            if header.leader_epoch < epochs.latest or header.leader_epoch > self._latest_epoch:
                return at
            if header.leader_epoch > epochs.latest:
                self._raise = _Raise(segment, at, self.due)
            self.has_read = True
            epochs.note(header.leader_epoch, header.base_offset)
            self.due = header.next_offset
        return None

    def _disowns_raise(self, segment: Segment, position: int) -> bool:
        """A batch has a lower epoch than the one before it, which has just raised it: whether that
        one is the wrong one of the two, and became a hole."""
        raised, self._raise = self._raise, None
        if raised is None or raised.segment is not segment or raised.offset >= self._flushed_offset:
            return False
        last = segment.header_at(raised.position)
        if last is None or raised.position + last.size != position:
            return False
        self._epochs.cut(raised.offset)
        self._add_hole(segment, raised.position, position, raised.offset, self.due)
        return True

    def _step_over(self, segment: Segment, position: int, following: int) -> int:
        """Where the next batch begins that is right, or the end of the file."""
        found = self._next_batch(segment, position + 1, following)
        if found is None:
            end, next_offset = segment.size, min(following, self._flushed_offset)
        else:
            end, next_offset = found[0], found[1].base_offset
        self._add_hole(segment, position, end, self.due, next_offset)
        self.due = next_offset
        return end

    def _next_batch(
        self, segment: Segment, position: int, following: int
    ) -> tuple[int, BatchHeader] | None:
        """The headers around the damage usually tell; else every byte is tried."""
        high = min(following, MAX_OFFSET - 1)
        wrong = segment.header_at(position - 1)
        if wrong is not None and wrong.base_offset == self.due:
            end = position - 1 + wrong.size
            header = segment.header_at(end)
            if (
                header is not None
                and header.base_offset == wrong.next_offset
                and header.next_offset <= high
                and scan.is_intact(segment.file, end, header)
            ):
                return end, header
        return scan.find_batch(segment.file, position, segment.size, low=self.due + 1, high=high)

    def _add_hole(
        self, segment: Segment, position: int, end: int, first_offset: int, next_offset: int
    ) -> None:
        segment.add_hole(
            "quarantined",
            (position, end),
            (first_offset, next_offset),
            "the checksum, the offset or the epoch is wrong",
        )


def latest_possible(epoch: int) -> int:
    """No log holds an epoch above the partition's; without one (`NO_EPOCH`) anything may be."""
    return 2**31 - 1 if epoch == NO_EPOCH else epoch
