"""Conversations with ZooKeeper: each a generator that yields what it asks, and is given the result.

A talk has a name; of each name one is under way. To begin it again while it is means once more
after it: a watch that fires meanwhile is not forgotten. When the connection breaks all talks end
where they are; who had begun them begins anew once it is back, and finds out by reading what became
of a write that was not answered.

An answer also says that the session lived when the request was sent: ZooKeeper keeps it for at
least `timeout_ms` from then. That is `certain_until_ms`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Any

from tidelog.zookeeper.requests import (
    NO_SESSION,
    Answered,
    AskZooKeeper,
    Request,
    Result,
    SessionId,
    Unheard,
)

_DRIFT = 0.02
"""Two clocks that differ by more than this in what they call a second are broken."""


@dataclass(frozen=True, slots=True)
class Pause:
    """Go on after so long."""

    duration_ms: float


Talk = Generator[Request | tuple[Request, ...] | Pause, Any, None]


@dataclass(slots=True)
class _Running:
    """One talk. `results` are those of the requests it waits for, in their order."""

    name: str
    talk: Talk
    results: list[Result | None] = field(default_factory=list)
    is_single: bool = True
    resume_at_ms: float | None = None


@dataclass(frozen=True, slots=True)
class _Question:
    running: _Running
    place: int
    sent_ms: float


class Talks:
    """All of a node's talks with ZooKeeper, in its present session."""

    def __init__(self) -> None:
        self.session: SessionId = NO_SESSION
        self.timeout_ms = 0.0
        self.is_connected = False
        self.certain_until_ms = 0.0
        self._number = 0
        self._running: dict[str, _Running] = {}
        self._again: dict[str, Callable[[], Talk]] = {}
        self._questions: dict[int, _Question] = {}
        self._effects: list[AskZooKeeper] = []

    # --- the session ----------------------------------------------------------------------------

    def open(self, session: SessionId, timeout_ms: float) -> None:
        self.stop()
        self.session, self.timeout_ms = session, timeout_ms
        self.is_connected = True

    def suspend(self) -> None:
        """The connection is gone, and what was asked is unheard."""
        self.stop()
        self.is_connected = False

    def expire(self) -> None:
        self.suspend()
        self.session, self.certain_until_ms = NO_SESSION, 0.0

    def stop(self) -> None:
        running, self._running = self._running, {}
        for each in running.values():
            each.talk.close()
        self._again.clear()
        self._questions.clear()
        self._effects.clear()

    # --- talking --------------------------------------------------------------------------------

    def begin(self, name: str, make: Callable[[], Talk], now_ms: float) -> None:
        """Begin the talk, or once more after the one of that name that is under way."""
        if not self.is_connected:
            return
        if name in self._running:
            self._again[name] = make
            return
        running = self._running[name] = _Running(name, make())
        self._go_on(running, None, now_ms)

    def is_under_way(self, name: str) -> bool:
        return name in self._running

    def answered(self, word: Answered, now_ms: float) -> None:
        """Nothing, if it answers what nobody waits for any more."""
        question = self._questions.pop(word.number, None)
        if question is None:
            return
        running = question.running
        if isinstance(word.result, Unheard):
            self._end(running)
            return
        lives_until_ms = question.sent_ms + self.timeout_ms * (1 - _DRIFT)
        self.certain_until_ms = max(self.certain_until_ms, lives_until_ms)
        running.results[question.place] = word.result
        if None not in running.results:
            results = running.results
            self._go_on(running, results[0] if running.is_single else results, now_ms)

    def next_deadline(self) -> float | None:
        waits = [each.resume_at_ms for each in self._running.values()]
        return min((at for at in waits if at is not None), default=None)

    def tick(self, now_ms: float) -> None:
        for running in list(self._running.values()):
            at_ms = running.resume_at_ms
            if at_ms is not None and now_ms >= at_ms:
                running.resume_at_ms = None
                self._go_on(running, None, now_ms)

    def take_effects(self) -> list[AskZooKeeper]:
        effects, self._effects = self._effects, []
        return effects

    def describe(self) -> list[str]:
        return [
            f"{name} waits for {sum(result is None for result in each.results)} answers"
            for name, each in self._running.items()
        ]

    def _go_on(self, running: _Running, value: Any, now_ms: float) -> None:
        try:
            wish = running.talk.send(value)
        except StopIteration:
            self._end(running)
            again = self._again.pop(running.name, None)
            if again is not None:
                self.begin(running.name, again, now_ms)
            return
        if self._running.get(running.name) is not running:
            running.talk.close()  # what it did has ended the session
        elif isinstance(wish, Pause):
            running.resume_at_ms = now_ms + wish.duration_ms
        else:
            running.is_single = not isinstance(wish, tuple)
            requests = wish if isinstance(wish, tuple) else (wish,)
            assert requests, "nothing is asked, so nothing would be answered"
            running.results = [None] * len(requests)
            for place, request in enumerate(requests):
                self._ask(running, place, request, now_ms)

    def _ask(self, running: _Running, place: int, request: Request, now_ms: float) -> None:
        self._number += 1
        self._questions[self._number] = _Question(running, place, now_ms)
        self._effects.append(AskZooKeeper(self._number, self.session, request))

    def _end(self, running: _Running) -> None:
        if self._running.get(running.name) is running:
            del self._running[running.name]
        running.talk.close()
