"""Reads that may block: ranges of files that are not in memory, asked for as effects.

    collect ──► NotInMemory ──► ReadRange ──► RangeRead ──► collect again, from the start
                                    └─ the request is a row in `Pending` meanwhile

A request reads what it needs as if all were in memory (`Disk.reads_may_block` is off meanwhile). Of
what is not, the range is asked for, and the request waits. What it had found out by then is thrown
away. When the range is there, everything is looked at again: who leads, in which epoch, where the
log begins and ends, which segment holds the offset. So nothing that happened meanwhile (a
truncation, retention, another leader) can make an answer wrong; it is the same as for a request
that comes now. Nor does a wait keep a file from being deleted.

`Reads` is the node's table of ranges under way: one range is read once, however many wait for it.
`ColdReads` is one request's part in it, and how it comes to an end: what is dropped from memory as
soon as it was read is read a few times, and then waited for by the loop, as if it were hot.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field

from tidelog.broker.effects import ReadRange
from tidelog.broker.events import RangeRead
from tidelog.log.disk import Disk, File, NotInMemory

MAX_UNDER_WAY = 16
"""Ranges given to the disk at a time. The rest waits in the node, where it can be given up."""

MAX_UNCLAIMED = 64
"""Of the ranges that wait for their turn, so many may be there of requests that are answered: the
next fetch usually asks for the same."""

RANGES_PER_REQUEST = 8
"""That one request waits for at a time."""

FIRST_BYTES = 128 * 1024
"""At least so much is read: a header or a block of an index is followed by more of it."""

MAX_DOUBLINGS = 10
"""A request that goes on through a file, as from header to header, has twice as much read each
time, up to 128 MB."""

MAX_TURNS = 16
"""So often a request has something of one file read."""

MAX_REPEATS = 3
"""So often of the same place: if it is not in memory then, memory is short."""


@dataclass(slots=True, eq=False)
class Range:
    """A part of a file, and who waits for it."""

    number: int
    file: File
    position: int
    end: int
    waiting: dict[ColdReads, None] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.end - self.position} bytes of {self.file.path} at {self.position}"


class Reads:
    """All ranges that are being read, or wait for it."""

    def __init__(self, disk: Disk) -> None:
        self.disk = disk
        self.is_over = False
        """The node stops. Whoever still waits is answered now, and holds nobody up by reading."""
        self.effects: list[ReadRange] = []
        """To be taken at the end of the turn."""
        self._under_way: dict[int, Range] = {}
        self._queue: deque[Range] = deque()
        self._by_file: dict[File, list[Range]] = {}
        self._next_number = 1

    def covering(self, file: File, position: int) -> Range | None:
        """The range that has that place, if there is one."""
        for each in self._by_file.get(file, ()):
            if each.position <= position < each.end:
                return each
        return None

    def add(self, file: File, position: int, size: int) -> Range:
        number = self._next_number
        self._next_number += 1
        added = Range(number, file, position, position + size)
        self._by_file.setdefault(file, []).append(added)
        self._queue.append(added)
        self._start_next()
        return added

    def done(self, event: RangeRead) -> list[int]:
        """The numbers of the rows that waited for it, and may go on."""
        ended = self._under_way.pop(event.number, None)
        if ended is None:
            return []
        self._forget(ended)
        self._start_next()
        rows = []
        for waiting in ended.waiting:
            waiting.ended(ended, is_failed=event.error is not None)
            if waiting.row is not None:
                rows.append(waiting.row)
        return rows

    def let_go(self, cold: ColdReads) -> None:
        """Its request waits no longer. What nobody else waits for is not begun any more, unless
        there is little of it."""
        for each in cold.awaited.values():
            each.waiting.pop(cold, None)
        if len(self._queue) > MAX_UNCLAIMED:
            for each in [each for each in self._queue if not each.waiting]:
                self._queue.remove(each)
                self._forget(each)

    def _start_next(self) -> None:
        while self._queue and len(self._under_way) < MAX_UNDER_WAY:
            each = self._queue.popleft()
            self._under_way[each.number] = each
            size = each.end - each.position
            self.effects.append(ReadRange(each.number, each.file, each.position, size))

    def _forget(self, gone: Range) -> None:
        ranges = self._by_file[gone.file]
        ranges.remove(gone)
        if not ranges:
            del self._by_file[gone.file]

    def take_effects(self) -> list[ReadRange]:
        effects, self.effects = self.effects, []
        return effects

    def validate(self) -> None:
        """Nobody waits for what is not going to be read."""
        assert len(self._under_way) <= MAX_UNDER_WAY
        alive = [*self._under_way.values(), *self._queue]
        assert sorted(
            each.number for ranges in self._by_file.values() for each in ranges
        ) == sorted(each.number for each in alive)
        for each in alive:
            for cold in each.waiting:
                assert cold.awaited.get(each.number) is each
        assert not self._queue or len(self._under_way) == MAX_UNDER_WAY

    def describe(self) -> dict[str, object]:
        return {
            "under_way": [str(each) for each in self._under_way.values()],
            "queued": len(self._queue),
        }


class ColdReads:
    """What one request has read for it, from its first `NotInMemory` to its answer."""

    __slots__ = ("_failed", "_places", "_reads", "awaited", "row")

    def __init__(self, reads: Reads, *, row: int | None = None) -> None:
        self.awaited: dict[int, Range] = {}
        """Ranges, by their numbers."""
        self.row = row
        """Which row of `Pending` waits for them."""
        self._reads = reads
        self._places: dict[File, Counter[int]] = {}
        """How often which positions of a file were read for it."""
        self._failed: set[File] = set()

    def has_failed(self, missing: NotInMemory) -> bool:
        """The disk has already refused to read that file."""
        return missing.file in self._failed

    def is_hopeless(self, missing: NotInMemory) -> bool:
        """Memory is too short for it to stay there until it is used, or there is no end of it."""
        places = self._places.get(missing.file)
        if places is None:
            return False
        return places.total() >= MAX_TURNS or places[missing.position] >= MAX_REPEATS

    def wait_for(self, missing: NotInMemory) -> None:
        """Have the range read, if it is not being read already."""
        if len(self.awaited) >= RANGES_PER_REQUEST:
            return
        found = self._reads.covering(missing.file, missing.position)
        if found is None:
            size = max(missing.size, FIRST_BYTES << self._doublings(missing))
            found = self._reads.add(missing.file, missing.position, size)
        self.awaited[found.number] = found
        found.waiting[self] = None

    def _doublings(self, missing: NotInMemory) -> int:
        places = self._places.get(missing.file)
        return 0 if places is None else min(len(places), MAX_DOUBLINGS)

    def ended(self, gone: Range, *, is_failed: bool) -> None:
        """A range was read, or could not be."""
        self.awaited.pop(gone.number, None)
        if is_failed:
            self._failed.add(gone.file)
        self._places.setdefault(gone.file, Counter())[gone.position] += 1

    def let_go(self) -> None:
        """The request is answered, or its client is gone."""
        self._reads.let_go(self)
        self.awaited = {}
