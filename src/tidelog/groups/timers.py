"""Deadlines on the monotonic clock, cheap to postpone.

A heartbeat postpones its member's deadline and most deadlines are never met, so postponing touches
a dict only. The heap learns of it when the old entry comes to its top.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush
from typing import NamedTuple


class TimerKey(NamedTuple):
    """`subject` is a member id where the timer is a member's, and else empty."""

    kind: str
    group_id: str
    subject: str = ""


class Timers:
    """A set of named deadlines."""

    def __init__(self) -> None:
        self._deadlines: dict[TimerKey, float] = {}
        self._heap: list[tuple[float, int, TimerKey]] = []
        self._in_heap: dict[TimerKey, float] = {}
        self._sequence = 0

    def __contains__(self, key: TimerKey) -> bool:
        return key in self._deadlines

    def arm(self, key: TimerKey, deadline: float) -> None:
        """Set or move a deadline."""
        self._deadlines[key] = deadline
        known = self._in_heap.get(key)
        if known is None or deadline < known:
            self._push(key, deadline)

    def cancel(self, key: TimerKey) -> None:
        self._deadlines.pop(key, None)

    def next_deadline(self) -> float | None:
        self._settle_top()
        return self._heap[0][0] if self._heap else None

    def take_due(self, monotonic_ms: float) -> Iterator[TimerKey]:
        """Timers whose time has come, each taken off; earliest first."""
        while True:
            self._settle_top()
            if not self._heap or self._heap[0][0] > monotonic_ms:
                return
            key = heappop(self._heap)[2]
            del self._in_heap[key]
            del self._deadlines[key]
            yield key

    def _settle_top(self) -> None:
        """Until the top of the heap tells the truth."""
        while self._heap:
            deadline, _, key = self._heap[0]
            actual = self._deadlines.get(key)
            if actual == deadline and self._in_heap.get(key) == deadline:
                return
            heappop(self._heap)
            if self._in_heap.get(key) == deadline:
                del self._in_heap[key]
                if actual is not None:
                    self._push(key, actual)

    def _push(self, key: TimerKey, deadline: float) -> None:
        self._sequence += 1
        self._in_heap[key] = deadline
        heappush(self._heap, (deadline, self._sequence, key))
