"""A fetch session costs what has moved, however many partitions it has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.support.call_counts import python_calls_of
from tests.support.node_driver import NodeDriver, batch_of, fetch_request, produce_request

from tidelog.broker.effects import SendResponse
from tidelog.broker.events import ConnectionClosed, FrameReceived
from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
)
from tidelog.wire.requests import encode_request

PARTITIONS = 1000
AS_MUCH = 3
"""A session of a thousand partitions may cost so many times what one of a single partition does."""


class Consumer:
    """In a session of so many partitions of `orders`; it has been told all there is."""

    def __init__(self, driver: NodeDriver, partitions: int) -> None:
        self._driver = driver
        self.connection = driver.connect()
        first = driver.request(
            fetch_request(session_epoch=0, partitions=tuple(range(partitions))),
            version=12,
            connection=self.connection,
        )
        self._session_id, self._epoch = first.session_id, 0
        assert self._session_id > 0
        for _ in range(2):
            self.poll(max_wait_ms=0)

    def ask(self, max_wait_ms: int, *changed: tuple[int, int], **more: Any) -> FetchRequest:
        """The next fetch; `changed` are partitions with their new offsets."""
        self._epoch += 1
        named = [
            FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=1 << 20)
            for partition, offset in changed
        ]
        return FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            session_id=self._session_id,
            session_epoch=self._epoch,
            topics=[FetchTopic(topic="orders", partitions=named)] if named else [],
            **more,
        )

    def poll(self, *changed: tuple[int, int], max_wait_ms: int, **more: Any) -> FetchResponse:
        request = self.ask(max_wait_ms, *changed, **more)
        answer = self._driver.request(request, version=12, connection=self.connection)
        assert isinstance(answer, FetchResponse)
        assert answer.error_code is ErrorCode.NONE
        return answer

    def told(self, *changed: tuple[int, int], **more: Any) -> list[int]:
        """The partitions of the next answer, in its order."""
        answer = self.poll(*changed, max_wait_ms=0, **more)
        return [data.partition_index for topic in answer.responses for data in topic.partitions]

    def leave(self) -> None:
        self._driver.step(ConnectionClosed(self.connection))

    def counted_poll(self, max_wait_ms: int, *changed: tuple[int, int]) -> int:
        """How many functions are entered for it."""
        frame = framed(self.connection, self.ask(max_wait_ms, *changed), 12)
        node, now = self._driver.node, self._driver.now
        return python_calls_of(lambda: (node.step(now, frame), node.next_deadline()))[0]


def framed(connection: Any, request: Any, version: int) -> FrameReceived:
    frame = encode_request(request, version, correlation_id=1, client_id="test")
    return FrameReceived(connection, memoryview(bytearray(frame[4:])))


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> NodeDriver:
    driver = NodeDriver(tmp_path_factory.mktemp("node"), flush_policy="os")
    driver.create_topic("orders", partitions=PARTITIONS)
    driver.node.state.replicas.open_deferred(PARTITIONS)
    driver.advance(10)
    return driver


def counted_wake(driver: NodeDriver, consumer: Consumer, partition: int) -> int:
    """A produce to the partition, which ends the consumer's long poll."""
    consumer.counted_poll(500)
    produce = produce_request("orders", batch_of(b"value"), partition=partition, acks=1)
    frame = framed(driver.connection, produce, 9)
    calls, effects = python_calls_of(lambda: driver.node.step(driver.now, frame))
    answered = [effect.connection for effect in effects if isinstance(effect, SendResponse)]
    assert consumer.connection in answered
    return calls


def end_of(driver: NodeDriver, partition: int) -> int:
    found = driver.node.state.replicas.find("orders", partition)
    assert not isinstance(found, ErrorCode)
    return found.log.log_end_offset


def test_a_produce_that_ends_a_long_poll_looks_at_what_it_has_moved(driver: NodeDriver) -> None:
    costs = []
    for partitions, written in ((1, 0), (PARTITIONS, 500)):
        fill(driver, written)  # the first record of a log costs more
        consumer = Consumer(driver, partitions)
        consumer.told(*((partition, end_of(driver, partition)) for partition in range(partitions)))
        costs.append(counted_wake(driver, consumer, written))
    assert costs[1] <= AS_MUCH * costs[0], costs


def test_a_poll_that_names_one_partition_looks_at_that_one(driver: NodeDriver) -> None:
    costs = []
    for partitions, written in ((1, 0), (PARTITIONS, 501)):
        consumer = Consumer(driver, partitions)
        consumer.told(*((partition, end_of(driver, partition)) for partition in range(partitions)))
        counted_wake(driver, consumer, written)
        costs.append(consumer.counted_poll(500, (written, end_of(driver, written))))
        consumer.leave()
    assert costs[1] <= AS_MUCH * costs[0], costs


@pytest.mark.parametrize("max_wait_ms", [0, 500])
def test_a_poll_when_nothing_has_moved_looks_at_nothing(
    driver: NodeDriver, max_wait_ms: int
) -> None:
    costs = []
    for partitions in (1, PARTITIONS):
        consumer = Consumer(driver, partitions)
        consumer.told(*((partition, end_of(driver, partition)) for partition in range(partitions)))
        consumer.told()
        costs.append(consumer.counted_poll(max_wait_ms))
        consumer.leave()
    assert costs[1] <= AS_MUCH * costs[0], costs


@pytest.fixture
def node(tmp_path: Path) -> NodeDriver:
    driver = NodeDriver(tmp_path)
    driver.create_topic("orders", partitions=3)
    return driver


def fill(node: NodeDriver, partition: int, times: int = 1) -> None:
    for _ in range(times):
        records = batch_of(b"v" * 100)
        node.request(produce_request("orders", records, partition=partition), version=9)


def test_what_did_not_fit_comes_with_the_next_answers_each_in_its_turn(node: NodeDriver) -> None:
    consumer = Consumer(node, 3)
    for partition in (0, 1, 2):
        fill(node, partition)
    only_one = {"max_bytes": 1}
    assert [consumer.told(**only_one) for _ in range(4)] == [[0, 1, 2], [1], [2], [0]]


def test_who_fetches_the_same_offset_again_gets_the_same_records(node: NodeDriver) -> None:
    consumer = Consumer(node, 3)
    fill(node, 1)
    assert [consumer.told(), consumer.told()] == [[1], [1]]
    assert [consumer.told((1, 1)), consumer.told()] == [[], []]


def test_an_error_is_told_again_until_it_is_over(node: NodeDriver) -> None:
    consumer = Consumer(node, 3)
    assert [consumer.told((2, 99)), consumer.told()] == [[2], [2]]
    assert [consumer.told((2, 0)), consumer.told()] == [[2], []]


def test_a_partition_that_is_forgotten_is_not_told_of(node: NodeDriver) -> None:
    consumer = Consumer(node, 3)
    forgotten = [ForgottenTopic(topic="orders", partitions=[1])]
    assert consumer.told(forgotten_topics_data=forgotten) == []
    fill(node, 1)
    fill(node, 2)
    assert consumer.told() == [2]


def test_a_long_poll_of_a_session_that_is_dropped_is_answered_when_something_comes(
    tmp_path: Path,
) -> None:
    node = NodeDriver(tmp_path, max_incremental_fetch_session_cache_slots="1")
    node.create_topic("orders", partitions=3)
    first = Consumer(node, 3)
    number = node.submit(first.ask(60_000), version=12, connection=first.connection)
    Consumer(node, 3)
    assert number not in node.responses
    fill(node, 2)
    answer = node.responses[number]
    assert [data.partition_index for data in answer.responses[0].partitions] == [2]
