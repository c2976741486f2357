"""Time is an input. The two clocks answer different questions and are never mixed."""

from __future__ import annotations

from typing import NamedTuple


class Now(NamedTuple):
    """One moment, as the runtime (or the simulator) saw it when the event happened.

    `monotonic_ms` measures durations (timeouts, deadlines) and never jumps; `wall_ms` is the Unix
    time that goes into records and retention, and may jump either way.
    """

    monotonic_ms: float
    wall_ms: int


def earliest(*moments: float | None) -> float | None:
    """The first of them; None is never. Asked for after every step, so without ceremony."""
    first = None
    for moment in moments:
        if moment is not None and (first is None or moment < first):
            first = moment
    return first
