"""Which events a node receives before it settles: the twin of `runtime.turns`.

A turn begins with the first event that comes. How many more it waits for is drawn, and how long it
waits for them: a busy process gets to its sockets a little late, and finds several ready. A node
whose turns are of one event settles after each. While a turn takes its time (`works_for`), all that
comes waits, and is the next turn.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from tidelog.broker.events import Event, StopRequested
from tidelog.sim.schedule import Schedule, Timer

_MOST_EVENTS = (1, 1, 2, 4, 16)
"""Of the turns in a run: two runs in five have turns of one event only."""

_LATE_MS = (0.02, 1.5)
"""How long the first event of a turn waits for others."""


def draw_turn_events(random: Random) -> int:
    """How many events a turn has at most, in all of a run."""
    return random.choice(_MOST_EVENTS)


class Turns:
    """Events that have come to one process, and when the node hears of them."""

    def __init__(
        self,
        schedule: Schedule,
        random: Random,
        *,
        most_events: int,
        take: Callable[[list[Event]], None],
    ) -> None:
        self._schedule = schedule
        self._random = random
        self._most_events = most_events
        self._take = take
        self._waiting: list[Event] = []
        self._wanted = 1
        self._timer: Timer | None = None
        self._work: Timer | None = None

    def works_for(self, duration_ms: float) -> None:
        """The turn that was just taken lasts so long."""
        self._work = self._schedule.after(duration_ms, self._rest)

    def _rest(self) -> None:
        self._work = None
        if self._waiting:
            self._take(self.cut())

    def add(self, event: Event) -> None:
        """A request to stop ends the turn."""
        if not self._waiting:
            self._wanted = self._random.randint(1, self._most_events)
        self._waiting.append(event)
        if isinstance(event, StopRequested):
            self._take(self.cut())
        elif self._work is not None:
            return
        elif len(self._waiting) >= self._wanted:
            self._take(self.cut())
        elif self._timer is None:
            late_ms = self._random.uniform(*_LATE_MS)
            self._timer = self._schedule.after(late_ms, lambda: self._take(self.cut()))

    def cut(self) -> list[Event]:
        """What waits is no longer here to wait."""
        for timer in (self._timer, self._work):
            if timer is not None:
                timer.cancel()
        self._timer = self._work = None
        waiting, self._waiting = self._waiting, []
        return waiting
