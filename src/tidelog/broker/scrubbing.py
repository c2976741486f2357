"""When closed segments are read again to find damage: round after round over all logs, slowly.

A slice of `SLICE_BYTES` is checked in one turn of the loop; the pause after it makes the rate that
`log.scrub.bytes.per.second` asks for. A round that ends early waits until `log.scrub.interval.ms`
after its beginning, so that a small node does not read the same few files all day long.
"""

from __future__ import annotations

from math import inf

from tidelog.broker.state import BrokerState
from tidelog.log.scrub import Scrub
from tidelog.model.clock import Now
from tidelog.partition.replica import Replica

SLICE_BYTES = 256 * 1024
FIRST_MS = 60_000
"""After a start: there is enough to do before."""

_SHORTEST_PAUSE_MS = 5
LOGS_PER_TURN = 200
"""Most logs of a node with many have no closed segment."""


class Scrubbing:
    """`deadline_ms` is when `turn` wants to be called."""

    def __init__(self, state: BrokerState, now: Now) -> None:
        self._state = state
        settings = state.config.settings
        self._rate = settings.log_scrub_bytes_per_second
        self._interval_ms = settings.log_scrub_interval_ms
        self._unchecked: list[Replica] = []
        self._under_way: tuple[Replica, Scrub] | None = None
        first_ms = now.monotonic_ms + min(FIRST_MS, self._interval_ms)
        self._next_round_ms = self.deadline_ms = first_ms if self._rate else inf

    def turn(self, now: Now) -> list[str]:
        """Check a slice; returns what the operator should know besides the logs' own reports."""
        if self._under_way is not None and self._under_way[0].is_gone:
            self._under_way = None
        if self._under_way is None and not self._unchecked:
            self._unchecked = list(reversed(self._state.replicas.by_key.values()))
            self._next_round_ms = now.monotonic_ms + self._interval_ms
        under_way = self._under_way or self._next_log()
        if under_way is None:
            self.deadline_ms = now.monotonic_ms + _SHORTEST_PAUSE_MS
            if not self._unchecked:
                self.deadline_ms = max(self.deadline_ms, self._next_round_ms)
            return []
        replica, scrub = under_way
        known = len(replica.log.damage)
        checked = scrub.step(SLICE_BYTES)
        if len(replica.log.damage) > known:
            replica.look_for_damage()
            self._state.touched[replica] = None
            self._state.replicas.stir(replica)
        self._under_way = None if scrub.is_finished else under_way
        pause_ms = max(_SHORTEST_PAUSE_MS, checked * 1000 / self._rate)
        self.deadline_ms = now.monotonic_ms + pause_ms
        reports = [f"{replica.name}: {report}" for report in scrub.reports]
        scrub.reports.clear()
        return reports

    def _next_log(self) -> tuple[Replica, Scrub] | None:
        for _ in range(LOGS_PER_TURN):
            if not self._unchecked:
                break
            replica = self._unchecked.pop()
            if not replica.is_gone:
                scrub = Scrub(replica.log)
                if not scrub.is_finished:
                    return replica, scrub
        return None
