"""What a task of the exactly-once sink decides, given the marker it finds."""

from __future__ import annotations

import pytest

from tidelog.spark.errors import PipelineError
from tidelog.spark.sink_delivery import (
    Marker,
    Step,
    decide,
    marker_group,
    refusal_of_exactly_once,
    transactional_id,
)


def test_ids_are_those_of_a_task_of_a_query() -> None:
    assert transactional_id("app", "q1", 7) == "app-q1-7"
    assert marker_group("app", "q1") == "app-sink-q1"


def test_a_batch_is_written_once_and_skipped_when_run_again() -> None:
    assert decide(None, Marker(0, 4)) is Step.WRITE
    assert decide(Marker(0, 4), Marker(1, 8)) is Step.WRITE
    assert decide(Marker(1, 4), Marker(1, 4)) is Step.SKIP


def test_an_older_driver_is_stopped() -> None:
    with pytest.raises(PipelineError, match="another driver runs this query"):
        decide(Marker(5, 4), Marker(4, 4))


def test_a_batch_that_is_split_otherwise_than_before_is_stopped() -> None:
    with pytest.raises(PipelineError, match="written by 4 tasks and is run again with 8"):
        decide(Marker(5, 4), Marker(5, 8))


def test_a_marker_survives_as_an_offset_and_its_metadata() -> None:
    marker = Marker(12, 4)
    assert Marker.parse(marker.batch_id, marker.metadata) == marker
    with pytest.raises(PipelineError, match="no marker"):
        Marker.parse(12, "")


def test_exactly_once_is_refused_with_the_reason() -> None:
    without = refusal_of_exactly_once("h:1", has_transactions=False)
    assert "the broker at h:1 has no transactions" in str(without)
    having = refusal_of_exactly_once("h:1", has_transactions=True)
    assert "this release does not write transactions yet" in str(having)
