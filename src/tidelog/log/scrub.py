"""Reading one log's closed segments again, a slice at a time, to find damage before a reader does.

A bit that flips in a file nobody reads is found by nobody, and the other copies may be gone by the
time it matters. What is found here is quarantined as by a read, and repaired by whoever repairs
what reads find. Between two slices the log goes on: segments are deleted, replaced or cut, and
those are passed over, since what was known of their positions means nothing any more. Where damage
has destroyed a batch's length, the search for the next one goes in slices as well.
"""

from __future__ import annotations

from tidelog.log.batch_file import Place
from tidelog.log.disk import DiskError
from tidelog.log.log import Log
from tidelog.log.segment import Segment


class Scrub:
    """One pass over the segments that are closed when it begins. `step` until `is_finished`."""

    def __init__(self, log: Log) -> None:
        self.reports: list[str] = []
        """Files that could not be read at all."""
        self._log = log
        self._segments = list(reversed(log.closed_segments()))
        self._cuts = 0
        self._place = Place(0, 0)
        self._begin()

    @property
    def is_finished(self) -> bool:
        return not self._segments

    def step(self, max_bytes: int) -> int:
        """Check about so many bytes; returns how many it was. The log's `damage` has the news."""
        segment = self._segments[-1]
        if not self._is_as_it_was(segment):
            self._next()
            return 0
        before = self._place.reached
        try:
            self._place = segment.check(self._place, max_bytes)
        except DiskError as error:
            self.reports.append(f"a closed segment can't be checked: {error}")
            self._next()
            return max_bytes
        checked = max(0, self._place.reached - before)
        if self._place.position >= segment.size:
            self._next()
        return checked

    def _is_as_it_was(self, segment: Segment) -> bool:
        is_closed = not segment.indexes.is_active
        return is_closed and segment.cuts == self._cuts and self._log.holds([segment])

    def _next(self) -> None:
        self._segments.pop()
        self._begin()

    def _begin(self) -> None:
        if self._segments:
            segment = self._segments[-1]
            self._cuts = segment.cuts
            self._place = Place(0, segment.base_offset)
