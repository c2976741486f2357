"""Ranges to splits and limits, by example; `properties/test_spark_planner.py` has the general."""

from __future__ import annotations

from tidelog.model.ids import TopicPartition
from tidelog.spark.planner import OffsetRange, Split, is_batch_due, plan_limited, plan_splits

SMALL = OffsetRange("orders", 0, 10, 20)
LARGE = OffsetRange("orders", 1, 0, 90)
EMPTY = OffsetRange("orders", 2, 7, 7)


def test_each_range_with_records_is_one_split() -> None:
    splits = plan_splits([LARGE, EMPTY, SMALL], topic_ids={"orders": "an-id"})
    assert splits == [Split(SMALL, "an-id"), Split(LARGE, "an-id")]


def test_min_partitions_cuts_the_largest_first() -> None:
    splits = plan_splits([SMALL, LARGE], min_partitions=4)
    assert [(each.partition, each.start, each.end) for each in splits] == [
        (0, 10, 20),
        (1, 0, 30),
        (1, 30, 60),
        (1, 60, 90),
    ]


def test_min_partitions_beyond_the_number_of_records_gives_a_split_each() -> None:
    splits = plan_splits([OffsetRange("orders", 0, 5, 8)], min_partitions=100)
    assert [(each.start, each.end) for each in splits] == [(5, 6), (6, 7), (7, 8)]


def test_max_records_per_partition_bounds_every_split() -> None:
    splits = plan_splits([SMALL, LARGE], max_records_per_partition=40)
    assert [each.end - each.start for each in splits] == [10, 30, 30, 30]


def test_a_limit_is_shared_in_proportion_and_starves_nobody() -> None:
    one = OffsetRange("a", 0, 0, 1)
    many = OffsetRange("a", 1, 0, 1_000_000)
    ends = plan_limited([one, many], max_records=100)
    assert ends == {TopicPartition("a", 0): 1, TopicPartition("a", 1): 99}


def test_with_a_limit_below_their_number_partitions_take_turns() -> None:
    starts = {0: 0, 1: 0, 2: 0}
    for _ in range(6):
        ranges = [OffsetRange("a", number, at, 10) for number, at in starts.items()]
        ends = plan_limited(ranges, max_records=1)
        starts = {place.partition: end for place, end in ends.items()}
    assert starts == {0: 2, 1: 2, 2: 2}


def test_a_limit_above_what_is_there_reads_it_all() -> None:
    assert plan_limited([SMALL, EMPTY], max_records=11) == {SMALL.place: 20, EMPTY.place: 7}


def test_a_batch_waits_for_enough_records_but_not_for_ever() -> None:
    def is_due(available: int, waited_ms: int) -> bool:
        return is_batch_due(available, min_records=10, waited_ms=waited_ms, max_delay_ms=500)

    assert not is_due(9, 499)
    assert is_due(10, 0)
    assert is_due(1, 500)
    assert is_batch_due(1, min_records=None, waited_ms=0, max_delay_ms=500)
