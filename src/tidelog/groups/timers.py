"""Deadlines on the monotonic clock, cheap to postpone.

A heartbeat postpones its member's deadline and most deadlines are never met, so postponing touches
a dict only. The heap learns of it when the old entry comes to its top: until then its top may be
too early, never too late. So `earliest` and `next_deadline` say when to look again, which may be
before anything is due. What one look costs is bounded: `STALE_PER_LOOK` postponed entries are put
where they belong, and the rest at the next look.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from heapq import heappop, heappush, heapreplace
from math import inf
from typing import Generic, NamedTuple, TypeVar

STALE_PER_LOOK = 64
"""Entries of postponed or cancelled deadlines that one look at the heap moves: 0.1 ms."""

Key = TypeVar("Key", bound=Hashable)


class TimerKey(NamedTuple):
    """`subject` is a member id where the timer is a member's, and else empty."""

    kind: str
    group_id: str
    subject: str = ""


class Timers(Generic[Key]):
    """A set of named deadlines."""

    def __init__(self) -> None:
        self._deadlines: dict[Key, float] = {}
        self._heap: list[tuple[float, int, Key]] = []
        self._in_heap: dict[Key, float] = {}
        self._sequence = 0
        self.earliest = inf
        """No deadline is before it. Read after every request, so a plain attribute."""

    def __contains__(self, key: Key) -> bool:
        return key in self._deadlines

    def __len__(self) -> int:
        return len(self._deadlines)

    def arm(self, key: Key, deadline: float) -> None:
        """Set or move a deadline."""
        self._deadlines[key] = deadline
        known = self._in_heap.get(key)
        if known is None or deadline < known:
            self._in_heap[key] = deadline
            self._sequence += 1
            heappush(self._heap, (deadline, self._sequence, key))
            if deadline < self.earliest:
                self.earliest = deadline

    def cancel(self, key: Key) -> None:
        self._deadlines.pop(key, None)

    def next_deadline(self) -> float | None:
        """When to look again. It is when the first is due, unless very many were postponed."""
        stale = STALE_PER_LOOK
        while stale and self._heap and not self._is_top_true():
            self._settle_top()
            stale -= 1
        return self._heap[0][0] if self._heap else None

    def take_due(self, monotonic_ms: float) -> Iterator[Key]:
        """Timers whose time has come, each taken off; earliest first. If very many on the way to
        them were postponed, only some: the next look is due at once then."""
        stale = STALE_PER_LOOK
        while stale and self.earliest <= monotonic_ms:
            if self._is_top_true():
                key = heappop(self._heap)[2]
                del self._in_heap[key]
                del self._deadlines[key]
                self._note_earliest()
                yield key
            else:
                self._settle_top()
                stale -= 1

    def _is_top_true(self) -> bool:
        deadline, _, key = self._heap[0]
        return self._deadlines.get(key) == deadline == self._in_heap.get(key)

    def _settle_top(self) -> None:
        """The entry at the top is of a deadline that was moved or cancelled: put it right."""
        deadline, _, key = self._heap[0]
        actual = self._deadlines.get(key)
        is_known_by_it = self._in_heap.get(key) == deadline
        if is_known_by_it and actual is not None:
            self._sequence += 1
            self._in_heap[key] = actual
            heapreplace(self._heap, (actual, self._sequence, key))
        else:
            heappop(self._heap)
            if is_known_by_it:
                del self._in_heap[key]
        self._note_earliest()

    def _note_earliest(self) -> None:
        self.earliest = self._heap[0][0] if self._heap else inf
