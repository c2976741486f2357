"""Time that can be moved forward, for one node alone."""

from __future__ import annotations

from tidelog.model.clock import Now
from tidelog.runtime.service import system_clock


class MovableClock:
    """Both of the node's clocks: the system's, and so much ahead of them. The process's own are
    not touched, so clients, timers and other nodes notice nothing."""

    def __init__(self) -> None:
        self._ahead_ms = 0

    def __call__(self) -> Now:
        now = system_clock()
        return Now(now.monotonic_ms + self._ahead_ms, now.wall_ms + self._ahead_ms)

    def advance(self, milliseconds: int) -> None:
        """Never backwards: the monotonic clock would not be one."""
        if milliseconds < 0:
            raise ValueError("time can be advanced, not turned back")
        self._ahead_ms += milliseconds
