"""A node knows by how much its loop is late, and says so once."""

from __future__ import annotations

from tidelog.broker.lateness import REPORT_INTERVAL_MS, Lateness


def test_a_step_is_late_by_what_it_comes_after_its_deadline() -> None:
    lateness = Lateness()
    assert lateness.begin(1000) == 0
    lateness.expected_ms = 1500
    assert lateness.begin(1400) == 0, "something else happened before"
    lateness.expected_ms = 1500
    assert lateness.begin(1750) == 250


def test_a_deadline_that_had_passed_counts_from_the_last_step() -> None:
    lateness = Lateness()
    lateness.begin(1000)
    lateness.expected_ms = 0
    assert lateness.begin(1001) == 0
    lateness.expected_ms = 0
    assert lateness.begin(1101) == 100


def test_nobody_is_late_for_what_was_never_asked_for() -> None:
    lateness = Lateness()
    lateness.begin(1000)
    lateness.expected_ms = None
    assert lateness.begin(100_000) == 0


def test_the_operator_is_told_once_in_a_while() -> None:
    lateness = Lateness()
    lateness.begin(0)
    for number in range(1, 10):
        lateness.expected_ms = number * 1000
        lateness.begin(number * 1000 + 900)
    assert len(lateness.reports) == 1
    assert "late by 900 ms" in lateness.reports[0]
    later_ms = 1900 + REPORT_INTERVAL_MS
    lateness.expected_ms = later_ms - 700
    lateness.begin(later_ms)
    assert "late by 700 ms" in lateness.reports[1]
