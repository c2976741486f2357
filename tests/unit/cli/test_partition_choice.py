"""`TOPIC[:P,...]`: what may be said, and that it is said back the same way."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.cli.partition_choice import numbers_text, parse_choice, places_text, told_once
from tidelog.client.admin import Partition, Topic
from tidelog.client.errors import ClientError
from tidelog.model.ids import TopicPartition

ORDERS = Topic("orders", tuple(Partition(number, 1, (1,), (1,)) for number in range(3)))


@pytest.mark.parametrize(
    ("text", "partitions"),
    [
        ("orders", None),
        ("orders:0", (0,)),
        ("orders:2,0", (2, 0)),
        ("orders:0,2-4", (0, 2, 3, 4)),
        ("orders:1,1,1-2", (1, 2)),
        ("orders: 1, 2", (1, 2)),
    ],
)
def test_a_choice_names_a_topic_and_maybe_partitions(
    text: str, partitions: tuple[int, ...] | None
) -> None:
    assert parse_choice(text) == ("orders", partitions)


@pytest.mark.parametrize(
    "text",
    ["", ":1", "orders:", "orders:x", "orders:-1", "orders:3-1", "orders:1,", "orders:0-9999999"],
)
def test_what_is_no_choice_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match=r"orders:0,2-4: not '"):
        parse_choice(text)


def test_a_choice_without_partitions_is_all_of_them() -> None:
    assert parse_choice("orders").of(ORDERS) == [("orders", 0), ("orders", 1), ("orders", 2)]


def test_a_partition_the_topic_does_not_have_is_refused() -> None:
    with pytest.raises(ClientError, match="no partition 3: it has partitions 0 to 2"):
        parse_choice("orders:1-3").of(ORDERS)


@given(st.sets(st.integers(min_value=0, max_value=30), min_size=1))
def test_partitions_are_written_as_they_are_read(numbers: set[int]) -> None:
    assert parse_choice(f"orders:{numbers_text(numbers)}").partitions == tuple(sorted(numbers))


def test_partitions_of_several_topics_stand_by_topic() -> None:
    places = [TopicPartition("b", 0), *(TopicPartition("a", number) for number in (5, 0, 1))]
    assert places_text(places) == "a:0-1,5 b:0"
    assert places_text([]) == ""


def test_a_topic_is_named_once_in_a_table() -> None:
    places = [TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)]
    assert told_once(places) == [("a", 0), ("", 1), ("b", 0)]
