"""A stream's offsets as JSON, and the ranges between two of them."""

from __future__ import annotations

import json

import pytest

from tidelog.model.ids import TopicPartition
from tidelog.spark.errors import PipelineError
from tidelog.spark.offsets import StreamOffsets, ranges_between
from tidelog.spark.planner import OffsetRange

A0, A2, A10, B0 = (
    TopicPartition("a", 0),
    TopicPartition("a", 2),
    TopicPartition("a", 10),
    TopicPartition("b", 0),
)


def test_keys_stand_in_canonical_order_whatever_the_order_of_the_dict() -> None:
    one = StreamOffsets({B0: 1, A10: 2, A2: 3, A0: 4}, {"b": "id-b", "a": "id-a"})
    other = StreamOffsets({A0: 4, A2: 3, A10: 2, B0: 1}, {"a": "id-a", "b": "id-b"})
    text = json.dumps(one.to_json())
    assert text == json.dumps(other.to_json())
    assert text == (
        '{"a": {"id": "id-a", "next": {"0": 4, "2": 3, "10": 2}}, '
        '"b": {"id": "id-b", "next": {"0": 1}}}'
    )


def test_json_and_back_is_the_same_offset() -> None:
    offsets = StreamOffsets({A0: 4, B0: 1}, {"a": "id-a", "b": ""}, {B0: 0})
    assert StreamOffsets.from_json(json.loads(json.dumps(offsets.to_json()))) == offsets


@pytest.mark.parametrize("document", [{"a": 5}, {"a": {"next": {"zero": 1}}}, {"a": {"next": [1]}}])
def test_a_foreign_offset_is_refused_in_words(document: dict[str, object]) -> None:
    with pytest.raises(PipelineError, match="has not written"):
        StreamOffsets.from_json(document)


def test_a_partition_that_is_new_begins_where_the_end_says() -> None:
    start = StreamOffsets({A0: 4}, {"a": "1"})
    end = StreamOffsets({A0: 9, A2: 7}, {"a": "1"}, {A2: 5})
    assert ranges_between(start, end) == [OffsetRange("a", 0, 4, 9), OffsetRange("a", 2, 5, 7)]


def test_a_topic_created_again_begins_anew_under_its_name() -> None:
    start = StreamOffsets({A0: 400}, {"a": "1"})
    end = StreamOffsets({A0: 9}, {"a": "2"}, {A0: 0})
    assert ranges_between(start, end) == [OffsetRange("a", 0, 0, 9)]
    assert not start.is_same_topic(end, "a")


def test_brokers_without_topic_ids_are_taken_at_the_name() -> None:
    assert StreamOffsets({}, {"a": ""}).is_same_topic(StreamOffsets({}, {"a": "2"}), "a")
