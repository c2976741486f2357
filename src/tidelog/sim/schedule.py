"""Virtual time: a queue of actions, and scripts that wait in it.

A *script* is a generator that yields what it waits for: a `Pause`, or a `Promise` of a value. It
reads like a client program, and there is nothing concurrent about it: one action at a time, in
order of time and then of scheduling.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from heapq import heappop, heappush
from operator import attrgetter
from typing import Any, Generic, NamedTuple, TypeVar

T = TypeVar("T")

_IS_KEPT = attrgetter("is_kept")

MAX_ACTIONS_AT_ONCE = 100_000
"""In one moment of virtual time."""


class Pause(NamedTuple):
    """Go on after so long."""

    duration_ms: float


class Promise(Generic[T]):
    """A value that will be known later, once."""

    __slots__ = ("_watchers", "is_kept", "value")

    def __init__(self) -> None:
        self.is_kept = False
        self.value: T | None = None
        self._watchers: list[Callable[[T], None]] = []

    def keep(self, value: T) -> None:
        """Tell those who wait. Only the first value counts: a reply may race with a timeout."""
        if self.is_kept:
            return
        self.is_kept = True
        self.value = value
        watchers, self._watchers = self._watchers, []
        for watcher in watchers:
            watcher(value)

    def watch(self, watcher: Callable[[T], None]) -> None:
        if self.is_kept:
            assert self.value is not None
            watcher(self.value)
        else:
            self._watchers.append(watcher)


def have_ended(scripts: list[Promise[bool]]) -> bool:
    """All of them; asked before every action."""
    return all(map(_IS_KEPT, scripts))


Script = Generator[Pause | Promise[Any], Any, T]


class Timer:
    """An action that has not happened yet, and may be called off."""

    __slots__ = ("action", "is_cancelled", "when_ms")

    def __init__(self, when_ms: float, action: Callable[[], None]) -> None:
        self.when_ms = when_ms
        self.action = action
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True


class Schedule:
    """The only clock there is. Time moves when the next action is taken."""

    def __init__(self) -> None:
        self.now_ms = 0.0
        self._actions_now = 0
        self._queue: list[tuple[float, int, Timer]] = []
        self._number = 0

    def at(self, when_ms: float, action: Callable[[], None]) -> Timer:
        timer = Timer(max(when_ms, self.now_ms), action)
        self._number += 1
        heappush(self._queue, (timer.when_ms, self._number, timer))
        return timer

    def after(self, delay_ms: float, action: Callable[[], None]) -> Timer:
        return self.at(self.now_ms + delay_ms, action)

    def run(self, *, until_ms: float, is_done: Callable[[], bool] | None = None) -> bool:
        """Take actions until the time is up (False), or until `is_done` says so (True)."""
        queue = self._queue
        while queue and queue[0][0] <= until_ms:
            if queue[0][2].is_cancelled:
                heappop(queue)
                continue
            if is_done is not None and is_done():
                return True
            _, _, timer = heappop(queue)
            self._count(timer.when_ms)
            timer.action()
        if is_done is not None and is_done():
            return True
        self.now_ms = max(self.now_ms, until_ms)
        return False

    def _count(self, when_ms: float) -> None:
        """A deadline that is always due would stop time: that is somebody's bug, so say so."""
        self._actions_now = self._actions_now + 1 if when_ms == self.now_ms else 0
        assert self._actions_now < MAX_ACTIONS_AT_ONCE, "time stands still"
        self.now_ms = when_ms

    def start(self, script: Script[T]) -> Promise[bool]:
        """Run a script from the next moment on; the promise is kept when it has ended."""
        ended: Promise[bool] = Promise()

        def go_on(value: Any) -> None:
            try:
                wish = script.send(value)
            except StopIteration:
                ended.keep(True)
                return
            if isinstance(wish, Pause):
                self.after(wish.duration_ms, lambda: go_on(None))
            else:
                wish.watch(wake)

        def wake(value: Any) -> None:
            self.after(0.0, lambda: go_on(value))

        wake(None)
        return ended
