"""When the wall clock is believed: after it has been steady, and not after a jump."""

from __future__ import annotations

import pytest

from tidelog.model.clock import Now
from tidelog.model.steady_clock import NOTHING_IS_OLD, SteadyClock

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS
STEADY_MS = 30 * MINUTE_MS
EPOCH_MS = 1_700_000_000_000


class Watched:
    """A clock under observation, looked at every second."""

    def __init__(self, steady_ms: int = STEADY_MS) -> None:
        self.clock = SteadyClock(steady_ms)
        self.now = Now(500.0, EPOCH_MS)
        self.reports: list[str] = []
        self.clock.observe(self.now)

    def live(self, duration_ms: int, *, rate: float = 1.0) -> None:
        """Time passes; the wall clock runs at `rate`."""
        for _ in range(duration_ms // 1000):
            wall_ms = self.now.wall_ms + round(1000 * rate)
            self.now = Now(self.now.monotonic_ms + 1000, wall_ms)
            self.clock.observe(self.now)
        self.reports += [report.text for report in self.clock.take_reports()]

    def jump(self, by_ms: int) -> None:
        self.now = Now(self.now.monotonic_ms, self.now.wall_ms + by_ms)
        self.clock.observe(self.now)


@pytest.fixture
def steady() -> Watched:
    watched = Watched()
    watched.live(STEADY_MS)
    assert not watched.clock.is_held
    watched.reports.clear()
    return watched


def test_after_a_start_nothing_is_old_until_the_clock_was_steady() -> None:
    watched = Watched()
    watched.live(STEADY_MS - 1000)
    assert watched.clock.is_held
    assert watched.clock.age_ms(watched.now) == NOTHING_IS_OLD
    watched.live(1000)
    assert watched.clock.age_ms(watched.now) == watched.now.wall_ms
    paused, resumed = watched.reports
    assert "age-based deletion is paused for the first 30 min after a start" in paused
    assert "age-based deletion goes on" in resumed


@pytest.mark.parametrize("by_ms", [8 * DAY_MS, -8 * DAY_MS, 236 * 365 * DAY_MS, 2 * MINUTE_MS])
def test_a_jump_is_told_once_and_holds_until_the_clock_was_steady(
    steady: Watched, by_ms: int
) -> None:
    steady.jump(by_ms)
    assert steady.clock.is_held, "also for a decision in the very step that sees the jump"
    steady.live(STEADY_MS - 1000)
    assert steady.clock.is_held
    assert len(steady.reports) == 1
    assert "has jumped" in steady.reports[0]
    assert ": age-based deletion is paused until" in steady.reports[0]
    assert "if the clock is correct now, run `tidelog cluster confirm" in steady.reports[0]
    steady.live(2000)
    assert not steady.clock.is_held
    assert "goes on" in steady.reports[1]


def test_each_jump_begins_the_wait_again_also_the_one_back(steady: Watched) -> None:
    steady.jump(8 * DAY_MS)
    steady.live(STEADY_MS - 1000)
    steady.jump(-8 * DAY_MS)
    steady.live(STEADY_MS - 1000)
    assert steady.clock.is_held
    steady.live(1000)
    assert not steady.clock.is_held


@pytest.mark.parametrize("by_ms", [30_000, -30_000])
def test_a_step_of_some_seconds_is_no_jump(steady: Watched, by_ms: int) -> None:
    steady.jump(by_ms)
    steady.live(HOUR_MS)
    assert not steady.clock.is_held
    assert not steady.reports


def test_slewing_by_ntp_is_no_jump_however_long(steady: Watched) -> None:
    watched = Watched()
    watched.live(STEADY_MS)
    for _ in range(50):  # 500 ppm: after 50 hours 90 seconds
        steady.now = Now(steady.now.monotonic_ms + HOUR_MS, steady.now.wall_ms + HOUR_MS + 1800)
        steady.clock.observe(steady.now)
    assert not steady.clock.is_held


def test_a_clock_that_runs_away_in_small_steps_is_noticed(steady: Watched) -> None:
    steady.live(10 * MINUTE_MS, rate=1.2)
    assert steady.clock.is_held


def test_what_is_recorded_after_a_jump_back_is_dated_as_before(steady: Watched) -> None:
    steady.jump(-8 * DAY_MS)
    assert steady.clock.stamp(steady.now).wall_ms - steady.now.wall_ms == 8 * DAY_MS
    steady.live(STEADY_MS)
    assert steady.clock.stamp(steady.now) == steady.now


def test_what_is_recorded_after_a_jump_ahead_is_dated_by_the_clock(steady: Watched) -> None:
    steady.jump(8 * DAY_MS)
    assert steady.clock.stamp(steady.now) == steady.now


def test_an_operator_who_names_the_time_the_clock_shows_is_believed(steady: Watched) -> None:
    steady.jump(8 * DAY_MS)
    steady.clock.confirm(steady.now, steady.now.wall_ms - 8 * DAY_MS)
    assert steady.clock.is_held, "confirmed was another time"
    steady.clock.confirm(steady.now, steady.now.wall_ms - 5_000)
    assert not steady.clock.is_held


def test_no_patience_believes_any_clock() -> None:
    watched = Watched(steady_ms=0)
    watched.jump(-8 * DAY_MS)
    watched.live(1000)
    assert not watched.clock.is_held
    assert watched.clock.stamp(watched.now) == watched.now
    assert not watched.reports


@pytest.mark.parametrize("wall_ms", [-62_135_596_800_000, -1, 0, 9_223_372_036_854, 2**62])
def test_any_wall_time_can_be_told(wall_ms: int) -> None:
    watched = Watched()
    watched.jump(wall_ms - watched.now.wall_ms)
    watched.live(STEADY_MS)
    assert watched.clock.age_ms(watched.now) == watched.now.wall_ms
