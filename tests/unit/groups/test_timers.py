"""Deadlines that are cheap to postpone."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tidelog.groups.timers import TimerKey, Timers

A, B = TimerKey("session", "g", "a"), TimerKey("session", "g", "b")


def test_the_earliest_is_next_and_due_first() -> None:
    timers: Timers[TimerKey] = Timers()
    timers.arm(A, 20)
    timers.arm(B, 10)
    assert timers.next_deadline() == 10
    assert list(timers.take_due(25)) == [B, A]
    assert timers.next_deadline() is None


def test_a_postponed_deadline_is_not_met_early() -> None:
    timers: Timers[TimerKey] = Timers()
    timers.arm(A, 10)
    timers.arm(A, 30)
    assert timers.next_deadline() == 30
    assert list(timers.take_due(29)) == []
    assert list(timers.take_due(30)) == [A]


def test_a_deadline_can_be_brought_forward() -> None:
    timers: Timers[TimerKey] = Timers()
    timers.arm(A, 30)
    timers.arm(A, 10)
    assert list(timers.take_due(10)) == [A]
    assert list(timers.take_due(30)) == []


def test_a_cancelled_deadline_is_not_met() -> None:
    timers: Timers[TimerKey] = Timers()
    timers.arm(A, 10)
    timers.cancel(A)
    timers.cancel(B)
    assert A not in timers
    assert timers.next_deadline() is None
    timers.arm(A, 20)
    assert list(timers.take_due(15)) == []


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("arm"), st.integers(0, 3), st.integers(0, 50)),
            st.tuples(st.just("cancel"), st.integers(0, 3), st.just(0)),
            st.tuples(st.just("take"), st.just(0), st.integers(0, 50)),
        )
    )
)
def test_timers_do_what_a_dict_of_deadlines_would_do(
    steps: list[tuple[str, int, int]],
) -> None:
    timers, model = Timers[TimerKey](), dict[TimerKey, float]()
    for what, number, value in steps:
        key = TimerKey("session", "g", str(number))
        if what == "arm":
            timers.arm(key, value)
            model[key] = value
        elif what == "cancel":
            timers.cancel(key)
            model.pop(key, None)
        else:
            due = sorted(key for key, deadline in model.items() if deadline <= value)
            assert sorted(timers.take_due(value)) == due
            for key in due:
                del model[key]
        assert timers.next_deadline() == min(model.values(), default=None)
