"""How far wall clocks jump in a run, and how long a node waits until it believes one again.

Drawn from streams of their own: half of the seeds are as they were before nodes doubted a clock.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random

from tidelog.broker.configuration import NodeConfig
from tidelog.model.setting import INT32_MAX, INT64_MAX
from tidelog.sim.history import History
from tidelog.sim.host import Host
from tidelog.sim.schedule import Schedule

_HOURS_MS = 1e7
_DAY_MS = 86_400_000.0
_LONG_MS, _AGES_MS = str(2**40), str(2**50)
_MOST_YEARS = 236
"""More would be beyond what 64 bits of nanoseconds can say, where anybody counts in those."""


@dataclass(slots=True, frozen=True)
class ClockPlan:
    """`steady_ms` is the nodes' `clock.steady.ms`. `is_wild`: jumps of days and of centuries."""

    steady_ms: int
    is_wild: bool

    def configured(self, node: NodeConfig, *, forgets_offsets: bool) -> NodeConfig:
        """The node as this plan wants it. A clock that stays wrong is believed in the end, so in a
        wild run only that has an age of which the checkers know."""
        settings, defaults = (
            replace(node.settings, clock_steady_ms=self.steady_ms),
            dict(node.topic_defaults),
        )
        if self.is_wild:
            settings = replace(settings, producer_id_expiration_ms=INT64_MAX)
            defaults["retention.ms"] = -1
            if not forgets_offsets:
                settings = replace(settings, offsets_retention_minutes=INT32_MAX)
        return replace(node, settings=settings, topic_defaults=defaults)

    def outlasted(self, topic: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
        """The topic's settings, with a time for tombstones that no jump outlasts, or none."""
        name = "delete.retention.ms"
        return tuple(
            (name, _AGES_MS) if self.is_wild and (key, value) == (name, _LONG_MS) else (key, value)
            for key, value in topic
        )


def draw_clock_plan(random: Random) -> ClockPlan:
    """Waits that end within a run, and one that mostly does not."""
    if random.random() < 0.5:
        return ClockPlan(0, False)
    return ClockPlan(random.choice((100, 400, 2_000)), random.random() < 0.7)


class WallClocks:
    """Sets hosts' wall clocks, and notes in the history what they show."""

    def __init__(
        self, plan: ClockPlan, schedule: Schedule, history: History, random: Random
    ) -> None:
        self._plan = plan
        self._schedule = schedule
        self._history = history
        self._random = random

    def note_plan(self) -> None:
        """For those who judge when a clock may have been believed."""
        self._history.add(0, "info", "steady", value=self._plan.steady_ms)

    def note(self, host: Host) -> None:
        """What the host's wall clock shows."""
        now = host.clock.now(self._schedule.now_ms)
        self._history.add(-int(host.node_id), "info", "clock", value=now.wall_ms)

    def jump(self, host: Host, by_ms: float) -> None:
        """By so much, or by whatever a wild run draws; there, the clock may soon be right again."""
        random = self._random
        if self._plan.is_wild:
            sizes_ms = (random.uniform(0.0, _HOURS_MS), 8 * _DAY_MS, self._years_ms())
            by_ms = random.choice((-1.0, 1.0)) * random.choice(sizes_ms)
            if random.random() < 0.5:
                back_after_ms = random.uniform(20.0, 500.0)
                self._schedule.after(back_after_ms, lambda: self._set(host, -by_ms))
        self._set(host, by_ms)

    def _years_ms(self) -> float:
        return self._random.randint(1, _MOST_YEARS) * 365 * _DAY_MS

    def _set(self, host: Host, by_ms: float) -> None:
        host.clock.jump(by_ms)
        self.note(host)
