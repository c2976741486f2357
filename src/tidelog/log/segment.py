"""One segment: a file of record batches back to back, its two indexes, and what is known of both.

Only the last segment of a log is appended to. Reads find a batch by three means, cheapest first:
the positions of the batches appended lately, the sparse index, a walk over headers. An index entry
is believed only if the batch it leads to agrees with it; if not, the indexes are rebuilt from the
log. Where the log itself is unreadable there is a *hole*: reported, never served, walked around.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Generator, Iterator, Sequence

from tidelog.log import scan
from tidelog.log.damage import Damage, DamageKind, Holes, Ranges
from tidelog.log.disk import Disk, DiskError, DiskFull, File, FileSpan
from tidelog.log.epochs import Epochs
from tidelog.log.index import OFFSET_ENTRY, TIME_ENTRY, SparseIndex
from tidelog.log.paths import INDEX, LOG, TIME_INDEX, offset_path
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NO_TIMESTAMP
from tidelog.wire.batch import HEADER_BYTES, BatchHeader, read_header

RECENT_BATCHES = 64
"""Batches whose positions are remembered, at least: consumers at the tail ask for these."""

MAX_RELATIVE_OFFSET = 2**31 - 1

_SHORT = "the file is shorter than it was"


class Segment:
    """`size` bytes holding the offsets from `base_offset` up to `end_offset`."""

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
    ) -> None:
        self.base_offset = base_offset
        self.end_offset = end_offset
        self.file: File = disk.open(offset_path(directory, base_offset, LOG), create=create)
        self.size = self.file.size()
        self.index = SparseIndex(disk, offset_path(directory, base_offset, INDEX), OFFSET_ENTRY)
        time_path = offset_path(directory, base_offset, TIME_INDEX)
        self.time_index = SparseIndex(disk, time_path, TIME_ENTRY)
        self.max_timestamp = NO_TIMESTAMP
        self.max_timestamp_offset = -1
        self.first_timestamp = NO_TIMESTAMP
        self.is_active = create
        self.trusted_from = self.size
        """Bytes from here on were written or verified by this process."""
        self.holes = Holes()
        self._index_interval_bytes = index_interval_bytes
        self._epochs = epochs
        self._reports = reports
        self._verified = Ranges()
        self._bytes_since_entry = 0
        self.expected_entries: tuple[int, int] | None = None
        """Of the two index files, as the mark knows them."""
        self._has_indexes = create
        self._has_timestamps = create
        self._recent_offsets: list[int] = []
        self._recent_positions: list[int] = []

    # --- writing ------------------------------------------------------------------------------

    def append(self, records: memoryview, headers: Sequence[BatchHeader], base_offset: int) -> None:
        """One write of all; on an error the file is cut back and nothing has changed."""
        self.load_indexes()
        position = self.size
        try:
            self.file.write(position, (records,))
        except DiskError:
            self.file.truncate(position)
            raise
        if position == 0:
            self.first_timestamp = headers[0].max_timestamp
        offsets, positions = self._recent_offsets, self._recent_positions
        for header in headers:
            offsets.append(base_offset)
            positions.append(position)
            self._note(header, base_offset, position)
            position += header.size
            base_offset += header.last_offset_delta + 1
        self.size = position
        self.end_offset = base_offset
        if len(offsets) > 2 * RECENT_BATCHES:
            del offsets[:-RECENT_BATCHES], positions[:-RECENT_BATCHES]

    def _note(self, header: BatchHeader, base_offset: int, position: int) -> None:
        """Kafka's rule: an entry for the first batch after more than so many bytes without one."""
        last_relative = base_offset + header.last_offset_delta - self.base_offset
        if header.max_timestamp > self.max_timestamp:
            self.max_timestamp = header.max_timestamp
            self.max_timestamp_offset = last_relative + self.base_offset
        if self._bytes_since_entry > self._index_interval_bytes:
            self.index.append(last_relative, position)
            self._add_time_entry()
            self._bytes_since_entry = 0
        self._bytes_since_entry += header.size

    def _add_time_entry(self) -> None:
        last = self.time_index.last()
        if self.max_timestamp > (last[0] if last else NO_TIMESTAMP):
            self.time_index.append(self.max_timestamp, self.max_timestamp_offset - self.base_offset)

    def finish_indexes(self) -> None:
        """No more appends will come: the time index gets its last word, and both are written."""
        self.load_indexes()
        self._add_time_entry()
        self.write_indexes()
        self.is_active = False
        self._has_timestamps = True
        self._recent_offsets.clear()
        self._recent_positions.clear()

    def write_indexes(self) -> None:
        if self._has_indexes:
            self.index.write_pending()
            self.time_index.write_pending()

    def cut(self, position: int, end_offset: int) -> None:
        """Keep the bytes before `position`, a batch's begin, where `end_offset` is due. The indexes
        are the caller's to resume."""
        self.file.truncate(position)
        self.size, self.end_offset = position, end_offset
        self.trusted_from = min(self.trusted_from, position)
        self._verified.cut(position)
        self.holes.cut(position)
        self._recent_offsets.clear()
        self._recent_positions.clear()

    # --- indexes ------------------------------------------------------------------------------

    def load_indexes(self) -> None:
        """On first use: the files as they are, or rebuilt if they are absent or odd."""
        if self._has_indexes:
            return
        self._has_indexes = True
        if not self.is_active:
            if not self.index.load():
                self.rebuild_indexes()
            return
        is_loaded = self.index.load() and self.time_index.load()
        counts = (len(self.index), len(self.time_index))
        is_whole = is_loaded and self.expected_entries in (None, counts)
        self.resume_indexes(counts[0] if is_whole else 0)

    def load_timestamps(self) -> None:
        """The time index is believed if it leads to the batch with the largest timestamp: a file
        that has lost its tail would make a look-up skip the segment."""
        self.load_indexes()
        if self._has_timestamps or self.is_active:
            return
        self._has_timestamps = True
        last = self.time_index.last() if self.time_index.load() else None
        offset = last[1] + self.base_offset if last else self.base_offset
        largest = NO_TIMESTAMP
        for _, header in self.walk_from_offset(offset):
            if header.max_timestamp > largest:
                largest, offset = header.max_timestamp, header.last_offset
        if (largest, offset - self.base_offset) == last or (not last and largest == NO_TIMESTAMP):
            self.max_timestamp, self.max_timestamp_offset = largest, offset
        else:
            self.rebuild_indexes()

    def rebuild_indexes(self) -> None:
        """From the log's headers alone."""
        self._has_indexes = self._has_timestamps = True
        self.resume_indexes(0)
        if not self.is_active:
            self._add_time_entry()
            try:
                self.write_indexes()
            except DiskFull:
                pass  # they serve from memory, and the next start rebuilds them again

    def resume_indexes(self, trusted_entries: int) -> None:
        """Keep so many entries of the offset index and redo the rest from the log's headers."""
        self._has_indexes = self._has_timestamps = True
        self.max_timestamp, self.max_timestamp_offset = NO_TIMESTAMP, -1
        self._bytes_since_entry = 0
        position, expected = 0, self.base_offset
        self.index.keep(trusted_entries)
        last = self.index.last()
        header = self._agreeing_header(*last) if last else None
        if last is None or header is None:
            self.index.keep(0)
            self.time_index.keep(0)
        else:
            self._resume_time_index(header)
            self._bytes_since_entry = header.size
            position, expected = last[1] + header.size, header.next_offset
        for at, following in self.walk(position, expected):
            self._note(following, following.base_offset, at)
        self._read_first_timestamp()

    def _resume_time_index(self, header: BatchHeader) -> None:
        """Where the time index stood when `header`'s batch got its entry."""
        last_relative = header.last_offset - self.base_offset
        self.time_index.keep(self.time_index.count_up_to(last_relative, field=1))
        last = self.time_index.last()
        if last is not None:
            self.max_timestamp = last[0]
            self.max_timestamp_offset = last[1] + self.base_offset

    def trustworthy_entries(self, position: int, entries: int, time_entries: int) -> int:
        """Of index files that a crash may have torn: how many offset entries may be resumed from.

        All must lead below `position`. The two files lose their tails independently, and what one
        knows and the other has lost must be redone, or a timestamp look-up would skip batches: so
        the time index must still have as many as when the offset index had `entries`, or else reach
        as far.
        """
        if not (self.index.load() and self.time_index.load()):
            return 0
        self.index.keep(self.index.prefix(below=position, field=1, first_above=(-1, 0)))
        limit = MAX_RELATIVE_OFFSET
        timed = self.time_index.prefix(below=limit, field=1, first_above=(-1, -1))
        self.time_index.keep(timed)
        last = self.time_index.last()
        reached = self.index.count_up_to(last[1], field=0) if last else 0
        return max(reached, min(len(self.index), entries) if timed >= time_entries else 0)

    def _agreeing_header(self, relative: int, position: int) -> BatchHeader | None:
        """The header that an index entry leads to, if the two agree."""
        header = self.header_at(position)
        if header is None or header.last_offset != self.base_offset + relative:
            return None
        return header

    def _read_first_timestamp(self) -> None:
        first = self.header_at(0)
        self.first_timestamp = first.max_timestamp if first else NO_TIMESTAMP

    # --- finding ------------------------------------------------------------------------------

    def header_at(self, position: int) -> BatchHeader | None:
        """The header at `position`, if one can be there."""
        if not 0 <= position <= self.size - HEADER_BYTES:
            return None
        data = self.file.read(position, HEADER_BYTES)
        if len(data) < HEADER_BYTES:
            return None
        header = read_header(data)
        return header if scan.is_plausible(header, self.size - position) else None

    def torn_header_at(self, position: int) -> BatchHeader | None:
        """A header, even if the file ends before its batch does."""
        data = self.file.read(position, HEADER_BYTES)
        return read_header(data) if len(data) == HEADER_BYTES else None

    def walk(self, position: int, expected_offset: int) -> Iterator[tuple[int, BatchHeader]]:
        """Position and header of each batch from `position`, where `expected_offset` is due.

        Steps over holes; what turns out to be unreadable becomes one.
        """
        while position < self.size:
            hole = self.holes.first_from(position) if self.holes else None
            stop, due = (hole.position, hole.first_offset) if hole else (self.size, self.end_offset)
            wrong = yield from self._stretch(position, expected_offset, stop, due)
            if wrong is not None:
                hole = self.quarantine(*wrong, "no readable batch header")
            if hole is None:
                return
            position, expected_offset = hole.end_position, hole.next_offset

    def _stretch(
        self, position: int, expected_offset: int, stop: int, due_at_stop: int
    ) -> Generator[tuple[int, BatchHeader], None, tuple[int, int] | None]:
        """Batches up to `stop`, as far as they fit together; then where one is wrong, if it is.

        A header is believed when what follows agrees with it; if not, the checksum tells which of
        the two is wrong. So each is held back until the next has been seen.
        """
        held: BatchHeader | None = None
        for at, header in scan.walk(self.file, position, stop):
            if held is not None:
                is_agreed = header is not None and header.base_offset == held.next_offset
                if not is_agreed and not scan.is_intact(self.file, position, held):
                    return position, expected_offset
                yield position, held
                position, expected_offset = at, held.next_offset
            if header is None or header.base_offset != expected_offset:
                return at, expected_offset
            held = header
        if held is not None:
            is_agreed = held.next_offset == due_at_stop
            if not is_agreed and not scan.is_intact(self.file, position, held):
                return position, expected_offset
            yield position, held
        return None

    def locate(self, offset: int) -> tuple[int, BatchHeader] | None:
        """Position and header of the batch that holds `offset`; none if it lies in a hole."""
        self.load_indexes()
        position, expected = self._start_towards(offset)
        for at, header in self.walk(position, expected):
            if header.last_offset >= offset:
                return (at, header) if header.base_offset <= offset else None
            expected = header.next_offset
        if self.holes.with_offset(offset) is None:
            self._report("missing", (self.size, self.size), (expected, self.end_offset), _SHORT)
        return None

    def _start_towards(self, target: int, field: int = 0) -> tuple[int, int]:
        """A batch's begin, and the offset due there, not after the target: an offset (field 0) or
        a position (field 1)."""
        if field == 0:
            target -= self.base_offset
        for _ in range(2):
            entry = self.index.floor(target, field)
            if entry is None:
                break
            header = self._agreeing_header(*entry)
            if header is not None:
                return entry[1], header.base_offset
            self.rebuild_indexes()
        return 0, self.base_offset

    def walk_from_offset(self, offset: int) -> Iterator[tuple[int, BatchHeader]]:
        """Position and header of each batch from the one that holds `offset`."""
        self.load_indexes()
        for at, header in self.walk(*self._start_towards(offset)):
            if header.last_offset >= offset:
                yield at, header

    def find_end(self) -> int:
        """The offset after the last batch or hole: below `end_offset` if the file has lost its
        tail."""
        self.load_indexes()
        position, end = self._start_towards(self.end_offset)
        for _, header in self.walk(position, end):
            end = header.next_offset
        hole = self.holes.with_offset(end)
        return hole.next_offset if hole else end

    def start_towards_timestamp(self, timestamp_ms: int) -> tuple[int, int]:
        """A batch's begin, and the offset due there, before which no record is that late."""
        entry = self.time_index.floor(timestamp_ms)
        if entry is not None:
            found = self.locate(entry[1] + self.base_offset)
            if found is not None and found[1].max_timestamp == entry[0]:
                return found[0], found[1].base_offset
        return 0, self.base_offset

    def cut_point(self, offset: int) -> tuple[int, int]:
        """Where the batch or hole that holds `offset` begins: position and offset."""
        found = self.locate(offset)
        if found is not None:
            return found[0], found[1].base_offset
        hole = self.holes.with_offset(offset)
        return (hole.position, hole.first_offset) if hole else (self.size, self.end_offset)

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
        if hole is not None:
            end = min(end, hole.position)
        if end <= start:
            return None
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
        self.load_indexes()
        position, expected = self._start_towards(target, field=1)
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
            if (
                header is None
                or header.base_offset != expected
                or header.leader_epoch != self._epochs.epoch_of(expected)
            ):
                self._verified.add(start, at)
                self.quarantine(at, expected, "the checksum, the offset or the epoch is wrong")
                return at
            expected = header.next_offset
        self._verified.add(start, end)
        return end

    # --- damage -------------------------------------------------------------------------------

    def quarantine(self, position: int, expected_offset: int, reason: str) -> Damage:
        """What begins at `position`, where the offset is due, is wrong: a hole up to the next
        batch that is right."""
        end, next_offset = self._after_damage(position, expected_offset)
        bounds, offsets = (position, end), (expected_offset, next_offset)
        return self._report("quarantined", bounds, offsets, reason)

    def _report(
        self, kind: DamageKind, bounds: tuple[int, int], offsets: tuple[int, int], reason: str
    ) -> Damage:
        hole = Damage(kind, self.file.path, *bounds, *offsets, reason)
        self.holes.add(hole)
        self._reports.append(hole)
        return hole

    def _after_damage(self, position: int, expected_offset: int) -> tuple[int, int]:
        """The header, if it makes sense together with what follows, else a search."""
        header = self.header_at(position)
        if header is not None and header.base_offset == expected_offset:
            end, next_offset = position + header.size, header.next_offset
            following = self.header_at(end)
            if (
                following.base_offset == next_offset
                if following
                else (end == self.size and next_offset == self.end_offset)
            ):
                return end, next_offset
        found = scan.find_batch(
            self.file, position + 1, self.size, low=expected_offset + 1, high=self.end_offset
        )
        return (found[0], found[1].base_offset) if found else (self.size, self.end_offset)
