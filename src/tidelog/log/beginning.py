"""Where a log begins, and the files below that may go.

The start moves in three steps, each durable before the next: it is *wanted* (`advance`); the
flushed mark says it, and from then on readers see it; both slots of the mark say it and name none
of the segments below, and then those are deleted, oldest first. So a crash leaves the old start
with all its records or the new one, and a start that anybody was told is never taken back.
"""

from __future__ import annotations

from tidelog.log.directory import PartitionDirectory
from tidelog.log.durability import Durability
from tidelog.log.segment import Segment
from tidelog.model.safeguards import Safeguard

DELETED_AT_ONCE = 8
"""Segments deleted in one go: unlinking a large file takes milliseconds."""


class Beginning:
    """One log's. `wanted` is where it is to begin."""

    def __init__(self, home: PartitionDirectory, durability: Durability, *, start: int) -> None:
        self.wanted = self._shown = start
        self._home = home
        self._durability = durability
        self._doomed: list[int] = []
        self._kept_from = 0
        self._is_careful = Safeguard.START_DURABLE_BEFORE_DELETE in home.safeguards

    @property
    def is_moving(self) -> bool:
        return bool(self._doomed) or self.wanted > self._shown

    def advance(self, offset: int) -> None:
        self.wanted = offset
        self._durability.require(start=offset)

    def reached(self) -> int:
        """The start that no crash takes back, to be shown to readers."""
        self._shown = self._durability.start_offset if self._is_careful else self.wanted
        return self._shown

    def doom(self, bases: list[int], *, kept_from: int) -> None:
        """The segments of these bases lie wholly below the start; the log goes on with another."""
        if bases:
            self._doomed += bases
            self._kept_from = kept_from
            self._durability.require(start=self.wanted, segment_base=kept_from)

    def delete_doomed(self) -> bool:
        """Some of what may go now; whether any was deleted."""
        if not self._doomed:
            return False
        durability, bound = self._durability, self._kept_from
        is_assured = durability.assured_start >= bound and durability.assured_base >= bound
        if self._is_careful and not is_assured:
            return False
        gone, self._doomed = self._doomed[:DELETED_AT_ONCE], self._doomed[DELETED_AT_ONCE:]
        for base in gone:
            self._home.delete_segment(base)
        self._home.delete_snapshots(lambda offset: offset < bound)
        durability.soil(*self._home.entries())
        return True


def split_at(segments: list[Segment], start: int) -> int:
    """How many of the first segments lie wholly below `start`; the last never does."""
    count = 0
    while count < len(segments) - 1 and segments[count + 1].base_offset <= start:
        count += 1
    return count
