"""The wall clock far from today, and what the log says then."""

from __future__ import annotations

import logging
import time

import pytest

from tidelog.runtime.wall_clock import make_log_record, wall_clock_ms


def test_the_wall_clock_is_the_systems() -> None:
    before = int(time.time() * 1000)
    assert before <= wall_clock_ms() <= int(time.time() * 1000) + 1


def test_a_line_is_logged_also_when_the_time_cannot_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    def beyond() -> float:
        raise OverflowError("timestamp too large to convert to C _PyTime_t")

    formatter = logging.Formatter("%(asctime)s %(levelname)s %(message)s")
    arguments = ("tidelog", logging.WARNING, "/src/service.py", 1, "%s has jumped", ("it",), None)
    today = make_log_record(*arguments)
    monkeypatch.setattr(time, "time", beyond)
    undated = make_log_record(*arguments)
    assert "WARNING it has jumped" in formatter.format(today)
    assert "1970" in formatter.format(undated) or "1969" in formatter.format(undated)
    assert "WARNING it has jumped" in formatter.format(undated)
    assert vars(undated).keys() - vars(today).keys() == set()
