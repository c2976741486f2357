"""A sparse index file: pairs of ascending numbers, as Kafka writes them.

`<base>.index` holds (offset relative to the base, position): the position of a batch and that
batch's *last* offset. `<base>.timeindex` holds (timestamp, relative offset): the largest timestamp
so far and the last offset of the batch that brought it.

Entries are looked up in the file itself, so a closed segment's index costs no memory; new ones are
kept here until they are worth a write. Nobody waits for an index to be durable: the log can always
rebuild it, and whoever follows an entry checks what is found at the end of it.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from contextlib import suppress
from operator import itemgetter

from tidelog.log.disk import Disk, DiskError, DiskFull, File

OFFSET_ENTRY = struct.Struct(">ii")
TIME_ENTRY = struct.Struct(">qi")

PENDING_LIMIT = 512
"""Entries kept before they are written without being asked: 4 KB of file."""

_BLOCK_ENTRIES = 256
"""A look-up halves the file down to this many entries, then reads them at once."""

Entry = tuple[int, int]


class SparseIndex:
    """One index file with its unwritten tail. `field` in look-ups: 0 = left number, 1 = right."""

    def __init__(self, disk: Disk, path: str, layout: struct.Struct) -> None:
        self.path = path
        self._disk = disk
        self._layout = layout
        self._file: File | None = None
        self._is_on_disk = False
        self.written = 0
        """Entries in the file."""
        self._pending: list[Entry] = []
        self._has_stale_tail = False
        """The file has more entries than `written`, because the disk would not cut it."""

    def load(self) -> bool:
        """Take the file as it is; false if it is absent or not a whole number of entries."""
        try:
            size = self._opened(create=False).size()
        except FileNotFoundError:
            return False
        self._is_on_disk = True
        self.written, rest = divmod(size, self._layout.size)
        return rest == 0

    def __len__(self) -> int:
        return self.written + len(self._pending)

    def append(self, left: int, right: int) -> None:
        self._pending.append((left, right))
        if len(self._pending) >= PENDING_LIMIT:
            try:
                self.write_pending()
            except DiskFull:
                pass  # the entries stay here; the next append to the log itself will tell

    def last(self) -> Entry | None:
        if self._pending:
            return self._pending[-1]
        return self.entry(self.written - 1) if self.written else None

    def entry(self, number: int) -> Entry:
        if number >= self.written:
            return self._pending[number - self.written]
        return self._read(number, 1)[0]

    def floor(self, target: int, field: int = 0) -> Entry | None:
        """The last entry whose `field` is not above `target`."""
        return self._search(target, field)[1]

    def count_up_to(self, target: int, field: int) -> int:
        """How many entries have a `field` not above `target`."""
        return self._search(target, field)[0]

    def _search(self, target: int, field: int) -> tuple[int, Entry | None]:
        key = itemgetter(field)
        if self._pending and key(self._pending[0]) <= target:
            found = bisect_right(self._pending, target, key=key)
            return self.written + found, self._pending[found - 1]
        low, high = 0, self.written
        while high - low > _BLOCK_ENTRIES:
            middle = (low + high) // 2
            if key(self._read(middle, 1)[0]) <= target:
                low = middle
            else:
                high = middle
        block = self._read(low, high - low)
        found = bisect_right(block, target, key=key)
        return low + found, block[found - 1] if found else None

    def prefix(self, *, below: int, field: int, first_above: Entry) -> int:
        """How many entries from the first are strictly ascending in both numbers with `field`
        below `below`: what a crash has left of the file."""
        count, previous = 0, first_above
        for start in range(0, self.written, _BLOCK_ENTRIES * 64):
            for entry in self._read(start, min(_BLOCK_ENTRIES * 64, self.written - start)):
                if entry[field] >= below or entry[0] <= previous[0] or entry[1] <= previous[1]:
                    return count
                count, previous = count + 1, entry
        return count

    def keep(self, count: int) -> None:
        """Forget all entries but the first `count`."""
        if count >= self.written:
            del self._pending[count - self.written :]
            return
        self._pending.clear()
        self.written = count
        self._has_stale_tail = True
        with suppress(DiskError):  # a reader can do without; the next write tries again
            self._drop_stale_tail()

    def _drop_stale_tail(self) -> None:
        self._opened(create=True).truncate(self.written * self._layout.size)
        self._has_stale_tail = False

    def write_pending(self) -> None:
        """To the operating system; creates the file even if there is nothing to write. The file is
        closed again: it is seldom needed, and open files are few."""
        if self._has_stale_tail:
            self._drop_stale_tail()
        if self._is_on_disk and not self._pending:
            return
        file = self._opened(create=True)
        if not self._is_on_disk:
            file.truncate(0)  # somebody's leftover
            self._is_on_disk = True
        if self._pending:
            pack = self._layout.pack
            data = b"".join([pack(left, right) for left, right in self._pending])
            file.write(self.written * self._layout.size, (data,))
            self.written += len(self._pending)
            self._pending.clear()
        file.close()
        self._file = None

    def move(self, path: str) -> None:
        """The file, written up to now, gets another name."""
        self.write_pending()
        self._disk.rename(self.path, path)
        self.path = path

    def file(self) -> File:
        """The file, written up to now, for syncing."""
        self.write_pending()
        return self._disk.open(self.path)

    def _opened(self, *, create: bool) -> File:
        if self._file is None:
            self._file = self._disk.open(self.path, create=create)
        return self._file

    def _read(self, first: int, count: int) -> list[Entry]:
        if not count:
            return []
        size = self._layout.size
        data = self._opened(create=False).read(first * size, count * size)
        return list(self._layout.iter_unpack(data[: len(data) // size * size]))
