"""Room for large requests: never more than there is, first come, first served, never stuck."""

from __future__ import annotations

from functools import partial

from hypothesis import given
from hypothesis import strategies as st

from tidelog.runtime.receive_pool import ReceivePool


def never() -> bool:
    raise AssertionError("there was room at once")


def test_who_comes_first_is_served_first() -> None:
    pool, served = ReceivePool(100), list[str]()

    def wait(name: str) -> bool:
        served.append(name)
        return True

    assert pool.take(80, never)
    assert not pool.take(50, lambda: wait("large"))
    assert not pool.take(10, lambda: wait("small, but later"))
    pool.give_back(80)
    assert served == ["large", "small, but later"]
    assert pool.free_bytes == 40


def test_who_has_left_takes_nothing() -> None:
    pool = ReceivePool(100)
    assert pool.take(100, never)
    assert not pool.take(60, lambda: False)
    pool.give_back(100)
    assert pool.free_bytes == 100


@given(st.lists(st.tuples(st.integers(1, 100), st.booleans()), max_size=60))
def test_the_pool_never_gives_more_than_it_has_and_is_whole_at_the_end(
    wishes: list[tuple[int, bool]],
) -> None:
    pool, held = ReceivePool(100), list[int]()

    def grant(size: int) -> bool:
        held.append(size)
        return True

    for size, gives_back in wishes:
        if pool.take(size, partial(grant, size)):
            held.append(size)
        assert pool.free_bytes >= 0
        if gives_back and held:
            pool.give_back(held.pop(0))
    while held:
        pool.give_back(held.pop(0))
    assert pool.free_bytes == 100
