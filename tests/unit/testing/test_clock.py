"""The node's time, which goes forward only, in both clocks alike."""

from __future__ import annotations

import pytest

from tidelog.testing.clock import MovableClock


def test_both_clocks_move_by_the_same_time() -> None:
    clock = MovableClock()
    before = clock()
    clock.advance(3_600_000)
    after = clock()
    assert after.monotonic_ms - before.monotonic_ms >= 3_600_000
    assert after.wall_ms - before.wall_ms >= 3_600_000


def test_time_is_not_turned_back() -> None:
    with pytest.raises(ValueError, match="not turned back"):
        MovableClock().advance(-1)
