"""Where to begin reading, as people say it."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from tidelog.cli.start_point import StartPoint, parse_start

NOW_MS = 1_900_000_000_000


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("beginning", StartPoint("beginning")),
        ("end", StartPoint("end")),
        ("0", StartPoint("offset", 0)),
        ("123456", StartPoint("offset", 123_456)),
        ("10m", StartPoint("time", NOW_MS - 600_000)),
        ("2h", StartPoint("time", NOW_MS - 7_200_000)),
        ("1d", StartPoint("time", NOW_MS - 86_400_000)),
        ("250ms", StartPoint("time", NOW_MS - 250)),
    ],
)
def test_a_start_is_understood(text: str, expected: StartPoint) -> None:
    assert parse_start(text, now_ms=NOW_MS) == expected


def test_a_time_with_a_zone_is_that_moment() -> None:
    moment = datetime(2030, 1, 31, 12, 30, tzinfo=UTC)
    expected = StartPoint("time", int(moment.timestamp() * 1000))
    assert parse_start("2030-01-31T12:30:00+00:00", now_ms=NOW_MS) == expected
    assert parse_start("2030-01-31T12:30Z", now_ms=NOW_MS) == expected


def test_a_time_without_a_zone_is_local() -> None:
    moment = datetime(2030, 1, 31, 12, 30).astimezone()
    start = parse_start("2030-01-31 12:30", now_ms=NOW_MS)
    assert start == StartPoint("time", int(moment.timestamp() * 1000))


@pytest.mark.parametrize("text", ["", "-5", "begin", "10 m", "5w", "2030-13-01"])
def test_nonsense_is_refused_with_what_is_possible(text: str) -> None:
    with pytest.raises(ValueError, match="beginning, end, an offset"):
        parse_start(text, now_ms=NOW_MS)


@pytest.mark.parametrize("text", ["1900-01-01", "999999999999d"])
def test_a_time_before_1970_is_the_beginning_of_all_time(text: str) -> None:
    assert parse_start(text, now_ms=NOW_MS) == StartPoint("time", 0)


@pytest.mark.parametrize("text", ["9" * 5000, "9" * 5000 + "d"])
def test_a_number_that_no_log_can_reach_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="beginning, end, an offset"):
        parse_start(text, now_ms=NOW_MS)
