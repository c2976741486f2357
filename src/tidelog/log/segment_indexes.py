"""A segment's two indexes: kept while it grows, loaded, checked against the log, rebuilt from it.

An index entry is believed only if the batch it leads to agrees with it; if not, both indexes are
rebuilt from the log's headers. They are a function of the log: an active segment's has an entry
every so many bytes, a closed one's time index ends with the largest timestamp besides.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from weakref import proxy

from tidelog.log.batch_file import BatchFile
from tidelog.log.disk import Disk, DiskError, File
from tidelog.log.index import OFFSET_ENTRY, TIME_ENTRY, SparseIndex
from tidelog.log.paths import INDEX, TIME_INDEX, offset_path
from tidelog.model.ids import NO_TIMESTAMP
from tidelog.wire.batch import LENGTH_PREFIX_BYTES, BatchHeader

MAX_RELATIVE_OFFSET = 2**31 - 1


class SegmentIndexes:
    """Of the batches in `batches`. `max_timestamp` and its offset are known after `load` (active
    segment) or `load_timestamps` (closed)."""

    def __init__(
        self,
        batches: BatchFile,
        disk: Disk,
        directory: str,
        *,
        interval_bytes: int,
        is_new: bool,
        suffix: str = "",
    ) -> None:
        base = batches.base_offset
        path = offset_path(directory, base, INDEX) + suffix
        self.index = SparseIndex(disk, path, OFFSET_ENTRY)
        path = offset_path(directory, base, TIME_INDEX) + suffix
        self.time_index = SparseIndex(disk, path, TIME_ENTRY)
        self.is_active = is_new
        self.expected_entries: tuple[int, int] | None = None
        """Of the two files, as the mark knows them."""
        self.max_timestamp = NO_TIMESTAMP
        self.max_timestamp_offset = -1
        self.first_timestamp = NO_TIMESTAMP
        # The segment refers to us: a cycle of the two would outlive its deletion.
        self._batches: BatchFile = proxy(batches)
        self._base_offset = base
        self.interval_bytes = interval_bytes
        self._bytes_since_entry = 0
        self.is_loaded = is_new
        self._has_timestamps = is_new
        self._is_half_built = False
        """They were being rebuilt when the disk failed, or had to be waited for."""

    # --- keeping ------------------------------------------------------------------------------

    def note(self, header: BatchHeader, base_offset: int, position: int) -> None:
        """Kafka's rule: an entry for the first batch after more than so many bytes without one."""
        if position == 0:
            self.first_timestamp = header.max_timestamp
        last_relative = base_offset + header.last_offset_delta - self._base_offset
        if header.max_timestamp > self.max_timestamp and header.records_count:
            self.max_timestamp = header.max_timestamp
            self.max_timestamp_offset = last_relative + self._base_offset
        if self._bytes_since_entry > self.interval_bytes:
            self.index.append(last_relative, position)
            self._add_time_entry()
            self._bytes_since_entry = 0
        self._bytes_since_entry += header.batch_length + LENGTH_PREFIX_BYTES

    def _add_time_entry(self) -> None:
        last = self.time_index.last()
        if self.max_timestamp > (last[0] if last else NO_TIMESTAMP):
            self.time_index.append(
                self.max_timestamp, self.max_timestamp_offset - self._base_offset
            )

    def finish(self) -> None:
        """No more batches will come: the time index gets its last word, and both are written."""
        self.load()
        self._add_time_entry()
        self.write()
        self.is_active = False

    def write(self) -> None:
        """What is in memory alone, to the operating system."""
        if self.is_loaded:
            self.index.write_pending()
            self.time_index.write_pending()

    def files(self) -> list[File]:
        """Both, for syncing."""
        return [self.index.file(), self.time_index.file()]

    # --- loading and rebuilding ---------------------------------------------------------------

    def load(self) -> None:
        """On first use: the files as they are, or rebuilt if they are absent or odd."""
        if not self.is_loaded:
            with self._all_or_nothing():
                self._load()

    @contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        """What a failing disk has read half is read anew the next time."""
        try:
            yield
        except DiskError:
            self.is_loaded = self._has_timestamps = False
            raise

    def _load(self) -> None:
        self.is_loaded = True
        if not self.is_active:
            if not self.index.load() or self._is_half_built:
                self.rebuild()
            return
        is_loaded = self.index.load() and self.time_index.load() and not self._is_half_built
        counts = (len(self.index), len(self.time_index))
        is_whole = is_loaded and self.expected_entries in (None, counts)
        self.resume(counts[0] if is_whole else 0)
        self._is_half_built = False

    def load_timestamps(self) -> None:
        """The time index is believed if it leads to the batch with the largest timestamp: a file
        that has lost its tail would make a look-up skip the segment."""
        self.load()
        if not (self._has_timestamps or self.is_active):
            with self._all_or_nothing():
                self._load_timestamps()

    def _load_timestamps(self) -> None:
        self._has_timestamps = True
        last = self.time_index.last() if self.time_index.load() else None
        offset = last[1] + self._base_offset if last else self._base_offset
        largest = NO_TIMESTAMP
        for _, header in self.walk_from_offset(offset):
            if header.max_timestamp > largest and header.records_count:
                largest, offset = header.max_timestamp, header.last_offset
        if (largest, offset - self._base_offset) == last or (not last and largest == NO_TIMESTAMP):
            self.max_timestamp, self.max_timestamp_offset = largest, offset
        else:
            self.rebuild()

    def rebuild(self) -> None:
        """From the log's headers alone."""
        self._is_half_built = True
        self.resume(0)
        self._is_half_built = False
        if not self.is_active:
            self._add_time_entry()
            try:
                self.write()
            except DiskError:
                pass  # they serve from memory, and the next start rebuilds them again

    def resume(self, trusted_entries: int) -> None:
        """Keep so many entries of the offset index and redo the rest from the log's headers."""
        if not trusted_entries:  # before anything is forgotten: the walk will not stop half-way
            self._batches.file.require(0, self._batches.size)
        self.is_loaded = self._has_timestamps = True
        self._bytes_since_entry = 0
        position, expected = 0, self._base_offset
        self.index.keep(trusted_entries)
        last = self.index.last()
        header = self._agreeing_header(*last) if last else None
        if last is None or header is None or not self._resume_time_index(header):
            self.index.keep(0)
            self.time_index.keep(0)
            self.max_timestamp, self.max_timestamp_offset = NO_TIMESTAMP, -1
        else:
            self._bytes_since_entry = header.size
            position, expected = last[1] + header.size, header.next_offset
        for at, following in self._batches.walk(position, expected):
            self.note(following, following.base_offset, at)
        first = self._batches.header_at(0)
        self.first_timestamp = first.max_timestamp if first else NO_TIMESTAMP

    def _resume_time_index(self, header: BatchHeader) -> bool:
        """Put it where it stood when `header`'s batch got its entry; whether the log agrees.

        The last entry left must lead to its batch, and nothing later than it may have come since:
        a damaged entry that was dropped for its offset must not take a timestamp with it.
        """
        last_relative = header.last_offset - self._base_offset
        self.time_index.keep(self.time_index.count_up_to(last_relative, field=1))
        last = self.time_index.last()
        self.max_timestamp, self.max_timestamp_offset = NO_TIMESTAMP, -1
        start: tuple[int, int] | None = 0, self._base_offset
        if last is not None:
            self.max_timestamp, self.max_timestamp_offset = last[0], last[1] + self._base_offset
            start = self._indexed_start(self.max_timestamp_offset)
        has_agreed = last is None
        for _, found in self._batches.walk(*start) if start else ():
            if found.last_offset > header.last_offset:
                break
            if found.last_offset == self.max_timestamp_offset:
                has_agreed = found.max_timestamp == self.max_timestamp
            elif found.max_timestamp > self.max_timestamp and found.records_count:
                return False
        return has_agreed

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
        header = self._batches.header_at(position)
        if header is None or header.last_offset != self._base_offset + relative:
            return None
        return header

    # --- leading to batches -------------------------------------------------------------------

    def start_towards(self, target: int, field: int = 0) -> tuple[int, int]:
        """A batch's begin, and the offset due there, not after the target: an offset (field 0) or
        a position (field 1)."""
        start = self._indexed_start(target, field)
        if start is None:
            with self._all_or_nothing():
                self.rebuild()
            start = self._indexed_start(target, field)
        return start or (0, self._base_offset)

    def _indexed_start(self, target: int, field: int = 0) -> tuple[int, int] | None:
        """None if index and log disagree."""
        entry = self.index.floor(target if field else target - self._base_offset, field)
        if entry is None:
            return 0, self._base_offset
        header = self._agreeing_header(*entry)
        return None if header is None else (entry[1], header.base_offset)

    def walk_from_offset(self, offset: int) -> Iterator[tuple[int, BatchHeader]]:
        """Position and header of each batch from the one that holds `offset`."""
        self.load()
        for at, header in self._batches.walk(*self.start_towards(offset)):
            if header.last_offset >= offset:
                yield at, header

    def start_towards_timestamp(self, timestamp_ms: int) -> tuple[int, int]:
        """A batch's begin, and the offset due there, before which no record is that late."""
        entry = self.time_index.floor(timestamp_ms)
        if entry is not None:
            offset = entry[1] + self._base_offset
            for position, header in self.walk_from_offset(offset):
                if (header.max_timestamp, header.last_offset) == (entry[0], offset):
                    return position, header.base_offset
                break
        return 0, self._base_offset
