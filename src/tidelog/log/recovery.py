"""From files to a log: after a clean stop as they are (`state.py`), after a crash with care.

- Below the mark everything was synced. It is not scanned (only each segment's end is found); what
  turns out to be unreadable there is damage: kept, reported, stepped over, never cut. The log never
  ends below the mark, so that no acknowledged offset is given out twice.
- Above the mark everything is read, batch by batch (`tail.py`). Up to the flushed offset, which the
  note beside the mark tells after a killed process, damage is kept like any other. Beyond it
  anything may be lost, torn or out of order: the first batch that is unreadable or out of place
  ends the log, and all from there on is cut. If whole batches lie beyond the cut, the bytes are
  kept aside in a `.torn` file first, as evidence; and since it is not certain that they were never
  acknowledged, the log says that it may lack records (`LogState.may_lack_records`).
- The cut is made in an order that a second crash can't spoil: later segments go first and the
  directory is synced, then the file is cut, then the mark is moved. What remains is synced.
- Indexes, producers and epochs are functions of the log: taken from their files as far as those can
  be trusted, and redone from batch headers from there on.
- A log that is of no use with damage in it, as the metadata log of a node that is alone, is read
  whole before anything is changed, and refused if flushed records are lost (`refuses_damage`).
"""

from __future__ import annotations

from contextlib import suppress
from itertools import pairwise

from tidelog.log import scan
from tidelog.log.damage import Damage
from tidelog.log.directory import PartitionDirectory
from tidelog.log.disk import DiskFull
from tidelog.log.marks import Mark, Note
from tidelog.log.paths import LOG, offset_path
from tidelog.log.segment import Segment
from tidelog.log.segment_indexes import MAX_RELATIVE_OFFSET
from tidelog.log.state import LogState, create, load_clean, rebuild_epochs, restore_producers
from tidelog.log.swap import finish_interrupted
from tidelog.log.tail import MAX_OFFSET, TailScan, latest_possible
from tidelog.model.ids import NO_EPOCH, LeaderEpoch
from tidelog.model.safeguards import Safeguard
from tidelog.wire.batch import MAGIC

_COPY_BYTES = 1024 * 1024


class FlushedRecordsDamaged(Exception):
    """Flushed records can't be read, and the log is of no use without them. Nothing was changed."""

    def __init__(self, offset: int) -> None:
        super().__init__(f"damaged at offset {offset}")


def load(
    home: PartitionDirectory,
    *,
    clean: bool,
    latest_epoch: LeaderEpoch = NO_EPOCH,
    refuses_damage: bool = False,
) -> LogState:
    """The state of the log in `home`, which is created if there is none. `latest_epoch`: no record
    can have a later leader epoch, as far as the caller knows. `refuses_damage`: a recovery reads
    the whole log, and raises `FlushedRecordsDamaged` before it changes one that has lost records.
    """
    finish_interrupted(home)
    bases = home.segment_bases()
    mark = home.mark_file.load()
    if not bases and mark is None and home.mark_file.note is None:
        return create(home)
    if mark is not None and mark.log_start_offset > home.mark_file.sure_start:
        home.mark_file.settle()  # it may be in the cache only, and readers will be told
    doomed = _below_start(bases, mark)
    bases = bases[len(doomed) :]
    state = None
    if clean and mark is not None and mark.is_clean:
        state = load_clean(home, bases, mark)
    if state is None:
        recovery = _Recovery(home, bases, mark, latest_epoch, refuses_damage=refuses_damage)
        state = recovery.run()
    state.doomed = doomed
    home.epochs.begin_at(min(state.segments[0].base_offset, state.log_start_offset))
    home.epochs.cut(state.segments[-1].end_offset)
    return state


def _below_start(bases: list[int], mark: Mark | None) -> list[int]:
    """The segments that end before the log begins: a crash came before they were deleted."""
    start = mark.log_start_offset if mark else 0
    return [base for base, following in pairwise(bases) if following <= start]


def _at_beginning(mark: Mark, base: int) -> Mark:
    """The mark as if nothing were flushed: all is read, and nothing is taken on trust."""
    return Mark(mark.sequence, base, base, 0, mark.log_start_offset, 0)


class _Recovery:
    """One recovery, start to end. `due` is the offset that must come next."""

    def __init__(
        self,
        home: PartitionDirectory,
        bases: list[int],
        mark: Mark | None,
        latest_epoch: LeaderEpoch,
        *,
        refuses_damage: bool,
    ) -> None:
        self.home = home
        self.bases = bases
        self.old_mark = mark
        if mark is None or Safeguard.QUARANTINE_DAMAGE not in home.safeguards:
            mark = self._presumed_mark()
        self.mark = mark
        self.refuses_damage = refuses_damage
        self.flushed_offset = self._known_flushed_offset()
        if refuses_damage and bases:
            self.mark = _at_beginning(mark, bases[0])
        self.tail = TailScan(
            home.epochs,
            flushed_offset=self.flushed_offset,
            latest_epoch=latest_possible(latest_epoch),
            checks_crc=Safeguard.TORN_TAIL_CUT in home.safeguards,
        )
        self.due = min(mark.log_start_offset, bases[0]) if bases else mark.log_start_offset
        self.kept: list[Segment] = []
        self.dropped: list[int] = []
        self.cut: tuple[Segment, int] | None = None
        self.has_changed = self.old_mark is None
        self.may_lack_records = False

    def run(self) -> LogState:
        is_known = self._load_epochs()
        self._take_segments()
        if self.refuses_damage:
            self._refuse_damage()
        if self.cut is not None or self.dropped:
            self._cut()
        if self.due < self.flushed_offset or not self.kept or self._ends_in_a_hole():
            self._start_over_where_flushed()
        self._resume_indexes()
        if not is_known:
            rebuild_epochs(self.home, self.kept)
        self.home.epochs.cut(self.due)
        if self.home.delete_snapshots(lambda offset: offset > self.due):
            self.home.sync_entries()
        producers, since_snapshot = restore_producers(self.home, self.kept, self.due)
        return LogState(
            self.kept,
            producers,
            self.mark.log_start_offset,
            self.due,
            mark=self._settle(),
            bytes_since_snapshot=since_snapshot,
            dirty=[] if self.has_changed else self.home.all_entries(),
            may_lack_records=self.may_lack_records,
        )

    # --- what is known to be flushed ----------------------------------------------------------

    def _known_flushed_offset(self) -> int:
        note, marked = self.home.mark_file.note, self.mark.flushed_offset
        if note is None or Safeguard.FLUSHES_NOTED not in self.home.safeguards:
            return marked
        return max(marked, note.flushed_offset)

    def _presumed_mark(self) -> Mark:
        """Without a mark nothing was flushed, unless there was one and it is damaged: then all
        that is readable may have been, and only what follows the last readable batch is cut."""
        first, note = self.bases[0] if self.bases else 0, self.home.mark_file.note
        known = self.old_mark or note
        sequence = known.sequence if known else -1  # or the old note would extend the next mark
        if not self.home.mark_file.is_damaged or not self.bases:
            return Mark(sequence, first, first, 0, first, 0)
        last = self.home.open_segment(self.bases[-1], end_offset=MAX_OFFSET)
        position, due = 0, last.base_offset
        while position < last.size:
            for at, header in scan.walk_checked(last.file, position, last.size):
                if header is not None and header.base_offset >= due:
                    position, due = at + header.size, header.next_offset
            found = scan.find_batch(
                last.file, position + 1, last.size, low=due, high=due + MAX_RELATIVE_OFFSET
            )
            if found is None:
                break
            position, due = found[0], found[1].base_offset
        return Mark(sequence, due, last.base_offset, position, first, 0)

    def _load_epochs(self) -> bool:
        """Whether the file tells all epochs below the mark; those above are noted by the scan."""
        flushed = self.mark.flushed_offset
        if flushed == self.due:
            return True
        is_known = self.home.load_epochs()
        self.home.epochs.cut(flushed)
        if is_known and self.home.epochs.checksum(flushed) == self.mark.epochs_checksum:
            return True
        self.home.epochs.cut(0)
        return False

    # --- segment by segment -------------------------------------------------------------------

    def _take_segments(self) -> None:
        flushed, marked = self.flushed_offset, self.mark.flushed_offset
        for number, base in enumerate(self.bases):
            following = self.bases[number + 1] if number + 1 < len(self.bases) else MAX_OFFSET
            if base < self.due or (base > self.due and (self.due >= flushed or base > flushed)):
                self.dropped = self.bases[number:]
                return
            if base > self.due:
                self._report_missing(base)
            segment = self.home.open_segment(base, end_offset=min(following, flushed))
            self.kept.append(segment)
            if base == self.mark.segment_base and segment.size >= self.mark.position:
                is_whole = self._scan(segment, self.mark.position, marked, following)
            elif base >= marked:
                is_whole = self._scan(segment, 0, base, following)
            else:
                self.due = segment.find_end()
                is_whole = True
            segment.end_offset = self.due
            if not is_whole:
                self.dropped = self.bases[number + 1 :]
                return

    def _scan(self, segment: Segment, position: int, due: int, following: int) -> bool:
        """Above the mark: whether the log goes on behind this segment."""
        self.tail.due = due
        end = self.tail.take(segment, position, following)
        self.due = self.tail.due
        self.has_changed = self.has_changed or self.tail.has_read
        if end is not None:
            self.cut = (segment, end)
        return end is None

    def _ends_in_a_hole(self) -> bool:
        """What is appended next must not stand behind bytes that can't be read."""
        last = self.kept[-1]
        hole = last.holes.with_offset(last.end_offset - 1) if last.holes else None
        return hole is not None and self.due == self.flushed_offset

    def _report_missing(self, until: int) -> None:
        path = self.kept[-1].file.path if self.kept else self.home.path
        position = self.kept[-1].size if self.kept else 0
        reason = "flushed records are gone from the disk"
        self.home.reports.append(
            Damage("missing", path, position, position, self.due, until, reason)
        )

    def _start_over_where_flushed(self) -> None:
        """Offsets below that were given out, so the log goes on there."""
        flushed = self.flushed_offset
        if self.due < flushed:
            self._report_missing(flushed)
        self.due = flushed
        self.home.create()
        self.kept.append(self.home.create_segment(flushed))
        self.has_changed = True

    def _refuse_damage(self) -> None:
        """Before anything is changed: the bytes may be had again, from a copy or from a disk that
        reads them right the next time, and then the rest must still fit to them."""
        lost = [damage.first_offset for damage in self.home.reports if damage.has_offsets]
        if self.due < self.flushed_offset:
            lost.append(self.due)
        if lost:
            raise FlushedRecordsDamaged(min(lost))

    # --- cutting ------------------------------------------------------------------------------

    def _cut(self) -> None:
        """Evidence, then what comes later, then the tail itself; each step durable before the
        next, so that nothing cut can come back beside what is written from now on."""
        self.has_changed = True
        if self.cut is not None and Safeguard.TORN_TAIL_CUT not in self.home.safeguards:
            self._keep_torn_tail(*self.cut)
            return
        if self.cut is not None:
            self._save_tail(*self.cut)
        for base in self.dropped:
            self._drop(base)
        self.home.delete_snapshots(lambda offset: offset > self.due)
        self.home.sync_entries()
        if self.cut is not None:
            segment, position = self.cut
            segment.cut(position, self.due)
            segment.file.sync()

    def _save_tail(self, segment: Segment, position: int) -> None:
        evidence = ""
        if self._has_batches(segment, position):
            self.may_lack_records = True
            torn = self.home.create_torn(segment.base_offset)
            for at in range(position, segment.size, _COPY_BYTES):
                torn.write(at - position, (segment.file.read(at, _COPY_BYTES),))
            torn.sync()
            evidence = torn.path
        self._report_cut(segment, position, evidence)

    def _drop(self, base: int) -> None:
        """A whole segment that can't follow what is kept."""
        segment = self.home.open_segment(base, end_offset=MAX_OFFSET)
        evidence = ""
        if self._has_batches(segment, 0):
            self.may_lack_records = True
            evidence = self.home.torn_path(base)
            self.home.disk.rename(segment.file.path, evidence)
        self.home.delete_segment(base)
        if segment.size:
            self._report_cut(segment, 0, evidence)

    def _has_batches(self, segment: Segment, position: int) -> bool:
        low = max(self.due, segment.base_offset)
        high = low + MAX_RELATIVE_OFFSET
        found = scan.find_batch(segment.file, position, segment.size, low=low, high=high)
        return found is not None

    def _report_cut(self, segment: Segment, position: int, evidence: str) -> None:
        path = offset_path(self.home.path, segment.base_offset, LOG)
        offset = max(self.due, segment.base_offset)
        reason = "an unflushed tail, torn by a crash"
        self.home.reports.append(
            Damage("cut", path, position, segment.size, offset, offset, reason, evidence)
        )

    def _keep_torn_tail(self, segment: Segment, position: int) -> None:
        """Ablation only: what a log without this safeguard would do."""
        header = segment.torn_header_at(position)
        if header is None or header.base_offset != self.due or header.magic != MAGIC:
            segment.cut(position, self.due)
            return
        self.due = segment.end_offset = header.next_offset
        segment.size = position + header.size
        segment.file.truncate(segment.size)

    # --- what follows from the log ------------------------------------------------------------

    def _resume_indexes(self) -> None:
        for segment in self.kept:
            is_last = segment is self.kept[-1]
            if segment.base_offset >= self.mark.segment_base or is_last:
                segment.indexes.is_active = True
                segment.indexes.resume(self._trustworthy_entries(segment))
                if not is_last:
                    self._finish_indexes(segment)

    def _finish_indexes(self, segment: Segment) -> None:
        try:
            segment.close()
            for file in segment.indexes.files():
                file.sync()
        except DiskFull:
            # They serve from memory, and the next start redoes them.
            segment.indexes.is_active = False

    def _trustworthy_entries(self, segment: Segment) -> int:
        mark = self.mark
        if segment.base_offset > mark.segment_base:
            return 0
        if segment.base_offset < mark.segment_base:
            return segment.indexes.trustworthy_entries(segment.size, 0, 0)
        return segment.indexes.trustworthy_entries(
            min(mark.position, segment.size), mark.index_entries, mark.time_index_entries
        )

    def _settle(self) -> Mark | None:
        """Sync what remains and move the mark to its end. If all of it lies below the mark, only
        names may still be in the cache alone, and those can wait for the next flush."""
        if not self.has_changed and self.old_mark is not None:
            return self.old_mark
        for segment in self.kept:
            if segment.base_offset >= self.mark.segment_base:
                segment.file.sync()
        try:
            return self._move_mark()
        except DiskFull:  # reading must go on; the old mark is merely further behind
            for entries in self.home.all_entries():
                entries.sync()
            with suppress(DiskFull):
                self.home.mark_file.write_note(Note(self.mark.sequence, self.due))
            return self.old_mark

    def _move_mark(self) -> Mark:
        mark_file, active = self.home.mark_file, self.kept[-1]
        mark_file.create()
        if self.home.epochs.is_changed:
            self.home.save_epochs().sync()
        for entries in self.home.all_entries():
            entries.sync()
        mark_file.settle()
        mark = Mark(
            sequence=self.mark.sequence + 1,
            flushed_offset=self.due,
            segment_base=active.base_offset,
            position=active.size,
            log_start_offset=self.mark.log_start_offset,
            epochs_checksum=self.home.epochs.checksum(self.due),
        )
        mark_file.write(mark)
        mark_file.settle()
        return mark
