"""Whether the wall clock may be believed when something is deleted for its age.

Retention by age, the expiry of offsets and of producer ids, and the removal of tombstones compare a
recorded timestamp with the wall clock. If that clock jumps ahead, everything looks old at once, and
what is deleted does not come back when the clock is set right. So the wall clock is compared with
the monotonic clock, which never jumps: a node deletes for age only while the difference between the
two has stayed the same for `clock.steady.ms`, counted from the node's start and from each jump.

    STEADY --jump--> HELD --jump--> HELD (the time begins again)
    HELD --steady for clock.steady.ms, or confirmed by an operator--> STEADY

The machine starts in HELD: nothing on disk tells a machine that was off for a week from one whose
clock is wrong by a week.

A small difference is no jump. NTP corrects a clock by steps of a few seconds or by slewing it, and
`TOLERANCE_MS` and `SLEW` let both pass; what is tolerated is forgotten no faster than `SLEW`, so a
clock that runs away in many small steps is noticed as well.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from tidelog.model.clock import Now

TOLERANCE_MS = 60_000.0
"""A clock this far off may delete something a minute early, which no retention is precise to."""

SLEW = 0.001
"""Of the elapsed time: twice as fast as the kernel slews a clock for NTP."""

NOTHING_IS_OLD = -(2**62)
"""A wall time at which no record has an age."""


class ClockReport(NamedTuple):
    """A line for the operator's log."""

    level: Literal["info", "warning"]
    text: str


class SteadyClock:
    """Fed with every `Now` the node sees. With `steady_ms` 0 it believes any clock."""

    def __init__(self, steady_ms: int) -> None:
        self._steady_ms = steady_ms
        self._is_held = steady_ms > 0
        self._seen_ms: float | None = None
        """The monotonic time of the last `Now`."""
        self._difference_ms = 0.0
        """What the wall clock shows more than the monotonic clock."""
        self._since_ms = 0.0
        """Since when the difference has been the same, on the monotonic clock."""
        self._before_jump_ms: float | None = None
        """The difference when the clock was last believed, while it is not."""
        self._reports: list[ClockReport] = []

    @property
    def is_held(self) -> bool:
        """Nothing may be deleted for its age."""
        return self._is_held

    def observe(self, now: Now) -> None:
        """Every step begins with this, so that no decision is made on a jump not yet seen."""
        monotonic_ms, wall_ms = now
        difference_ms = wall_ms - monotonic_ms
        if self._seen_ms is None:
            self._begin(monotonic_ms, difference_ms)
            return
        slew_ms = (monotonic_ms - self._seen_ms) * SLEW
        self._seen_ms = monotonic_ms
        change_ms = difference_ms - self._difference_ms
        if -TOLERANCE_MS - slew_ms <= change_ms <= TOLERANCE_MS + slew_ms:
            self._difference_ms += min(max(change_ms, -slew_ms), slew_ms)
        else:
            self._jumped(monotonic_ms, difference_ms)
        if self._is_held and monotonic_ms - self._since_ms >= self._steady_ms:
            self._resume(f"the wall clock has been steady for {_duration(self._steady_ms)}")

    def confirm(self, now: Now, confirmed_ms: int) -> None:
        """An operator said that the time was `confirmed_ms`: a clock that shows about the same is
        believed. One that does not is somebody else's, or wrong."""
        if self._is_held and abs(now.wall_ms - confirmed_ms) <= TOLERANCE_MS:
            self._resume("an operator has confirmed the wall clock")

    def age_ms(self, now: Now) -> int:
        """The wall time to compare a recorded timestamp with when it decides a deletion."""
        return NOTHING_IS_OLD if self._is_held else now.wall_ms

    def stamp(self, now: Now) -> Now:
        """`now` with the wall time to record where the recorded time decides a deletion later.
        After a jump back it goes on as before the jump: were the clock set right again, what was
        recorded meanwhile would look too old."""
        if self._before_jump_ms is None:
            return now
        return Now(now.monotonic_ms, max(now.wall_ms, int(now.monotonic_ms + self._before_jump_ms)))

    def take_reports(self) -> list[ClockReport]:
        """What the operator should know, once."""
        reports, self._reports = self._reports, []
        return reports

    def _begin(self, monotonic_ms: float, difference_ms: float) -> None:
        self._seen_ms = self._since_ms = monotonic_ms
        self._difference_ms = difference_ms
        if self._is_held:
            text = (
                f"age-based deletion is paused for the first {_duration(self._steady_ms)} "
                "after a start, until the wall clock has proved steady (clock.steady.ms)"
            )
            self._reports.append(ClockReport("info", text))

    def _jumped(self, monotonic_ms: float, difference_ms: float) -> None:
        before_ms, self._difference_ms = self._difference_ms, difference_ms
        change_ms, self._since_ms = difference_ms - before_ms, monotonic_ms
        if self._steady_ms:
            if not self._is_held:
                self._before_jump_ms = before_ms
            where = "ahead" if change_ms > 0 else "back"
            text = (
                f"the wall clock has jumped {where} by {_duration(abs(change_ms))}: "
                "age-based deletion is paused until it has been steady for "
                f"{_duration(self._steady_ms)} (clock.steady.ms); if the clock is correct now, "
                "run `tidelog cluster confirm-clock`"
            )
            self._reports.append(ClockReport("warning", text))
            self._is_held = True

    def _resume(self, why: str) -> None:
        self._is_held = False
        self._before_jump_ms = None
        self._reports.append(ClockReport("info", f"{why}: age-based deletion goes on"))


def _duration(ms: float) -> str:
    """In the largest unit of which there is at least one."""
    for unit, size_ms in (("days", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1_000)):
        if ms >= size_ms:
            return (
                f"{ms / size_ms:.3g} {unit}"
                if ms < size_ms * 1000
                else f"{ms // size_ms:.0f} {unit}"
            )
    return f"{ms:.0f} ms"
