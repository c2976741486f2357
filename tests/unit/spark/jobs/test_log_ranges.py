"""What is left to do, and what can't be done, from numbers alone."""

from __future__ import annotations

import pytest

from tidelog.model.ids import TopicPartition
from tidelog.spark.jobs.log_ranges import log_ranges
from tidelog.spark.lake.errors import LostRecords, OtherTopic
from tidelog.spark.planner import OffsetRange

ZERO, ONE = TopicPartition("orders", 0), TopicPartition("orders", 1)


def test_a_job_goes_on_at_its_cut_and_begins_where_the_log_does() -> None:
    found = log_ranges("orders", {0: 40}, {ZERO: 10, ONE: 5}, {ZERO: 100, ONE: 7})
    assert found == [OffsetRange("orders", 0, 40, 100), OffsetRange("orders", 1, 5, 7)]


def test_what_was_deleted_before_it_was_read_is_named() -> None:
    earliest, ends = {ZERO: 50, ONE: 8}, {ZERO: 100, ONE: 9}
    with pytest.raises(LostRecords, match="offsets 40 to 49 of partition 0, offsets 5 to 7 of par"):
        log_ranges("orders", {0: 40, 1: 5}, earliest, ends)
    found = log_ranges("orders", {0: 40, 1: 5}, earliest, ends, on_loss="continue")
    assert [each.start for each in found] == [50, 8]


def test_a_log_that_ends_before_the_cut_is_another_one() -> None:
    with pytest.raises(OtherTopic, match="ends at offset 30, before 40"):
        log_ranges("orders", {0: 40}, {ZERO: 0}, {ZERO: 30})


def test_a_log_emptied_by_retention_has_nothing_left_to_do() -> None:
    assert [each.count for each in log_ranges("orders", {0: 40}, {ZERO: 40}, {ZERO: 40})] == [0]
