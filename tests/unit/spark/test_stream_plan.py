"""What the next batch of a stream reads, by example."""

from __future__ import annotations

from tidelog.model.ids import TopicPartition
from tidelog.spark import losses
from tidelog.spark.offsets import StreamOffsets, ranges_between
from tidelog.spark.planner import OffsetRange
from tidelog.spark.stream_plan import Horizon, Limits, find_losses, lag, plan_end

A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)
START = StreamOffsets({A0: 10}, {"a": "1"})


def horizon(last: dict[TopicPartition, int], *, topic_id: str = "1", first: int = 0) -> Horizon:
    ids = {place.topic: topic_id for place in last}
    return Horizon(dict.fromkeys(last, first), last, ids)


def test_without_news_the_end_is_the_start_itself() -> None:
    assert plan_end(START, horizon({A0: 10}), Limits()) is START


def test_an_added_partition_is_read_from_its_beginning() -> None:
    end = plan_end(START, horizon({A0: 12, A1: 5}, first=3), Limits())
    assert ranges_between(START, end) == [OffsetRange("a", 0, 10, 12), OffsetRange("a", 1, 3, 5)]
    again = plan_end(end, horizon({A0: 12, A1: 5}, first=3), Limits())
    assert again is end


def test_too_few_records_wait_until_the_delay_has_passed() -> None:
    few = horizon({A0: 14})
    assert plan_end(START, few, Limits(min_records=5, waited_ms=99, max_delay_ms=100)) is START
    due = plan_end(START, few, Limits(min_records=5, waited_ms=100, max_delay_ms=100))
    assert due.next == {A0: 14}
    eager = plan_end(START, few, Limits(min_records=5, max_delay_ms=100, is_eager=True))
    assert eager.next == {A0: 14}


def test_a_limit_bounds_the_batch() -> None:
    assert plan_end(START, horizon({A0: 100}), Limits(max_records=7)).next == {A0: 17}


def test_a_query_that_ends_does_not_see_what_came_later() -> None:
    target = horizon({A0: 12})
    later = horizon({A0: 50, A1: 9}).capped(target)
    assert plan_end(START, later, Limits()).next == {A0: 12}


def test_a_topic_created_again_is_a_loss_and_then_read_from_its_beginning() -> None:
    now = horizon({A0: 30}, topic_id="2")
    (loss,) = find_losses(START, now)
    assert loss.cause == losses.CREATED_AGAIN
    assert "all from offset 10 on of a-0" in str(loss)
    end = plan_end(START, now, Limits())
    assert ranges_between(START, end) == [OffsetRange("a", 0, 0, 30)]


def test_deleted_vanished_and_shortened_are_told_apart() -> None:
    assert [each.cause for each in find_losses(START, Horizon({}, {}, {}))] == [losses.DELETED]
    (vanished,) = find_losses(START, horizon({A1: 5}))
    assert vanished.cause == losses.NO_PARTITION
    (shorter,) = find_losses(START, horizon({A0: 4}))
    assert shorter.gone == (OffsetRange("a", 0, 4, 10),)
    assert "offsets 4 to 9 of a-0" in str(shorter)


def test_after_a_deletion_that_is_allowed_the_stream_goes_on_without() -> None:
    both = StreamOffsets({A0: 10, TopicPartition("b", 0): 4}, {"a": "1", "b": "1"})
    end = plan_end(both, horizon({A0: 10}), Limits())
    assert end.next == {A0: 10}
    assert plan_end(end, horizon({A0: 10}), Limits()) is end


def test_lag_counts_what_is_left_to_read() -> None:
    assert lag(START, horizon({A0: 25, A1: 5})) == 20
