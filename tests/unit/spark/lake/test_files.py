"""What the Delta log is told of a file, and which files a time can be in."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from tests.unit.spark.lake.lake_rows import SOME_TIME_US, a_file

from tidelog.spark.lake.files import OffsetFile, file_name, from_add_action, in_order, overlaps

TIMED = replace(a_file(10, 20), min_time_us=SOME_TIME_US, max_time_us=SOME_TIME_US + 1000)


def statistics(file: OffsetFile) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(file.add_action(now_ms=1, is_new_data=True).stats)
    return found


def test_the_delta_log_is_told_offsets_and_times() -> None:
    found = statistics(TIMED)
    assert found["numRecords"] == 10
    assert found["minValues"] == {"offset": 10, "timestamp": "2023-11-14T22:13:20.000Z"}
    assert found["maxValues"] == {"offset": 19, "timestamp": "2023-11-14T22:13:20.001Z"}


@pytest.mark.parametrize("time_us", [-1000, 999_999_999_999_999_999])
def test_a_time_no_reader_understands_is_not_told(time_us: int) -> None:
    odd = replace(TIMED, min_time_us=min(time_us, SOME_TIME_US), max_time_us=max(time_us, 0))
    assert "timestamp" not in statistics(odd)["minValues"]
    assert "timestamp" not in statistics(odd)["maxValues"]


def test_a_file_that_another_tool_rewrote_is_known_by_its_statistics() -> None:
    row = {
        "path": "partition=4/part-00000.snappy.parquet",
        "partition.partition": 4,
        "min.offset": 7,
        "max.offset": 11,
        "num_records": 5,
        "size_bytes": 99,
    }
    assert from_add_action(row) == OffsetFile(row["path"], 4, 7, 12, rows=5, size=99)  # type: ignore[arg-type]


def test_the_name_says_the_range_where_statistics_fall_short_of_it() -> None:
    row = {
        "path": file_name(4, 7, 30, "ab12"),
        "partition.partition": 4,
        "min.offset": 7,
        "max.offset": 11,
        "num_records": 5,
        "size_bytes": 99,
    }
    assert (from_add_action(row).first, from_add_action(row).next_offset) == (7, 30)


@pytest.mark.parametrize(
    ("since", "until", "is_possible"),
    [
        (None, None, True),
        (SOME_TIME_US + 1000, None, True),
        (SOME_TIME_US + 1001, None, False),
        (None, SOME_TIME_US, False),
        (None, SOME_TIME_US + 1, True),
    ],
)
def test_a_file_is_opened_only_if_it_may_hold_the_time(
    since: int | None, until: int | None, is_possible: bool
) -> None:
    assert TIMED.may_hold(since_us=since, until_us=until) is is_possible
    unknown = replace(TIMED, min_time_us=None, max_time_us=None)
    assert unknown.may_hold(since_us=since, until_us=until)


def test_overlaps_are_found_within_a_partition_only() -> None:
    files = [a_file(10, 20), a_file(0, 10), a_file(15, 30), a_file(0, 30, partition=1)]
    assert overlaps(files) == [(files[0], files[2])]
    assert in_order(files) == [files[1], files[0], files[2], files[3]]
