"""How late this node's loop is: it said when it wants its next step, and the step came later.

A busy machine, or a process that was stopped, makes a node late. What it did not hear in that time
nobody failed to say: the controller extends the sessions of all nodes by it. And the operator is
told, since a late node loses its own session with the controller, too.
"""

from __future__ import annotations

COUNTED_FROM_MS = 10.0
"""Less is what any timer is late by."""

REPORTED_FROM_MS = 500.0
REPORT_INTERVAL_MS = 60_000.0


class Lateness:
    """`begin` at each step, and `expected_ms` set after it."""

    def __init__(self) -> None:
        self._stepped_ms: float | None = None
        self.expected_ms: float | None = None
        """The next step is wanted then at the latest."""
        self._reported_ms: float | None = None
        self.reports: list[str] = []

    def begin(self, now_ms: float) -> float:
        """A step begins. By how many milliseconds it is late; 0 if it is not."""
        stepped_ms, self._stepped_ms = self._stepped_ms, now_ms
        expected_ms, self.expected_ms = self.expected_ms, None
        if stepped_ms is None or expected_ms is None:
            return 0.0
        late_ms = now_ms - max(stepped_ms, expected_ms)
        if late_ms < COUNTED_FROM_MS:
            return 0.0
        if late_ms >= REPORTED_FROM_MS:
            self._report(now_ms, late_ms)
        return late_ms

    def _report(self, now_ms: float, late_ms: float) -> None:
        if self._reported_ms is None or now_ms - self._reported_ms >= REPORT_INTERVAL_MS:
            self._reported_ms = now_ms
            self.reports.append(
                f"the loop was late by {late_ms:.0f} ms: the machine is overloaded, or the process "
                "was stopped; late by more than its session's lease, a node can't lead until the "
                "controller has heard of it again"
            )
