"""What nodes may have believed the time to be, from what a history notes of their wall clocks.

A node deletes by age only when its wall clock has been steady for a while, after a start and after
a jump. Restarts are left out of account: they only make a node wait longer.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import NamedTuple

from tidelog.model.steady_clock import TOLERANCE_MS
from tidelog.sim.history import Entry

_NS_PER_MS = 1_000_000
_DRIFT = 0.002
_ROUNDING_MS = 2


class _Span(NamedTuple):
    """A clock between two jumps. The node counts from `since_ns` on how long it has been steady:
    earlier than `noted.t` if the jump before was too small to be one."""

    noted: Entry
    until_ns: float
    until_i: float
    since_ns: int

    def wall_ms(self, at_ns: float) -> float:
        return float(self.noted.value) + (at_ns - self.noted.t) / _NS_PER_MS


class Believed:
    """All clocks of a history; "clock" entries are told apart by their process, the node."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        self._steady_ms = max((one.value for one in entries if one.f == "steady"), default=0)
        clocks: dict[int, list[Entry]] = {}
        for entry in entries:
            if entry.f == "clock":
                clocks.setdefault(entry.proc, []).append(entry)
        self._clocks = [_spans(noted) for noted in clocks.values()]

    def latest_ms(self, *, until: Entry, since: Entry | None = None) -> float:
        """The latest time that a node can have believed between the two entries."""
        wait_ns = self._steady_ms * (1 - _DRIFT) * _NS_PER_MS
        latest = -inf
        for span in (span for spans in self._clocks for span in spans):
            if span.noted.i > until.i or (since is not None and span.until_i < since.i):
                continue
            end_ns = min(until.t, span.until_ns)
            if end_ns - span.since_ns >= wait_ns:
                passed_ms = (end_ns - span.noted.t) / _NS_PER_MS
                latest = max(latest, span.wall_ms(end_ns) + passed_ms * _DRIFT + _ROUNDING_MS)
        return latest

    def earliest_ms(self, *, since: Entry, until: Entry) -> float:
        """The earliest that any clock shows between the two entries."""
        shown = [
            span.wall_ms(max(since.t, span.noted.t))
            for spans in self._clocks
            for span in spans
            if span.noted.i <= until.i and since.i <= span.until_i
        ]
        return min(shown, default=-inf) - _ROUNDING_MS


def _spans(noted: Sequence[Entry]) -> list[_Span]:
    spans: list[_Span] = []
    for index, entry in enumerate(noted):
        is_last = index + 1 == len(noted)
        until_ns = inf if is_last else noted[index + 1].t
        until_i = inf if is_last else noted[index + 1].i
        since_ns = 0
        if spans:
            jump_ms = entry.value - spans[-1].wall_ms(entry.t)
            is_small = abs(jump_ms) <= TOLERANCE_MS * (1 + _DRIFT)
            since_ns = spans[-1].since_ns if is_small else entry.t
        spans.append(_Span(entry, until_ns, until_i, since_ns))
    return spans
