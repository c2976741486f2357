"""A row of adjacent segments is replaced by one that was made from them, whatever crashes.

The new segment is written beside the log (`*.cleaned`) and synced. Then, each step durable before
the next:

1. Its file is renamed to `<base>-<end>.swap`. From here on the new state holds: a start that finds
   the name finishes what follows, one that doesn't deletes the `.cleaned` files.
2. The log reads from it. The files of the old segments go, except the first one's log.
3. It takes that one's name.

Nothing blocks: each wait is for a flush that others do anyway. Before step 1 both slots of the
flushed mark must point beyond the old segments, since the positions in them mean nothing any more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

from tidelog.log.directory import PartitionDirectory
from tidelog.log.disk import DiskFull
from tidelog.log.durability import Durability
from tidelog.log.paths import (
    CLEANED_SUFFIX,
    INDEX,
    LOG,
    TIME_INDEX,
    offset_path,
    swap_path,
    swaps_of,
)
from tidelog.log.segment import Segment
from tidelog.model.safeguards import Safeguard


class SwappingLog(Protocol):
    """What a swap does to a log."""

    def holds(self, segments: list[Segment]) -> bool:
        """They are its segments still, one after the other."""

    def replace(self, old: list[Segment], new: Segment) -> None: ...


class Swap:
    """`old` gives way to `new`, which is complete but for being synced."""

    def __init__(
        self,
        log: SwappingLog,
        home: PartitionDirectory,
        durability: Durability,
        *,
        old: list[Segment],
        new: Segment,
    ) -> None:
        self._log = log
        self._home = home
        self._durability = durability
        self._old = old
        self._new = new
        self.is_decided = False
        """Step 1 was taken: there is no way back."""

    def steps(self) -> Iterator[None]:
        """Yields whenever a flush must come first. Ends early, with nothing changed, if the log
        has lost one of the old segments meanwhile."""
        home, new, base = self._home, self._new, self._new.base_offset
        new.close()
        if Safeguard.CLEAN_SYNC_BEFORE_SWAP in home.safeguards:
            yield from self._until_synced(self._durability.soil(new.file))
        self._durability.require(segment_base=new.end_offset)
        while self._durability.assured_base < new.end_offset:
            yield
        if not self._log.holds(self._old):
            return
        swap = swap_path(home.path, base, new.end_offset)
        home.disk.rename(offset_path(home.path, base, LOG) + CLEANED_SUFFIX, swap)
        self.is_decided = True
        new.file = home.disk.open(swap)
        yield from self._until_synced(self._durability.soil(*home.entries()))
        self._log.replace(self._old, new)
        for segment in self._old[1:]:
            home.delete_segment(segment.base_offset)
        indexes = new.indexes
        path = offset_path(home.path, base, INDEX)
        yield from _insisting(lambda: indexes.index.move(path))
        time_path = offset_path(home.path, base, TIME_INDEX)
        yield from _insisting(lambda: indexes.time_index.move(time_path))
        files = (*indexes.files(), *home.entries())
        yield from self._until_synced(self._durability.soil(*files))
        log_path = offset_path(home.path, base, LOG)
        yield from _insisting(lambda: home.disk.rename(swap, log_path))
        new.file = home.disk.open(log_path)
        yield from self._until_synced(self._durability.soil(*home.entries()))

    def _until_synced(self, dirt: int) -> Iterator[None]:
        while not self._durability.has_synced(dirt):
            yield


def _insisting(action: Callable[[], None]) -> Iterator[None]:
    """There is no way back, so a full disk is waited out."""
    while True:
        try:
            action()
        except DiskFull:
            yield
        else:
            return


def finish_interrupted(home: PartitionDirectory) -> None:
    """At a start: swaps that were decided are carried out, others forgotten."""
    unfinished = [name for name in home.names if name.endswith(CLEANED_SUFFIX)]
    swaps = swaps_of(home.names)
    if not unfinished and not swaps:
        return
    for name in unfinished:
        home.disk.delete(f"{home.path}/{name}")
    for base, end in swaps:
        for doomed in home.segment_bases():
            if base < doomed < end:
                home.delete_segment(doomed)
        home.delete_indexes(base)
    home.sync_entries()
    for base, end in swaps:
        home.disk.rename(swap_path(home.path, base, end), offset_path(home.path, base, LOG))
    if swaps:
        home.sync_entries()
    home.names = home.disk.list(home.path)
