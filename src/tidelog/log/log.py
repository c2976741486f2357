"""One partition's log: appends at the end, reads anywhere, and how far it is durable.

The state beyond the files is small and all of it can be had again from them: where the log begins
and ends, how far it is flushed, the producers, the leader epochs. `append` changes it only after
its one write has succeeded. Flushing is somebody else's work: `flush_targets` says what to sync,
`flushed` hears that it was done; appends go on in between.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from contextlib import suppress
from typing import Any, Protocol

from tidelog.log import lookup, recovery
from tidelog.log.admission import check_batches
from tidelog.log.appended import Appended
from tidelog.log.beginning import Beginning, split_at
from tidelog.log.cleaning_plan import DirtyPart, plan_cleaning
from tidelog.log.damage import Damage
from tidelog.log.directory import PartitionDirectory
from tidelog.log.disk import Disk, DiskError, DiskFull, FileSpan
from tidelog.log.durability import Durability, FlushTicket
from tidelog.log.lookup import TimestampedOffset
from tidelog.log.producers import Producers
from tidelog.log.replicated import check_replicated, split_runs
from tidelog.log.restyle import Styling, styling_of
from tidelog.log.retention import plan_retention
from tidelog.log.rolling import roll_after_ms
from tidelog.log.segment import Segment, check_closed
from tidelog.log.segment_indexes import MAX_RELATIVE_OFFSET
from tidelog.log.state import LogState, restore_producers
from tidelog.log.swap import Swap
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NO_EPOCH, NO_PRODUCER, NO_TIMESTAMP, LeaderEpoch, Offset
from tidelog.model.safeguards import ALL_SAFEGUARDS, Safeguard
from tidelog.model.setting import INT64_MAX
from tidelog.model.settings import TopicSettings
from tidelog.wire.batch import BatchHeader, stamp_all

SNAPSHOT_INTERVAL_BYTES = 64 * 1024 * 1024
"""A start after a crash walks over at most about this much log to know the producers again."""

__all__ = ["Appended", "FlushTicket", "Log", "TimestampedOffset"]


class UnderWay(Protocol):
    """A pass of compaction, seen from the log."""

    @property
    def is_swapping(self) -> bool: ...

    def abort(self) -> None: ...


class Log:
    """Not thread-safe; only the `targets` of a ticket may be synced elsewhere meanwhile."""

    def __init__(self, directory: PartitionDirectory, state: LogState) -> None:
        self.directory = directory
        self.damage: list[Damage] = directory.reports
        self.log_start_offset = Offset(state.log_start_offset)
        self.producers = state.producers
        self.epochs = directory.epochs
        self._segments = state.segments
        self._bases = [segment.base_offset for segment in state.segments]
        self._active = state.segments[-1]
        self._is_clean = state.is_clean
        self.may_lack_records = state.may_lack_records
        self._durability = Durability(directory.mark_file, state.mark, state.flushed_offset)
        self._durability.soil(*state.dirty)
        self._beginning = Beginning(directory, self._durability, start=state.log_start_offset)
        self._beginning.doom(state.doomed, kept_from=state.segments[0].base_offset)
        self.cleaning: UnderWay | None = None
        cleaned = min(directory.load_cleaned_offset(), self._active.end_offset)
        self.cleaned_offset = Offset(cleaned)
        """All below it has been compacted."""
        self._emptied_below = cleaned
        self._bytes_since_snapshot = state.bytes_since_snapshot
        self._segment_created_ms = NO_TIMESTAMP
        self._checks_crc = Safeguard.CRC_ON_FETCH in directory.safeguards
        self._checks_producers = Safeguard.DEDUPE_WINDOW in directory.safeguards
        self._validated: list[Segment] = []
        self.configure(directory.settings)

    @classmethod
    def open(
        cls,
        disk: Disk,
        directory: str,
        settings: TopicSettings,
        *,
        clean: bool,
        latest_epoch: LeaderEpoch = NO_EPOCH,
        safeguards: frozenset[Safeguard] = ALL_SAFEGUARDS,
        refuses_damage: bool = False,
    ) -> Log:
        """The log in `directory`, created if there is none. Without `clean` it is recovered first:
        what a crash has left beyond the flushed mark is checked, and cut where it is torn. No
        record has a leader epoch above `latest_epoch`, if that is given. `refuses_damage`: see
        `recovery.load`."""
        home = PartitionDirectory(disk, directory, settings, safeguards=safeguards)
        state = recovery.load(
            home, clean=clean, latest_epoch=latest_epoch, refuses_damage=refuses_damage
        )
        return cls(home, state)

    def configure(self, settings: TopicSettings) -> None:
        """New settings, at any time: the next append, roll or check obeys them."""
        self.settings = self.directory.settings = settings
        self._active.indexes.interval_bytes = settings.index_interval_bytes
        self._styling: Styling | None = styling_of(settings)
        self.dates_appends = self._styling is not None and self._styling.dates_appends
        """Records get the time of their append, which their producer is told."""
        ahead_ms = settings.message_timestamp_after_max_ms
        self._ahead_ms = INT64_MAX if self.dates_appends else ahead_ms
        self._segment_ms = roll_after_ms(settings, self.directory.path, self._active.base_offset)

    @property
    def log_end_offset(self) -> Offset:
        return Offset(self._active.end_offset)

    @property
    def has_new_files(self) -> bool:
        """Files wait to be synced, or the log's start to be durable: worth a flush in any case."""
        return self._durability.has_new_files

    @property
    def durable_start_offset(self) -> Offset:
        """Where the log begins after any crash. Readers are never told another start."""
        return self.log_start_offset

    @property
    def flushed_offset(self) -> Offset:
        """All below it has survived an fsync."""
        return self._durability.flushed_offset

    @property
    def has_mark_to_sync(self) -> bool:
        """A flush is wanted for the sake of the mark alone."""
        return self._durability.has_mark_to_sync

    # --- appending ----------------------------------------------------------------------------

    def append(
        self,
        records: memoryview,
        *,
        leader_epoch: LeaderEpoch,
        now_ms: int,
        awaits_repair: bool = False,
    ) -> Appended:
        """Append the whole batches in `records`, one produce request's, after stamping offset and
        epoch into them. All or nothing, also when the disk is full (`DiskFull`). `awaits_repair`:
        others may have what damage hides here."""
        headers = check_batches(records, self.settings, latest_ms=now_ms + self._ahead_ms)
        if isinstance(headers, ErrorCode):
            return Appended(headers)
        if leader_epoch < self.epochs.latest:
            return Appended(ErrorCode.FENCED_LEADER_EPOCH)
        if self._checks_producers and (len(headers) > 1 or headers[0].producer_id != NO_PRODUCER):
            verdict = self.producers.judge(headers, now_ms, awaits_repair=awaits_repair)
            if isinstance(verdict, ErrorCode):
                return Appended(verdict)
            if verdict is not None:
                first, last = Offset(verdict[0]), Offset(verdict[1])
                return Appended(ErrorCode.NONE, first, last, self.log_start_offset, True)
        if self._styling is not None:
            restyled = self._styling.apply(records, headers, now_ms)
            if isinstance(restyled, Appended):
                return restyled
            records, headers = restyled
        self._roll_if_due(records, headers, now_ms)
        base_offset = self._active.end_offset
        stamp_all(records, headers, Offset(base_offset), leader_epoch)
        self._active.append(records, headers, base_offset)
        self.epochs.note(leader_epoch, base_offset)
        offset = base_offset
        for header in headers:
            if header.producer_id != NO_PRODUCER:
                self.producers.note(header, offset, now_ms)
            offset += header.last_offset_delta + 1
        self._bytes_since_snapshot += len(records)
        self._is_clean = False
        first, last = Offset(base_offset), Offset(offset - 1)
        return Appended(ErrorCode.NONE, first, last, self.log_start_offset)

    def append_replicated(
        self, records: memoryview, *, leader_epoch: LeaderEpoch, now_ms: int
    ) -> Appended:
        """Append what the leader of `leader_epoch` has at our end, with its offsets and epochs, as
        it is. If the disk says no in the middle, the batches before that are there."""
        due = self._active.end_offset
        checked = check_replicated(
            records, due=due, last_epoch=self.epochs.latest, leader_epoch=leader_epoch
        )
        if isinstance(checked, ErrorCode):
            return Appended(checked)
        limit = self.settings.segment_bytes
        for run, headers in split_runs(*checked, lambda: limit - self._active.size, limit=limit):
            self._roll_if_due(run, headers, now_ms)
            self._active.append(run, headers, headers[0].base_offset)
            self._is_clean = False
            self._bytes_since_snapshot += len(run)
            for header in headers:
                self.epochs.note(header.leader_epoch, header.base_offset)
                self.producers.note(header, header.base_offset, now_ms)
        last = Offset(self._active.end_offset - 1)
        return Appended(ErrorCode.NONE, Offset(due), last, self.log_start_offset)

    def _roll_if_due(self, records: memoryview, headers: list[BatchHeader], now_ms: int) -> None:
        active = self._active
        if active.size == 0:
            self._segment_created_ms = now_ms
            return
        if not active.indexes.is_loaded:
            active.indexes.load()
        since = active.indexes.first_timestamp
        if len(headers) == 1:
            timestamp, count = headers[0].max_timestamp, headers[0].records_count
        else:
            timestamp = max(header.max_timestamp for header in headers)
            count = sum(header.records_count for header in headers)
        if timestamp == NO_TIMESTAMP or since == NO_TIMESTAMP:
            if self._segment_created_ms == NO_TIMESTAMP:
                self._segment_created_ms = now_ms
            timestamp, since = now_ms, self._segment_created_ms
        if (
            active.size + len(records) > self.settings.segment_bytes
            or timestamp - since > self._segment_ms
            or active.end_offset + count - active.base_offset > MAX_RELATIVE_OFFSET
        ):
            self.roll()
            self._segment_created_ms = now_ms

    def roll(self) -> None:
        """Close the active segment and begin the next. A crash between any two steps leaves at
        most an empty last segment, or index files that recovery rebuilds."""
        old, end = self._active, self._active.end_offset
        new = self.directory.create_segment(end)
        try:
            old.close()
            snapshot = self.directory.save_producers(self.producers, end)
        except DiskError:
            old.indexes.is_active = True
            self.directory.delete_segment(end)
            raise
        self._segments.append(new)
        self._bases.append(end)
        self._active = new
        self._segment_ms = roll_after_ms(self.settings, self.directory.path, end)
        self._bytes_since_snapshot = 0
        self._is_clean = False
        self._durability.soil(old.file, *old.indexes.files(), snapshot, *self.directory.entries())

    # --- reading ------------------------------------------------------------------------------

    def read(
        self,
        offset: Offset,
        *,
        max_bytes: int,
        limit_offset: Offset,
        at_least_one: bool,
        skips_empty: bool = True,
    ) -> FileSpan | ErrorCode | None:
        """Whole batches of one segment from the one that holds `offset`, up to `limit_offset`.

        At most `max_bytes`, unless a larger first batch must be answered for a consumer to get on
        (`at_least_one`). None: nothing there now. An error: OFFSET_OUT_OF_RANGE, or CORRUPT_MESSAGE
        where the log is damaged. A reader `skips_empty` batches; a replica needs every offset.
        """
        if not self.log_start_offset <= offset <= self._active.end_offset:
            return ErrorCode.OFFSET_OUT_OF_RANGE
        if offset >= limit_offset or offset == self._active.end_offset:
            return None
        if skips_empty and offset < self._emptied_below:
            offset = self._past_empty(offset, limit_offset)
        segment = self._segment_with(offset)
        if segment is None:
            return ErrorCode.CORRUPT_MESSAGE
        return segment.read(
            offset,
            max_bytes=max_bytes,
            limit_offset=limit_offset,
            at_least_one=at_least_one,
            check_crc=self._checks_crc,
        )

    def _segment_with(self, offset: int) -> Segment | None:
        """None for offsets whose segment is missing."""
        if offset >= self._active.base_offset:
            return self._active
        number = bisect_right(self._bases, offset) - 1
        if number < 0 or offset >= self._segments[number].end_offset:
            return None
        return self._segments[number]

    def _past_empty(self, offset: Offset, limit_offset: int) -> Offset:
        """Some clients grow impatient with answers that hold no record."""
        at = lookup.past_empty(self._segment_with, offset, min(self._emptied_below, limit_offset))
        return Offset(at) if at < min(limit_offset, self._active.end_offset) else offset

    def offset_for_timestamp(self, timestamp_ms: int) -> TimestampedOffset | None:
        """The first record whose timestamp is not before `timestamp_ms`."""
        return lookup.first_from(self._segments, timestamp_ms, self.log_start_offset)

    def max_timestamp(self) -> TimestampedOffset | None:
        """The first of the records with the largest timestamp."""
        return lookup.latest(self._segments, self.log_start_offset)

    def epoch_end_offset(self, leader_epoch: LeaderEpoch) -> tuple[LeaderEpoch, Offset]:
        """The largest epoch in the log not above the asked one, and where it ends."""
        return self.epochs.end_of(leader_epoch, self.log_end_offset)

    # --- flushing -----------------------------------------------------------------------------

    def flush_targets(self) -> FlushTicket | None:
        """What to sync for all appended so far to be durable; none if it is."""
        if self._durability.wants_mark:
            self._write_mark()
        return self._durability.ticket(self._active)

    def flushed(self, ticket: FlushTicket) -> None:
        """All targets of the ticket have been synced."""
        self._durability.done(ticket)
        if not self._durability.note_flushed():
            with suppress(DiskError):  # as for the note: whoever writes next will meet it
                self._write_epochs()
                self._write_mark()
            self._durability.note_flushed(is_mark_refused=True)
        if self._beginning.is_moving:
            self.follow_start()

    def sync(self) -> None:
        """Flush, and wait for it: for the rare cases where nothing else can go on."""
        ticket = self.flush_targets()
        if ticket is not None:
            for target in ticket.targets:
                target.sync()
            self.flushed(ticket)

    def _write_mark(self) -> None:
        """Nobody waits for it without asking again, so a full disk is no error here."""
        self._is_clean = False
        try:
            self._durability.write_mark(
                self._active, self.epochs, start=self._beginning.wanted, is_clean=False
            )
        except DiskFull:
            pass

    def _write_epochs(self) -> None:
        """A mark has their checksum: without the file that goes with it they are made anew. To the
        operating system only; the next checkpoint has it synced."""
        if self.epochs.is_changed:
            self.directory.save_epochs()
            self.epochs.is_changed = True

    def checkpoint(self) -> bool:
        """Write down, lazily, what makes the next start quick. Nobody waits for it, so a full disk
        is no error here. True: come again in a second, also if nothing else happens."""
        self._durability.age_mark(self.log_end_offset)
        try:
            self._active.indexes.write()
            if self.epochs.is_changed:
                self._durability.soil(self.directory.save_epochs(), *self.directory.entries())
            if self._bytes_since_snapshot >= SNAPSHOT_INTERVAL_BYTES:
                self.directory.save_producers(self.producers, self.log_end_offset)
                self._bytes_since_snapshot = 0
        except DiskFull:
            pass
        self._write_mark()
        if self._beginning.is_moving:
            self.follow_start()
        return self._durability.has_waiting_mark(self.log_end_offset)

    def close_cleanly(self) -> None:
        """Sync the log and say so, so that the next `open(clean=True)` need not look at it. The
        other files are written but not synced: the mark knows enough of them to notice if the
        power fails after the stop, and they can be rebuilt."""
        if self._is_clean:
            return
        self._active.indexes.load()
        self._active.indexes.write()
        self.directory.save_producers(self.producers, self.log_end_offset)
        if self.epochs.is_changed:
            self.directory.save_epochs()
        self._durability.settle(self._active, self.epochs, start=self._beginning.wanted)
        self.log_start_offset = Offset(self._beginning.reached())
        self._is_clean = True

    # --- truncating ---------------------------------------------------------------------------

    def truncate_to(self, offset: Offset) -> None:
        """Cut the log so that it ends at `offset`, or before the batch that holds it; below its
        start (durable or not yet), it begins anew there. Durable when it returns, and in an order
        that a crash can't spoil. `DiskFull`: nothing has changed."""
        start = self._beginning.wanted
        if offset < max(start, self._bases[0]):  # below the first base: segments are missing
            self.start_at(Offset(min(offset, start)))
        elif offset < self.log_end_offset:
            segment = self._segments[bisect_right(self._bases, offset) - 1]
            if segment.cut_point(offset)[1] < start:  # the batch holds the log's start, too
                self.start_at(Offset(start))
            else:
                self._cut_to(offset)

    def _cut_to(self, offset: int) -> None:
        if self.cleaning is not None:
            self.cleaning.abort()
        offset = max(offset, self._bases[0])  # a pass that ends may let go of the first segments
        number = bisect_right(self._bases, offset) - 1
        segment = self._segments[number]
        segment.indexes.load_timestamps()
        position, end = segment.cut_point(offset)
        self._is_clean = False
        start = self._beginning.wanted
        self._durability.fall_back(segment, position, end, epochs=self.epochs, start=start)
        if end < self.cleaned_offset:
            self.note_cleaned(Offset(end))
        for doomed in self._segments[number + 1 :]:
            self.directory.delete_segment(doomed.base_offset)
        del self._segments[number + 1 :], self._bases[number + 1 :]
        self.directory.delete_snapshots(lambda at: at > end)
        self.directory.sync_entries()
        self._active = segment
        segment.indexes.is_active = True
        segment.cut(position, end)
        segment.indexes.resume(segment.indexes.index.count_up_to(position - 1, field=1))
        segment.file.sync()
        self.epochs.cut(end)
        self.producers, self._bytes_since_snapshot = restore_producers(
            self.directory, self._segments, end, former=self.producers
        )

    def start_at(self, offset: Offset) -> None:
        """Forget every record and begin anew at `offset`: a follower whose leader begins later than
        it ends. Durable when it returns; a crash meanwhile leaves the first of the old records, or
        an empty log. `DiskFull` if there is no room for the new files: nothing has changed."""
        self.directory.check_room()
        self._cut_to(self._bases[0])
        self.epochs.cut(0)  # also those of segments that are missing
        self.directory.delete_snapshots(lambda at: True)
        emptied = self._active
        is_moved = offset != emptied.base_offset
        segment = self.directory.create_segment(offset) if is_moved else emptied
        self.directory.sync_entries()
        self._durability.begin_at(segment, self.epochs)
        for base in self.directory.segment_bases_now():
            if base != offset:
                self.directory.delete_segment(base)
        self.directory.sync_entries()
        self._segments, self._bases, self._active = [segment], [segment.base_offset], segment
        self._beginning = Beginning(self.directory, self._durability, start=offset)
        self.log_start_offset = offset
        self.producers, self._bytes_since_snapshot = Producers(), 0
        if offset < self.cleaned_offset:
            self.note_cleaned(offset)

    def first_damaged_offset(self) -> Offset | None:
        """Where the log first can't be read, as far as that is known."""
        first = next((first for first, _ in self.lost_ranges()), None)
        return None if first is None else Offset(max(first, self.log_start_offset))

    def lost_ranges(self) -> list[tuple[int, int]]:
        """All that can't be read, as far as that is known: see `lookup.lost_ranges`."""
        return lookup.lost_ranges(self._segments, self.log_start_offset)

    # --- cleaning -----------------------------------------------------------------------------

    def advance_start(self, offset: Offset) -> None:
        """Let the log begin at `offset`: as soon as the next flushes have made that durable, what
        lies below is out of range. Never moves back."""
        assert offset <= self.log_end_offset, "a log can't begin after its end"
        if offset > self._beginning.wanted:
            self._is_clean = False
            self._beginning.advance(offset)
            self.follow_start()

    def follow_start(self) -> None:
        """Show readers the durable start, let go of what lies below, and delete what may be."""
        self.log_start_offset = start = Offset(self._beginning.reached())
        count = split_at(self._segments, start)
        if count and not (self.cleaning is not None and self.cleaning.is_swapping):
            doomed = self._bases[:count]
            del self._segments[:count], self._bases[:count]
            self._beginning.doom(doomed, kept_from=self._bases[0])
            self.epochs.begin_at(self._bases[0])
            self.epochs.cut(self.log_end_offset)
        if self._beginning.delete_doomed():
            self._is_clean = False

    def apply_retention(
        self,
        now_ms: int,
        consumed_offset: Offset | None = None,
        *,
        limit_offset: Offset | None = None,
    ) -> int:
        """Let go of the segments that the settings don't ask to keep; gives how many. They go
        with the next flushes. `limit_offset` is the high watermark: what is not committed stays.
        `consumed_offset`: see `retention.plan_retention`."""
        flushed = self.flushed_offset
        limit_offset = flushed if limit_offset is None else min(limit_offset, flushed)
        first = split_at(self._segments, self._beginning.wanted)
        segments = self._segments[first:]
        plan = plan_retention(
            segments,
            self.settings,
            now_ms=now_ms,
            limit_offset=limit_offset,
            consumed_offset=consumed_offset,
        )
        is_emptied = self._active.size > 0 and self._beginning.wanted >= self._active.end_offset
        if plan.rolls or is_emptied:
            self.roll()
        if plan.number:
            self.advance_start(Offset(self._bases[first + plan.number]))
        elif is_emptied:
            self.follow_start()
        return plan.number or int(is_emptied)

    def cleanable(self, now_ms: int, limit_offset: Offset) -> float | None:
        """The dirty share of what could be compacted, if it is time to; `limit_offset` is the high
        watermark."""
        part = self.dirty_part(now_ms, limit_offset) if self.cleaning is None else None
        return part.dirty_ratio if part is not None and part.is_due else None

    def dirty_part(self, now_ms: int, limit_offset: Offset) -> DirtyPart | None:
        """What a pass of compaction would look at."""
        is_clean = self.cleaned_offset >= self._active.base_offset
        if is_clean or not self.settings.is_compacted:
            return None
        return plan_cleaning(
            self._segments,
            self.settings,
            first_dirty=max(self.cleaned_offset, self._bases[0]),
            now_ms=now_ms,
            limit_offset=min(limit_offset, self.flushed_offset),
        )

    def holds(self, segments: list[Segment]) -> bool:
        """They are part of the log still."""
        at = bisect_left(self._bases, segments[0].base_offset)
        return self._segments[at : at + len(segments)] == segments

    def closed_segments(self) -> list[Segment]:
        return self._segments[:-1]

    def swap(self, old: list[Segment], new: Segment) -> Swap:
        """For `cleaner`: how `new` will take the place of `old`."""
        return Swap(self, self.directory, self._durability, old=old, new=new)

    def replace(self, old: list[Segment], new: Segment) -> None:
        at = bisect_left(self._bases, new.base_offset)
        self._segments[at : at + len(old)] = [new]
        self._bases[at : at + len(old)] = [new.base_offset]
        self._emptied_below = max(self._emptied_below, new.end_offset)
        self._is_clean = False

    def note_cleaned(self, offset: Offset) -> None:
        """All below `offset` has been compacted. Were this forgotten, it would be done again."""
        self.cleaned_offset = offset
        with suppress(DiskFull):
            file = self.directory.save_cleaned_offset(offset)
            self._durability.soil(file, *self.directory.entries())

    # --- looking at it ------------------------------------------------------------------------

    def size_bytes(self) -> int:
        return sum(segment.size for segment in self._segments)

    def validate(self) -> None:
        """The invariants, as code; of closed segments only when there are others than before."""
        active, end_offset = self._active, self._active.end_offset
        assert self.log_start_offset <= end_offset
        assert max(self.flushed_offset, self.epochs.last_start + 1) <= end_offset
        assert active is self._segments[-1]
        assert active.indexes.is_active
        assert active.file.size() >= active.size
        if self._segments != self._validated:
            check_closed(self._segments, self._bases)
            self._validated = list(self._segments)

    def describe(self) -> dict[str, Any]:
        return {
            "directory": self.directory.path,
            "log_start_offset": self.log_start_offset,
            "log_end_offset": self.log_end_offset,
            "flushed_offset": self.flushed_offset,
            "cleaned_offset": self.cleaned_offset,
            "size_bytes": self.size_bytes(),
            "segments": [segment.describe() for segment in self._segments],
            "producers": len(self.producers),
            "leader_epochs": self.epochs.entries(),
            "damage": [str(damage) for damage in self.damage],
        }
