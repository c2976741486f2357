"""One segment of a log: its batches, its indexes, and which of its bytes are known to be good.

Only the last segment of a log is appended to. Reads find a batch by three means, cheapest first:
the positions of the batches appended lately, the sparse index, a walk over headers. Bytes that this
process has neither written nor verified are checked before they are served.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise

from tidelog.log import scan
from tidelog.log.batch_file import BatchFile, Place
from tidelog.log.damage import Damage, Ranges
from tidelog.log.disk import Disk, DiskError, FileSpan
from tidelog.log.epochs import Epochs
from tidelog.log.paths import LOG, offset_path
from tidelog.log.segment_indexes import SegmentIndexes
from tidelog.model.errors import ErrorCode
from tidelog.wire.batch import HEADER_BYTES, LENGTH_PREFIX_BYTES, BatchHeader

RECENT_BATCHES = 64
"""Batches whose positions are remembered, at least: consumers at the tail ask for these."""


_WRONG = "the checksum, the offset or the epoch is wrong"


class Segment(BatchFile):
    """The batches with all that belongs to them."""

    def __init__(
        self,
        disk: Disk,
        directory: str,
        base_offset: int,
        *,
        end_offset: int,
        index_interval_bytes: int,
        epochs: Epochs,
        reports: list[Damage],
        create: bool = False,
        suffix: str = "",
    ) -> None:
        """`suffix`: of the files' names, while they wait to take the place of others."""
        file = disk.open(offset_path(directory, base_offset, LOG) + suffix, create=create)
        super().__init__(file, base_offset=base_offset, end_offset=end_offset, reports=reports)
        if create and self.size:
            super().cut(0, base_offset)  # somebody's leftover
        self.indexes = SegmentIndexes(
            self,
            disk,
            directory,
            interval_bytes=index_interval_bytes,
            is_new=create,
            suffix=suffix,
        )
        self.trusted_from = self.size
        """Bytes from here on were written or verified by this process."""
        self.cuts = 0
        """Positions from before a cut mean nothing after it."""
        self._epochs = epochs
        self._verified = Ranges()
        self._recent_offsets: list[int] = []
        self._recent_positions: list[int] = []

    # --- writing ------------------------------------------------------------------------------

    def append(self, records: memoryview, headers: Sequence[BatchHeader], base_offset: int) -> None:
        """One write of all; on an error the file is cut back and nothing has changed."""
        if not self.indexes.is_loaded:
            self.indexes.load()
        position = self.size
        try:
            self.file.write(position, (records,))
        except DiskError:
            self.file.truncate(position)
            raise
        offsets, positions, note = self._recent_offsets, self._recent_positions, self.indexes.note
        for header in headers:
            offsets.append(base_offset)
            positions.append(position)
            note(header, base_offset, position)
            position += header.batch_length + LENGTH_PREFIX_BYTES
            base_offset += header.last_offset_delta + 1
        self.size = position
        self.end_offset = base_offset
        if len(offsets) > 2 * RECENT_BATCHES:
            del offsets[:-RECENT_BATCHES], positions[:-RECENT_BATCHES]

    def close(self) -> None:
        """No more appends will come."""
        self.indexes.finish()
        self._forget_recent()

    def cut(self, position: int, end_offset: int) -> None:
        """As `BatchFile.cut`; the indexes are the caller's to resume."""
        super().cut(position, end_offset)
        self.cuts += 1
        self.trusted_from = min(self.trusted_from, position)
        self._verified.cut(position)
        self._forget_recent()

    def _forget_recent(self) -> None:
        self._recent_offsets.clear()
        self._recent_positions.clear()

    # --- finding ------------------------------------------------------------------------------

    def locate(self, offset: int) -> tuple[int, BatchHeader] | None:
        """Position and header of the batch that holds `offset`; none if it lies in a hole."""
        self.indexes.load()
        position, expected = self.indexes.start_towards(offset)
        for at, header in self.walk(position, expected):
            if header.last_offset >= offset:
                return (at, header) if header.base_offset <= offset else None
            expected = header.next_offset
        if self.holes.with_offset(offset) is None:
            self.report_missing_tail(expected)
        return None

    def find_end(self) -> int:
        """The offset after the last batch or hole: below `end_offset` if the file has lost its
        tail."""
        self.indexes.load()
        position, end = self.indexes.start_towards(self.end_offset)
        for _, header in self.walk(position, end):
            end = header.next_offset
        hole = self.holes.with_offset(end)
        return hole.next_offset if hole else end

    def cut_point(self, offset: int) -> tuple[int, int]:
        """Where the batch or hole that holds `offset` begins: position and offset."""
        found = self.locate(offset)
        if found is not None:
            return found[0], found[1].base_offset
        hole = self.holes.with_offset(offset)
        return (hole.position, hole.first_offset) if hole else (self.size, self.end_offset)

    def largest_timestamp(self) -> int:
        """Of all records; -1 if none has one."""
        self.indexes.load_timestamps()
        return self.indexes.max_timestamp

    def next_record_from(self, offset: int) -> int:
        """Where the batch begins that holds `offset`, or the next that is not empty: compaction
        leaves empty ones, and nobody is helped by reading those. Damage is not passed over.
        `end_offset` if there is nothing more."""
        found = self.locate(offset)
        if found is None:
            return offset
        expected = found[1].base_offset
        for _, header in self.walk(found[0], expected):
            if header.records_count or header.base_offset != expected:
                return max(offset, expected)
            expected = header.next_offset
        return expected

    def _position_of(self, offset: int) -> int | None:
        offsets = self._recent_offsets
        if offsets and offset >= offsets[0]:
            return self._recent_positions[bisect_right(offsets, offset) - 1]
        found = self.locate(offset)
        return found[0] if found else None

    # --- reading ------------------------------------------------------------------------------

    def read(
        self,
        offset: int,
        *,
        max_bytes: int,
        limit_offset: int,
        at_least_one: bool,
        check_crc: bool,
    ) -> FileSpan | ErrorCode | None:
        """See `Log.read`; `offset` is below `limit_offset` and within the segment."""
        start = self._position_of(offset)
        if start is None:
            return ErrorCode.CORRUPT_MESSAGE
        end = self._end_before(limit_offset)
        if end - start > max_bytes:
            end = self._boundary(start, start + max_bytes, at_least_one=at_least_one)
        hole = self.holes.first_from(start) if self.holes else None
        if hole is not None and hole.position <= start:
            return ErrorCode.CORRUPT_MESSAGE
        if hole is not None:
            end = min(end, hole.position)
        if end <= start:
            return None
        recent = self._recent_positions
        if not recent or start < recent[0]:  # what was written lately is in memory
            self.file.require(start, end - start)
        if check_crc:
            end = self._verified_until(start, end)
            if end == start:
                return ErrorCode.CORRUPT_MESSAGE
        return FileSpan(self.file, start, end - start)

    def _end_before(self, limit_offset: int) -> int:
        """Where the last batch ends that lies wholly before the offset."""
        if limit_offset >= self.end_offset:
            return self.size
        position = self._position_of(limit_offset)
        if position is None:
            hole = self.holes.with_offset(limit_offset)
            return hole.position if hole else self.size
        return position

    def _boundary(self, start: int, target: int, *, at_least_one: bool) -> int:
        """The last begin or end of a batch in [start, target]; with `at_least_one`, at least the
        end of the batch at `start`."""
        positions = self._recent_positions
        if positions and target >= positions[0]:
            number = bisect_right(positions, target) - 1
            if positions[number] > start or not at_least_one:
                return positions[number]
            return positions[number + 1] if number + 1 < len(positions) else self.size
        self.indexes.load()
        position, expected = self.indexes.start_towards(target, field=1)
        if position < start:
            header = self.header_at(start)
            assert header is not None, "a batch that was found is gone"
            position, expected = start, header.base_offset
        for at, header in self.walk(position, expected):
            end = at + header.size
            if end > target:
                return end if at == start and at_least_one else at
        return target

    def _verified_until(self, start: int, end: int) -> int:
        """`end`, or where the first batch begins whose checksum, offset or epoch is wrong."""
        if self._verified.covers(start, min(end, self.trusted_from)):
            return end
        first = self.header_at(start)
        assert first is not None, "a batch that was found is gone"
        expected = first.base_offset
        for at, header in scan.walk_checked(self.file, start, end):
            if header is None or not self._is_in_place(header, expected):
                self._verified.add(start, at)
                self.quarantine(at, expected, _WRONG)
                return at
            expected = header.next_offset
        self._verified.add(start, end)
        return end

    def _is_in_place(self, header: BatchHeader, expected: int) -> bool:
        return (
            header.base_offset == expected
            and not self.is_beyond(expected)
            and header.leader_epoch == self._epochs.epoch_of(expected)
        )

    def check(self, place: Place, max_bytes: int) -> Place:
        """Check about so many bytes from there, whether or not they were checked before. What is
        wrong is quarantined, as soon as its end has been found. Returns where to go on; the
        position is `size` at the end."""
        position, expected, _ = place
        hole = self.holes.first_from(position) if self.holes else None
        if hole is not None and hole.position <= position:
            return Place(hole.end_position, hole.next_offset)
        if place.sought_to:
            return self._check_damage(place, max_bytes)
        start, stop = position, hole.position if hole else self.size
        chunk_bytes = max(max_bytes, HEADER_BYTES)
        for at, header in scan.walk_checked(self.file, start, stop, chunk_bytes=chunk_bytes):
            if header is None or not self._is_in_place(header, expected):
                return self._check_damage(Place(at, expected), max_bytes)
            position, expected = at + header.size, header.next_offset
            if position - start >= max_bytes:
                break
        if position >= self.size and not self.is_beyond(expected):
            self.report_missing_tail(expected)
        return Place(position, expected)

    def _check_damage(self, place: Place, max_bytes: int) -> Place:
        found = self.quarantine_part(place, _WRONG, max_bytes=max_bytes)
        return found if isinstance(found, Place) else Place(found.end_position, found.next_offset)

    def describe(self) -> dict[str, int]:
        return {"base_offset": self.base_offset, "size_bytes": self.size}


def check_closed(segments: Sequence[Segment], bases: Sequence[int]) -> None:
    """Of a log's segments only the last is written, and none reaches into the next."""
    assert bases == [segment.base_offset for segment in segments]
    for segment, following in pairwise(segments):
        assert segment.base_offset <= segment.end_offset <= following.base_offset
        assert not segment.indexes.is_active
