"""Numbers, sizes and times as people write them."""

from __future__ import annotations

import pytest

from tidelog.cli.output import duration_text, plural, shown, size_text, time_text


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 B"), (999, "999 B"), (1500, "1.5 kB"), (2_000_000, "2.0 MB"), (5e12, "5.0 TB")],
)
def test_a_size_is_given_in_the_fitting_unit(size: float, text: str) -> None:
    assert size_text(size) == text


@pytest.mark.parametrize(
    ("cell", "text"), [(1_234_567, "1,234,567"), (None, "-"), (True, "yes"), ("a", "a")]
)
def test_a_cell_is_written_for_people(cell: object, text: str) -> None:
    assert shown(cell) == text


def test_one_record_is_not_one_records() -> None:
    assert (plural(1, "record"), plural(2, "record")) == ("1 record", "2 records")


def test_no_timestamp_is_a_dash() -> None:
    assert time_text(-1) == "-"
    assert len(time_text(1_700_000_000_000)) == len("2023-11-14 22:13:20")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (0.44, "0.4 s"),
        (3, "3 s"),
        (9.96, "10 s"),
        (12.3, "12 s"),
        (60, "1 min"),
        (200, "3 min 20 s"),
        (3600, "1 h"),
        (3601, "1 h"),
        (7500, "2 h 5 min"),
        (86_400 * 7, "7 d"),
        (100_000, "1 d 3 h"),
    ],
)
def test_a_length_of_time_is_given_in_its_two_largest_units(seconds: float, text: str) -> None:
    assert duration_text(seconds) == text
