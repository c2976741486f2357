"""How far a log is durable, what must be synced for it to get further, and the mark that says so.

A file or directory is *dirty* from the moment it was touched until a sync that began later has
succeeded. The active segment's file needs no entry: it is dirty whenever the log ends beyond
`flushed_offset`, so an append has nothing to note here.

The mark has two slots, and a start may find only one of them readable. So whatever makes an *older*
mark wrong (deleting a segment, replacing one) asks first for both slots to say at least so much:
`require`, then wait for `assured_start` and `assured_base`.

Every flush that gets further is written down at once, before anybody is told of it: in the note
beside the mark, or, when one is due, in a mark (`note_flushed`). A mark is due with the first flush
of a log, with the first after a roll, and every `MARK_EVERY` flushes. Where a full disk refuses the
mark, or the epochs that go with it, the note has its room in any case.

A mark is synced with the flush after it. Where none comes, because nobody appends any more, it is
synced alone, once: at the second checkpoint after the last append (`age_mark`). Then the log rests.
"""

from __future__ import annotations

from typing import NamedTuple

from tidelog.log.disk import DiskError, DiskFull, Syncable
from tidelog.log.epochs import Epochs
from tidelog.log.marks import NO_MARK, Mark, MarkFile, Note
from tidelog.log.segment import Segment
from tidelog.model.ids import Offset

MARK_EVERY = 16
"""Flushes of a log. Each mark costs one more sync, with the flush after it; and after a power
failure whatever was flushed since the last one can't be told from what was not."""


class FlushTicket(NamedTuple):
    """Once all `targets` are synced, the log is durable up to `end_offset`.

    That offset is due at `position` of the segment `segment_base`. `dirt` and `generation` tell
    what was touched, or truncated, after the ticket was written.
    """

    targets: tuple[Syncable, ...]
    end_offset: Offset
    segment_base: int
    position: int
    dirt: int
    generation: int
    has_mark: bool
    mark: Mark | None = None


class Durability:
    """One log's. `mark` is the last one written."""

    def __init__(self, mark_file: MarkFile, mark: Mark | None, flushed_offset: int) -> None:
        self.flushed_offset = Offset(flushed_offset)
        self.mark = mark
        self.start_offset = mark.log_start_offset if mark else 0
        """Where the log begins, after any crash."""
        self._mark_file = mark_file
        self._confirmed: tuple[Mark, ...] = ()
        """The marks known to be durable, at most one per slot, oldest first."""
        self._required_start = self._required_base = 0
        self.assured_start = self.assured_base = 0
        """What both slots of the mark say at least."""
        self.wants_mark = False
        """They are to say more."""
        self._flushed_at: tuple[int, int] | None = None
        self._noted_offset = flushed_offset
        """The most that the file says, in the mark or in the note."""
        self._flushes_since_mark = 0
        self._is_mark_old = False
        """It was there at the last checkpoint already, and no flush has come since."""
        self._dirty: list[tuple[int, Syncable]] = []
        self._dirt = 0
        self._generation = 0

    def soil(self, *targets: Syncable) -> int:
        """The number to ask `has_synced` about."""
        self._dirt += 1
        self._dirty.extend((self._dirt, target) for target in targets)
        return self._dirt

    def has_synced(self, dirt: int) -> bool:
        return not self._dirty or self._dirty[0][0] > dirt

    @property
    def has_new_files(self) -> bool:
        return bool(self._dirty) or self.wants_mark

    # --- what both slots of the mark say ------------------------------------------------------

    def require(self, *, start: int = 0, segment_base: int = 0) -> None:
        """From the next flushes on, until both slots say at least this."""
        self._required_start = max(self._required_start, start)
        self._required_base = max(self._required_base, segment_base)
        self._compare()

    def _compare(self) -> None:
        """What is required with what is assured: asked with every append, so it is kept."""
        is_start_wanted = self._required_start > self.assured_start
        self.wants_mark = is_start_wanted or self._required_base > self.assured_base

    def _confirm(self) -> None:
        """The last mark is durable."""
        mark, known = self.mark, self._confirmed
        if mark is not None and (not known or known[-1].sequence != mark.sequence):
            self._confirmed = (*known[-1:], mark)
            self.start_offset = max(self.start_offset, mark.log_start_offset)
            if known:
                last = known[-1]
                self.assured_start = min(last.log_start_offset, mark.log_start_offset)
                self.assured_base = min(last.segment_base, mark.segment_base)
            self._compare()

    # --- flushing -----------------------------------------------------------------------------

    @property
    def has_mark_to_sync(self) -> bool:
        """A flush is worth it for the mark alone. Either the log was flushed beyond a mark that is
        not durable itself yet: until it is, no other can be written, and a log at rest would be
        marked too low for ever. Or the mark is right, and has waited for company in vain."""
        if self._mark_file.is_settled or self.mark is None:
            return False
        return self.mark.flushed_offset != self.flushed_offset or self._is_mark_old

    def has_waiting_mark(self, end_offset: int) -> bool:
        """The log, which ends at `end_offset`, is flushed, but not all marks of it are. One that
        says that nothing was flushed is no loss."""
        is_at_rest = end_offset == self.flushed_offset > self.start_offset
        return is_at_rest and self.mark is not None and not self._mark_file.is_settled

    def age_mark(self, end_offset: int) -> None:
        """A checkpoint comes by, before it writes a mark of its own."""
        self._is_mark_old = self.has_waiting_mark(end_offset)

    def ticket(self, active: Segment) -> FlushTicket | None:
        """None if there is nothing to gain. A mark waits for company: alone it is not worth it,
        unless it is in the way of a better one, was required, or has waited for long."""
        end = active.end_offset
        is_behind = end > self.flushed_offset
        is_awaited = self.wants_mark and not self._mark_file.is_settled
        if not (is_behind or self._dirty or self.has_mark_to_sync or is_awaited):
            return None
        targets = [target for _, target in self._dirty]
        if is_behind and active.size:
            targets.append(active.file)
        has_mark = not self._mark_file.is_settled
        if has_mark:
            targets.append(self._mark_file.file())
        at = (Offset(end), active.base_offset, active.size)
        return FlushTicket(tuple(targets), *at, self._dirt, self._generation, has_mark, self.mark)

    def done(self, ticket: FlushTicket) -> None:
        if self._dirty:
            self._dirty = [(dirt, target) for dirt, target in self._dirty if dirt > ticket.dirt]
        if ticket.has_mark and ticket.mark is self.mark:
            self._mark_file.is_settled = True
            self._confirm()
        if ticket.generation == self._generation and ticket.end_offset >= self.flushed_offset:
            self.flushed_offset = ticket.end_offset
            self._flushed_at = (ticket.segment_base, ticket.position)

    def note_flushed(self, *, is_mark_refused: bool = False) -> bool:
        """Write down how far the log is flushed now. False: a mark is due instead. One that was
        refused leaves it to the note, which stands alone where there is no mark at all."""
        if self._flushed_at is None or self.flushed_offset == self._noted_offset:
            return True
        self._flushes_since_mark += 1
        last = self.mark
        if (
            not is_mark_refused
            and self._mark_file.is_settled
            and (
                last is None
                or last.segment_base != self._flushed_at[0]
                or self._flushes_since_mark >= MARK_EVERY
            )
        ):
            return False
        try:
            sequence = NO_MARK if last is None else last.sequence
            self._mark_file.write_note(Note(sequence, self.flushed_offset))
            self._noted_offset = self.flushed_offset
        except DiskError:
            pass  # the next start knows less; a disk that fails will be met by the next append
        return True

    def write_mark(self, active: Segment, epochs: Epochs, *, start: int, is_clean: bool) -> None:
        """To the operating system, if there is news and the last one is durable."""
        if active.end_offset == self.flushed_offset and not self._dirty:
            self._flushed_at = (active.base_offset, active.size)
        if self._flushed_at is None or not self._mark_file.is_settled:
            return
        segment_base, _ = self._flushed_at
        start = min(start, self.flushed_offset)
        last = self.mark
        if (
            last is not None
            and (last.flushed_offset, last.segment_base) == (self.flushed_offset, segment_base)
            and last.log_start_offset >= start
            and not (is_clean or self.wants_mark)
        ):
            return
        self._write(active, epochs, start=start, is_clean=is_clean)

    def _write(self, active: Segment, epochs: Epochs, *, start: int, is_clean: bool) -> None:
        assert self._flushed_at is not None
        segment_base, position = self._flushed_at
        last = self.mark
        is_active = segment_base == active.base_offset
        mark = Mark(
            sequence=last.sequence + 1 if last else 0,
            flushed_offset=self.flushed_offset,
            segment_base=segment_base,
            position=position,
            log_start_offset=start,
            epochs_checksum=epochs.checksum(self.flushed_offset),
            index_entries=active.indexes.index.written if is_active else 0,
            time_index_entries=active.indexes.time_index.written if is_active else 0,
            is_clean=is_clean,
        )
        self._mark_file.write(mark)
        self.mark, self._is_mark_old = mark, False
        self._noted_offset, self._flushes_since_mark = mark.flushed_offset, 0

    def settle(self, active: Segment, epochs: Epochs, *, start: int) -> None:
        """Sync all there is, then write a clean mark."""
        ticket = self.ticket(active)
        if ticket is not None:
            for target in ticket.targets:
                target.sync()
            self.done(ticket)
        self._mark_file.settle()
        self._confirm()
        self.write_mark(active, epochs, start=start, is_clean=True)
        self._mark_file.settle()
        self._confirm()

    def fall_back(
        self, segment: Segment, position: int, end_offset: int, *, epochs: Epochs, start: int
    ) -> None:
        """The log is about to be cut. The mark is lowered first and durably: were it, or the note
        beside it, to stay, the next crash would take new, torn records below it for damage. What
        counts is what the file says: an earlier cut may have lowered the offsets alone. `DiskFull`
        if there is no room for it: then nothing has changed."""
        self._generation += 1
        self._required_base = 0
        self._compare()
        before = self.flushed_offset, self._flushed_at
        if end_offset < self.flushed_offset:
            self.flushed_offset = Offset(end_offset)
            self._flushed_at = (segment.base_offset, position)
        if self._noted_offset > end_offset:
            self._mark_file.settle()
            self._confirm()
            try:
                self._write(segment, epochs, start=min(start, end_offset), is_clean=False)
            except DiskFull:
                self.flushed_offset, self._flushed_at = before
                raise
            self._mark_file.settle()
            self._confirm()

    def begin_at(self, segment: Segment, epochs: Epochs) -> None:
        """The log is emptied and begins anew with `segment`: both slots say so, durably, so that
        none of them names a file that is about to go. If the disk says no, the log is as it was,
        and flushed no further than it ends."""
        self._generation += 1
        self._required_start = self._required_base = 0
        before = self.flushed_offset, self._flushed_at
        self.flushed_offset = Offset(segment.base_offset)
        self._flushed_at = (segment.base_offset, 0)
        self._confirmed = ()
        self.assured_start = self.assured_base = 0
        self._compare()
        try:
            self._mark_file.settle()
            for _ in range(2):
                self._write(segment, epochs, start=segment.base_offset, is_clean=False)
                self._mark_file.settle()
                self._confirm()
        except DiskError:
            self.flushed_offset, self._flushed_at = before
            raise
        self.start_offset = segment.base_offset
