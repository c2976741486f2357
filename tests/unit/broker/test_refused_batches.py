"""What comes before its partition is known is remembered until there is a log it is owed to."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.node_driver import NodeDriver, batch_of, produce_request

from tidelog.broker.refused_batches import (
    MOST_PLACES,
    MOST_PRODUCERS,
    Place,
    Refused,
    RefusedBatches,
)
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NO_TOPIC_ID
from tidelog.wire.batch import read_header

UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.fixture
def node(tmp_path: Path) -> NodeDriver:
    return NodeDriver(tmp_path)


def send(node: NodeDriver, sequence: int, *, pid: int = 7) -> ErrorCode:
    batch = batch_of(b"a", producer_id=pid, producer_epoch=0, base_sequence=sequence)
    response = node.request(produce_request("orders", batch), version=9)
    error: ErrorCode = response.responses[0].partition_responses[0].error_code
    return error


def refused(pid: int, sequence: int = 0, *, epoch: int = 0) -> Refused:
    batch = batch_of(b"a", producer_id=pid, producer_epoch=epoch, base_sequence=sequence)
    return Refused(read_header(memoryview(batch)), 1_000, UNKNOWN)


def place(name: str = "orders", partition: int = 0) -> Place:
    return name, NO_TOPIC_ID, partition


def test_what_follows_a_batch_that_came_too_early_waits_for_it(node: NodeDriver) -> None:
    assert [send(node, 0), send(node, 1)] == [UNKNOWN, UNKNOWN]
    node.create_topic("orders")
    assert [send(node, 2), send(node, 1)] == [UNKNOWN, UNKNOWN]
    assert [send(node, sequence) for sequence in range(3)] == [ErrorCode.NONE] * 3


def test_whoever_was_not_refused_waits_for_nothing(node: NodeDriver) -> None:
    assert send(node, 0, pid=8) is UNKNOWN
    node.create_topic("orders")
    assert send(node, 5) is ErrorCode.NONE


def test_batches_without_a_producer_are_not_remembered(node: NodeDriver) -> None:
    assert node.produce("orders", b"x").error_code is UNKNOWN
    assert not node.node.state.refused_batches


def test_the_first_of_each_producer_and_epoch_counts() -> None:
    batches = RefusedBatches()
    for batch in (refused(1, 3), refused(1, 4), refused(2, 0), refused(2, 0, epoch=1)):
        batches.note(place(), batch)
    batches.note(place(partition=1), refused(3))
    taken = [(each.header.producer_id, each.header.base_sequence) for each in batches.take(place())]
    assert taken == [(1, 3), (2, 0)]
    assert batches.take(place()) == []
    assert batches


def test_the_oldest_are_forgotten() -> None:
    batches = RefusedBatches()
    for pid in range(MOST_PRODUCERS + 1):
        batches.note(place(), refused(pid))
    for number in range(1, MOST_PLACES):
        batches.note(place(partition=number), refused(1))
    assert [each.header.producer_id for each in batches.take(place())][:2] == [1, 2]
    for number in range(MOST_PLACES + 1):
        batches.note(place("others", number), refused(1))
    assert batches.take(place(partition=1)) == []
