"""Work, counted: how many functions a piece of code enters. The same on every machine, so budgets
and growth can be asserted without a clock."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any, TypeVar

T = TypeVar("T")


def calls_of(work: Callable[[], object]) -> int:
    """Python's functions and C's. A generator counts each time it goes on."""
    return _counted(work, ("call", "c_call"))[0]


def python_calls_of(work: Callable[[], T]) -> tuple[int, T]:
    """Python's alone, `work` included: most of what a small request costs. And its result."""
    return _counted(work, ("call",))


def _counted(work: Callable[[], T], events: tuple[str, ...]) -> tuple[int, T]:
    count = 0

    def note(frame: FrameType, event: str, what: Any) -> None:
        nonlocal count
        count += event in events

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        result = work()
    finally:
        sys.setprofile(before)
    return count, result
