"""Compacting one log, a slice at a time: it shares the node's one thread with everybody else.

A pass reads the dirty part of the log for the latest offset of each key, then goes through all
closed segments up to there and writes what stays into new ones: adjacent segments together, as
long as they would fit into one. Each new segment takes the place of its old ones by a `Swap`. At
the end the log remembers how far it is clean. Keys that do not fit into memory are left to the next
pass.

A damaged segment is neither rewritten nor merged: it is reported, and stays.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator

from tidelog.log.cleaning_plan import DirtyPart, plan_groups
from tidelog.log.compaction import (
    Compacted,
    Gap,
    LatestOffsets,
    Pass,
    compact_batch,
    note_keys,
)
from tidelog.log.disk import DiskFull
from tidelog.log.epochs import Epochs
from tidelog.log.log import Log
from tidelog.log.scan import CHECKED_CHUNK_BYTES, is_plausible
from tidelog.log.segment import Segment
from tidelog.log.swap import Swap
from tidelog.model.ids import Offset
from tidelog.model.safeguards import Safeguard
from tidelog.wire.batch import HEADER_BYTES, BatchHeader, has_valid_crc, read_header

_WAIT = -1
"""Yielded in place of a cost: nothing can be done before the next flush."""

_WRITE_BYTES = 256 * 1024
_ROUNDS_TO_ABORT = 100

Work = Generator[int, None, None]


class Cleaning:
    """One pass over one log; it ends, whatever the number of keys, and then another may begin.

    `step` until it says True. When `waits_for_flush`, steps get nowhere before the log's flush
    targets have been synced. `reports` is for the operator.
    """

    def __init__(self, log: Log, *, limit_offset: Offset, buffer_bytes: int) -> None:
        assert log.cleaning is None, "one pass at a time"
        log.cleaning = self
        self.reports: list[str] = []
        self.is_finished = False
        self.waits_for_flush = False
        self.bytes_read = self.bytes_written = 0
        self._log = log
        self._limit_offset = limit_offset
        self._buffer_bytes = buffer_bytes
        self._epochs = log.epochs.copy()
        self._now_ms = self._latest_ms = 0
        self._pass: Pass | None = None
        self._swap: Swap | None = None
        self._unfinished: int | None = None
        """The base of a segment that is being written."""
        self._machine = self._run()

    @property
    def is_swapping(self) -> bool:
        """Segments are being replaced, and there is no way back."""
        return self._swap is not None and self._swap.is_decided

    @property
    def records_dropped(self) -> int:
        return self._pass.records_dropped if self._pass else 0

    def step(self, now_ms: int, budget_bytes: int, *, latest_ms: int | None = None) -> bool:
        """Work for about so many bytes; whether the pass is over. A full disk ends it.

        Where the wall clock is in doubt, `now_ms` is the earliest that it may be, by which ages are
        judged, and `latest_ms` the latest, from which new delete horizons count."""
        self._now_ms = now_ms
        self._latest_ms = now_ms if latest_ms is None else latest_ms
        if self._pass is not None:
            self._pass.now_ms, self._pass.latest_ms = now_ms, self._latest_ms
        self.waits_for_flush = False
        spent = 0
        try:
            while not self.is_finished and spent < budget_bytes:
                cost = next(self._machine, None)
                if cost is None:
                    self._finish()
                elif cost == _WAIT:
                    self.waits_for_flush = True
                    break
                else:
                    spent += cost
        except DiskFull as full:
            self.reports.append(f"compaction is postponed: {full}")
            self.abort()
        return self.is_finished

    def abort(self) -> None:
        """Leave the log as it is; a replacement that was decided is carried out, waiting for the
        disk. Not for a log whose directory is gone: there, just forget this object."""
        for _ in range(_ROUNDS_TO_ABORT):
            if not self.is_swapping:
                break
            self._log.sync()
            next(self._machine, None)
        if self.is_swapping:
            raise DiskFull("a replacement of segments waits for room; the next start finishes it")
        self._machine.close()
        if self._unfinished is not None:
            self._log.directory.delete_cleaned(self._unfinished)
        self._finish()

    def _finish(self) -> None:
        self.is_finished = True
        if self._log.cleaning is self:
            self._log.cleaning = None
        work = self._pass
        if work is not None and work.keyless_dropped:
            self.reports.append(f"compaction dropped {work.keyless_dropped} records without a key")
        if work is not None and work.unopened:
            offsets = ", ".join(map(str, dict.fromkeys(work.unopened)))
            self.reports.append(f"compaction can't open, and keeps, the batches at {offsets}")

    # --- the pass -----------------------------------------------------------------------------

    def _run(self) -> Work:
        log = self._log
        part = log.dirty_part(self._now_ms, self._limit_offset)
        if part is None:
            return
        latest = LatestOffsets(self._buffer_bytes)
        mapped_to = yield from self._map(part, latest)
        self._pass = Pass(
            latest,
            log.producers,
            first_dirty=part.first_dirty,
            mapped_to=mapped_to,
            now_ms=self._now_ms,
            latest_ms=self._latest_ms,
            delete_retention_ms=log.settings.delete_retention_ms,
            keeps_tombstones=Safeguard.TOMBSTONE_RETENTION in log.directory.safeguards,
        )
        segment_bytes = log.settings.segment_bytes
        for group in plan_groups(part.segments, end_offset=mapped_to, segment_bytes=segment_bytes):
            yield from self._clean(group, self._pass)
        log.note_cleaned(Offset(mapped_to))

    def _map(self, part: DirtyPart, latest: LatestOffsets) -> Generator[int, None, int]:
        """Collect keys as far as there is memory; gives the offset after the last batch seen."""
        for segment in part.segments:
            if segment.end_offset <= part.first_dirty:
                continue
            try:
                for header, batch in self._batches(segment, part.first_dirty):
                    if not latest.has_room_for(header.records_count):
                        return header.base_offset
                    yield header.size
                    yield from note_keys(latest, batch, header)
            except (DamageFound, SegmentGone):
                pass  # damage is reported when its turn to be rewritten comes
        return part.segments[-1].end_offset

    def _clean(self, group: list[Segment], work: Pass) -> Work:
        if not self._log.holds(group):
            return  # retention was quicker
        writer = SegmentWriter(self._log.directory.create_cleaned_segment(group[0].base_offset))
        self._unfinished = group[0].base_offset
        try:
            for segment in group:
                for header, batch in self._batches(segment, segment.base_offset):
                    yield header.size
                    writer.take((yield from compact_batch(work, batch, header)))
        except DamageFound:
            self._discard()
            yield from self._clean_around_damage(group, work)
            return
        except SegmentGone:
            self._discard()
            return
        new = writer.finish()
        assert new.end_offset == group[-1].end_offset, "compaction has lost offsets"
        self.bytes_written += new.size
        if writer.has_changes or len(group) > 1:
            yield from self._replace(group, new)
        self._discard()

    def _clean_around_damage(self, group: list[Segment], work: Pass) -> Work:
        """Below the damage may lie older records of any key."""
        work.is_blind = True
        for segment in group:
            if segment.holes:
                self.reports.append(f"{segment.file.path} is damaged and was not compacted")
            elif len(group) > 1:
                yield from self._clean([segment], work)

    def _replace(self, group: list[Segment], new: Segment) -> Work:
        self._swap = self._log.swap(group, new)
        for _ in self._swap.steps():
            if self._swap.is_decided:
                self._unfinished = None
            yield _WAIT
        self._swap = None
        self._log.follow_start()

    def _discard(self) -> None:
        if self._unfinished is not None:
            self._log.directory.delete_cleaned(self._unfinished)
            self._unfinished = None

    def _batches(
        self, segment: Segment, from_offset: int
    ) -> Iterator[tuple[BatchHeader, memoryview]]:
        """Between two of them other work gets its turn, and retention may delete the segment."""
        self._check_held(segment)
        found: tuple[int, int] | None = (0, segment.base_offset)
        if from_offset > segment.base_offset:
            located = segment.locate(from_offset)
            found = (located[0], located[1].base_offset) if located else None
        if found is None or segment.holes:
            raise DamageFound
        for header, batch in read_batches(segment, *found, epochs=self._epochs):
            self.bytes_read += header.size
            yield header, batch
            self._check_held(segment)

    def _check_held(self, segment: Segment) -> None:
        if not self._log.holds([segment]):
            raise SegmentGone


# --- reading and writing segments -------------------------------------------------------------


class DamageFound(Exception):
    """A segment is not what it should be, and has a hole now."""


class SegmentGone(Exception):
    """Retention was quicker: the segment's file is closed."""


def read_batches(
    segment: Segment, position: int, expected_offset: int, *, epochs: Epochs
) -> Iterator[tuple[BatchHeader, memoryview]]:
    """Every batch from `position`, where the offset is due, each checked in all that it says of
    itself; `DamageFound` at the first that is wrong."""
    window = _Window(segment)
    while position < segment.size:
        if segment.is_beyond(expected_offset):
            segment.disregard_tail(position)
            break
        head = window.view(position, HEADER_BYTES)
        header = read_header(head) if len(head) == HEADER_BYTES else None
        if header is not None and is_plausible(header, segment.size - position):
            batch = window.view(position, header.size)
            if (
                header.base_offset == expected_offset
                and header.leader_epoch == epochs.epoch_of(expected_offset)
                and has_valid_crc(batch, header)
            ):
                yield header, batch
                position, expected_offset = position + header.size, header.next_offset
                continue
        segment.quarantine(
            position, expected_offset, "the checksum, the offset or the epoch is wrong"
        )
        raise DamageFound
    if expected_offset != segment.end_offset:
        segment.quarantine(position, expected_offset, "the segment has lost its end")
        raise DamageFound


class _Window:
    """The part of a segment's file that was read last."""

    def __init__(self, segment: Segment) -> None:
        self._segment = segment
        self._data = memoryview(b"")
        self._from = 0

    def view(self, position: int, size: int) -> memoryview:
        """Fewer bytes only at the end of the file."""
        at = position - self._from
        if at + size > len(self._data):
            want = min(max(size, CHECKED_CHUNK_BYTES), self._segment.size - position)
            self._data, self._from = memoryview(self._segment.file.read(position, want)), position
            at = 0
        return self._data[at : at + size]


class SegmentWriter:
    """Batches go into a new segment, those without records as few fillers."""

    def __init__(self, segment: Segment) -> None:
        self.has_changes = False
        self._segment = segment
        self._gap = Gap()
        self._parts: list[memoryview | bytearray] = []
        self._headers: list[BatchHeader] = []
        self._bytes = 0

    def take(self, compacted: Compacted) -> None:
        header, batch, is_same = compacted
        self.has_changes = self.has_changes or not is_same
        if batch is not None:
            self._close_gap()
            self._add(batch)
        elif self._gap.takes(header):
            self._gap.add(header)
            self.has_changes = True
        else:
            self._close_gap()
            self._gap.add(header)

    def finish(self) -> Segment:
        self._close_gap()
        self._write()
        return self._segment

    def _close_gap(self) -> None:
        if self._gap.is_open:
            self._add(self._gap.close())

    def _add(self, batch: memoryview | bytearray) -> None:
        self._parts.append(batch)
        self._headers.append(read_header(batch))
        self._bytes += len(batch)
        if self._bytes >= _WRITE_BYTES:
            self._write()

    def _write(self) -> None:
        if self._parts:
            data = memoryview(b"".join(self._parts))
            self._segment.append(data, self._headers, self._headers[0].base_offset)
            self._parts, self._headers, self._bytes = [], [], 0
