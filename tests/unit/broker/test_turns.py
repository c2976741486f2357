"""Several events in one turn: what each leads to at once, and what they lead to together."""

from __future__ import annotations

from pathlib import Path

from tests.support.node_driver import NodeDriver, batch_of, fetch_request, produce_request

from tidelog.broker.effects import Effect, SendResponse, StartFlush
from tidelog.broker.events import ConnectionClosed, FlushDone, FrameReceived
from tidelog.log.disk import DiskError
from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tidelog.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tidelog.wire.requests import decode_response, encode_request

PRODUCE, FETCH, METADATA, CREATE_TOPICS = 9, 12, 9, 7


class Turn:
    """Requests that are received in one turn, with correlation ids from 1."""

    def __init__(self, driver: NodeDriver) -> None:
        self._driver = driver
        self._now = driver.now
        self._received = 0
        self.effects: list[Effect] = []

    def receive(self, request: object, version: int) -> list[Effect]:
        """What leaves at once. The memory of the frame is another's then."""
        self._received += 1
        frame = encode_request(request, version, correlation_id=self._received, client_id="test")
        memory = memoryview(bytearray(frame[4:]))
        event = FrameReceived(self._driver.connection, memory)
        effects = self._driver.node.receive(self._now, event)
        memory[:] = bytes(len(memory))
        return effects

    def flushed(self, flush: StartFlush, error: DiskError | None = None) -> list[Effect]:
        if error is None:
            for target in flush.targets:
                target.sync()
        return self._driver.node.receive(self._now, FlushDone(flush.round, error))

    def settle(self) -> list[Effect]:
        effects = self._driver.node.settle(self._now)
        self._driver.node.validate()
        return effects


def answers(effects: list[Effect]) -> list[int]:
    """Correlation ids of the responses, in their order."""
    return [
        int.from_bytes(bytes(effect.parts[0])[4:8], "big")  # type: ignore[arg-type]
        for effect in effects
        if isinstance(effect, SendResponse)
    ]


def flushes(effects: list[Effect]) -> list[StartFlush]:
    return [effect for effect in effects if isinstance(effect, StartFlush)]


def driver_with_topic(path: Path, **settings: str) -> NodeDriver:
    driver = NodeDriver(path, None, **settings)
    driver.create_topic("orders")
    return driver


def test_the_writes_of_a_turn_share_one_flush(tmp_path: Path) -> None:
    driver = driver_with_topic(tmp_path)
    turn = Turn(driver)
    for value in (b"one", b"two", b"three"):
        request = produce_request("orders", batch_of(value))
        assert not flushes(turn.receive(request, PRODUCE))
    started = flushes(turn.settle())
    assert len(started) == 1
    turn.flushed(started[0])
    assert answers(turn.settle()) == [1, 2, 3]


def test_what_needs_no_flush_is_answered_before_the_turn_ends(tmp_path: Path) -> None:
    driver = driver_with_topic(tmp_path, flush_policy="os")
    turn = Turn(driver)
    request = produce_request("orders", batch_of(b"value"))
    assert answers(turn.receive(request, PRODUCE)) == [1]
    assert answers(turn.receive(request, PRODUCE)) == [2]
    assert answers(turn.settle()) == []


def test_a_long_poll_is_woken_by_a_write_of_its_own_turn(tmp_path: Path) -> None:
    driver = driver_with_topic(tmp_path, flush_policy="os")
    turn = Turn(driver)
    assert turn.receive(fetch_request(max_wait_ms=10_000), FETCH) == []
    assert turn.receive(produce_request("orders", batch_of(b"value")), PRODUCE) == []
    assert answers(turn.settle()) == [1, 2]


def test_a_read_in_the_turn_of_a_write_before_it_waits_for_its_flush(tmp_path: Path) -> None:
    driver = driver_with_topic(tmp_path)
    turn = Turn(driver)
    turn.receive(produce_request("orders", batch_of(b"value")), PRODUCE)
    turn.receive(fetch_request(), FETCH)
    (flush,) = flushes(turn.settle())
    turn.flushed(flush)
    effects = turn.settle()
    assert answers(effects) == [1, 2]


def test_a_topic_is_there_for_a_request_in_the_turn_of_its_flush(tmp_path: Path) -> None:
    driver = NodeDriver(tmp_path, None)
    turn = Turn(driver)
    topic = CreatableTopic(name="orders", num_partitions=1, replication_factor=1)
    turn.receive(CreateTopicsRequest(topics=[topic]), CREATE_TOPICS)
    (flush,) = flushes(turn.settle())
    turn.flushed(flush)
    asked = MetadataRequest(topics=[MetadataRequestTopic(name="orders")])
    other = driver.connect()
    frame = encode_request(asked, METADATA, correlation_id=9, client_id="test")
    effects = driver.node.receive(turn._now, FrameReceived(other, memoryview(frame)[4:]))
    (response,) = [effect for effect in effects if isinstance(effect, SendResponse)]
    data = b"".join(bytes(part) for part in response.parts)  # type: ignore[arg-type]
    _, metadata = decode_response(3, METADATA, memoryview(data)[4:])
    assert metadata.topics[0].error_code is ErrorCode.NONE
    turn.settle()


def test_nothing_is_acknowledged_in_the_turn_of_a_failed_flush(tmp_path: Path) -> None:
    driver = driver_with_topic(tmp_path)
    turn = Turn(driver)
    turn.receive(produce_request("orders", batch_of(b"one")), PRODUCE)
    (flush,) = flushes(turn.settle())
    turn.flushed(flush, DiskError("it failed"))
    effects = turn.receive(produce_request("orders", batch_of(b"two")), PRODUCE)
    effects += turn.settle()
    assert not flushes(effects)
    for effect in effects:
        if isinstance(effect, SendResponse):
            data = b"".join(bytes(part) for part in effect.parts)  # type: ignore[arg-type]
            _, response = decode_response(0, PRODUCE, memoryview(data)[4:])
            (answer,) = response.responses[0].partition_responses
            assert answer.error_code is ErrorCode.KAFKA_STORAGE_ERROR
    assert answers(effects) == [1, 2]


def test_a_connection_may_end_in_the_turn_of_its_request(tmp_path: Path) -> None:
    driver = driver_with_topic(tmp_path)
    turn = Turn(driver)
    turn.receive(produce_request("orders", batch_of(b"value")), PRODUCE)
    driver.node.receive(turn._now, ConnectionClosed(driver.connection))
    (flush,) = flushes(turn.settle())
    turn.flushed(flush)
    assert answers(turn.settle()) == []
