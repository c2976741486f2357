"""Waiting for what another thread or process does: as long as it takes, but not for ever."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

PATIENCE_S = 120.0


class RanOutOfTime(AssertionError):
    """A wait took longer than it may. This says that nothing came, never that something wrong came:
    only a test that fails for this reason is run a second time (`second_chances.py`)."""


def check_time(deadline_s: float, what: str) -> None:
    """For a loop of one's own: `deadline_s` is on the monotonic clock."""
    if time.monotonic() >= deadline_s:
        raise RanOutOfTime(what)


def attempts(what: str, *, pause_s: float = 0.0) -> Iterator[int]:
    """`for _ in attempts("a record"): … break`: fails the test if it goes on for too long."""
    deadline = time.monotonic() + PATIENCE_S
    number = 0
    while time.monotonic() < deadline:
        yield number
        number += 1
        time.sleep(pause_s)
    raise RanOutOfTime(f"{what} did not come within {PATIENCE_S:.0f} s")


def eventually(condition: Callable[[], object], what: str) -> None:
    """Look again until it is so."""
    for _ in attempts(what, pause_s=0.005):
        if condition():
            return
