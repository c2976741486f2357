"""Virtual time and scripts."""

from __future__ import annotations

import pytest

from tidelog.sim.schedule import Pause, Promise, Schedule, Script


def test_actions_happen_in_order_of_time_then_of_scheduling() -> None:
    schedule = Schedule()
    seen: list[str] = []
    schedule.after(5.0, lambda: seen.append("late"))
    schedule.after(1.0, lambda: seen.append("first"))
    schedule.after(1.0, lambda: seen.append("second"))
    schedule.run(until_ms=10.0)
    assert seen == ["first", "second", "late"]
    assert schedule.now_ms == 10.0


def test_a_cancelled_action_does_not_happen() -> None:
    schedule = Schedule()
    seen: list[str] = []
    schedule.after(1.0, lambda: seen.append("no")).cancel()
    schedule.run(until_ms=10.0)
    assert seen == []


def test_a_script_waits_for_time_and_for_promises() -> None:
    schedule = Schedule()
    promise: Promise[str] = Promise()
    seen: list[tuple[float, str]] = []

    def script() -> Script[None]:
        yield Pause(3.0)
        seen.append((schedule.now_ms, "paused"))
        word = yield promise
        seen.append((schedule.now_ms, word))

    ended = schedule.start(script())
    schedule.after(7.0, lambda: promise.keep("kept"))
    assert schedule.run(until_ms=100.0, is_done=lambda: ended.is_kept)
    assert seen == [(3.0, "paused"), (7.0, "kept")]


def test_a_promise_is_kept_once() -> None:
    promise: Promise[int] = Promise()
    seen: list[int] = []
    promise.watch(seen.append)
    promise.keep(1)
    promise.keep(2)
    assert seen == [1]


def test_time_that_stands_still_is_noticed() -> None:
    schedule = Schedule()

    def again() -> None:
        schedule.after(0.0, again)

    again()
    with pytest.raises(AssertionError, match="time stands still"):
        schedule.run(until_ms=1.0)
