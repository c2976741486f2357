"""kill -9 in the middle of everything, and a restart on the same data and port.

The node's process dies, not the machine: what `fsync` promises is tested by the simulator. Here the
question is whether clients and node agree afterwards on what was written.
"""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from tests.compat.clients import aio, confluent, kafka_python
from tests.compat.clients.message import PATIENCE_S, Deadline, Message
from tests.compat.conftest import create_topic
from tests.support.node_process import RunningNode, StartNode

TOPIC = "survivor"
KILLS = 3
BETWEEN_KILLS = 300
"""Messages acknowledged before the node is killed again."""
WINDOW = 200
"""Messages that a producer may have under way, so that it outlasts the kills."""


@pytest.fixture
def mortal(start_node: StartNode, tmp_path: Path) -> RunningNode:
    node = start_node(tmp_path / "data")
    create_topic(node.bootstrap, TOPIC, 1, {})
    return node


class Killer:
    """Kills and restarts the node each time so many more messages are acknowledged."""

    def __init__(self, node: RunningNode, acknowledged: Callable[[], int]) -> None:
        self._node = node
        self._acknowledged = acknowledged
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._kills = 0

    def __enter__(self) -> Killer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def numbers(self) -> Iterator[int]:
        """One message after another, until the last kill and some more."""
        deadline = Deadline(f"a producer through {KILLS} kills")
        for number in itertools.count():
            if self._kills == KILLS and self._acknowledged() > (KILLS + 1) * BETWEEN_KILLS:
                return
            deadline.check(f"after {self._acknowledged()} acknowledged and {self._kills} kills")
            yield number

    def _run(self) -> None:
        while self._kills < KILLS and not self._is_over.wait(0.001):
            if self._acknowledged() > (self._kills + 1) * BETWEEN_KILLS:
                self._node.kill()
                self._node.restart()
                self._kills += 1


def read_all(node: RunningNode) -> list[Message]:
    """Everything in the partition, by a client that asks for the end first."""
    with confluent.assigned(node.bootstrap, TOPIC) as consumer:
        place = TopicPartition(TOPIC, 0)
        _, end = consumer.get_watermark_offsets(place, timeout=PATIENCE_S)
        return confluent.take(consumer, end)


def expect_exactly_once(node: RunningNode, offsets: list[int]) -> None:
    messages = read_all(node)
    assert [each.value for each in messages] == [b"%d" % number for number in range(len(offsets))]
    assert offsets == list(range(len(messages)))
    assert "Traceback" not in node.log, node.log


QUICK = {"retry.backoff.ms": 10, "reconnect.backoff.ms": 10, "reconnect.backoff.max.ms": 50}
QUICK_PYTHON = {
    "retry_backoff_ms": 10,
    "reconnect_backoff_ms": 10,
    "reconnect_backoff_max_ms": 50,
}


def write_with_confluent_kafka(node: RunningNode, options: dict[str, Any]) -> confluent.Deliveries:
    small = {"batch.num.messages": 20, "linger.ms": 1}
    producer = confluent.make_producer(node.bootstrap, {**small, **QUICK, **options})
    deliveries = confluent.Deliveries()
    sent = 0
    with Killer(node, lambda: len(deliveries.delivered)) as killer:
        for _ in killer.numbers():
            if sent - len(deliveries.delivered) - len(deliveries.errors) > WINDOW:
                producer.poll(0.01)
                continue
            confluent.send(producer, TOPIC, Message(b"%d" % sent), deliveries)
            sent += 1
        assert producer.flush(PATIENCE_S) == 0
    assert len(deliveries.delivered) + len(deliveries.errors) == sent
    return deliveries


def write_with_aiokafka(node: RunningNode, options: dict[str, Any]) -> list[int]:
    """The offsets of the messages, in their order."""
    offsets: list[int] = []

    async def run() -> None:
        small = {"max_batch_size": 300, "retry_backoff_ms": 10}
        under_way: deque[asyncio.Future[Any]] = deque()
        async with aio.producing(node.bootstrap, {**small, **options}) as producer:
            with Killer(node, lambda: len(offsets)) as killer:
                for number in killer.numbers():
                    under_way.append(await aio.send(producer, TOPIC, Message(b"%d" % number)))
                    if len(under_way) > WINDOW:
                        offsets.append((await under_way.popleft()).offset)
            offsets.extend([(await each).offset for each in under_way])

    asyncio.run(run())
    return offsets


@pytest.mark.parametrize("policy", ["ack", "os"])
def test_an_idempotent_confluent_kafka_producer_writes_exactly_once(
    start_node: StartNode, tmp_path: Path, policy: str
) -> None:
    node = start_node(tmp_path / "data", "--set", f"flush.policy={policy}")
    create_topic(node.bootstrap, TOPIC, 1, {})
    deliveries = write_with_confluent_kafka(node, {"enable.idempotence": True})
    assert deliveries.errors == []
    expect_exactly_once(node, [each.offset for each in deliveries.delivered])


def test_an_idempotent_kafka_python_producer_writes_exactly_once(mortal: RunningNode) -> None:
    options = {"batch_size": 300, **QUICK_PYTHON}
    offsets: list[int] = []
    under_way: deque[Any] = deque()
    with (
        closing(kafka_python.make_producer(mortal.bootstrap, options)) as producer,
        Killer(mortal, lambda: len(offsets)) as killer,
    ):
        for number in killer.numbers():
            under_way.append(kafka_python.send(producer, TOPIC, Message(b"%d" % number)))
            if len(under_way) > WINDOW:
                offsets.append(under_way.popleft().get(PATIENCE_S).offset)
        offsets.extend([each.get(PATIENCE_S).offset for each in under_way])
    expect_exactly_once(mortal, offsets)


def test_an_idempotent_aiokafka_producer_writes_exactly_once(mortal: RunningNode) -> None:
    offsets = write_with_aiokafka(mortal, {"enable_idempotence": True})
    expect_exactly_once(mortal, offsets)


# --- without idempotence: repeats are allowed, losses are not -----------------------------------


def expect_nothing_lost(node: RunningNode, acknowledged: dict[bytes, int]) -> None:
    there = {each.offset: each.value for each in read_all(node)}
    lost = {value: offset for value, offset in acknowledged.items() if there[offset] != value}
    assert lost == {}
    assert "Traceback" not in node.log, node.log


@pytest.mark.parametrize("acks", ["1", "all"])
def test_what_a_plain_confluent_kafka_producer_was_told_is_there(
    mortal: RunningNode, acks: str
) -> None:
    deliveries = write_with_confluent_kafka(mortal, {"acks": acks})
    told = {each.value: each.offset for each in deliveries.delivered if each.value is not None}
    expect_nothing_lost(mortal, told)


def test_what_a_plain_aiokafka_producer_was_told_is_there(mortal: RunningNode) -> None:
    offsets = write_with_aiokafka(mortal, {"acks": 1})
    expect_nothing_lost(mortal, {b"%d" % number: each for number, each in enumerate(offsets)})


# --- readers ------------------------------------------------------------------------------------


def test_a_confluent_kafka_consumer_goes_on_where_it_was(mortal: RunningNode) -> None:
    """A restart after a crash is a new leader epoch: the client validates its position first."""
    writer = confluent.ConfluentKafka()
    with confluent.assigned(mortal.bootstrap, TOPIC, options=QUICK_READER) as consumer:
        for number in range(KILLS):
            batch = [b"%d-%d" % (number, each) for each in range(50)]
            writer.write(mortal.bootstrap, TOPIC, [Message(value) for value in batch])
            assert [each.value for each in confluent.take(consumer, 50)] == batch
            mortal.kill()
            mortal.restart()


QUICK_READER = {
    "reconnect.backoff.ms": 10,
    "reconnect.backoff.max.ms": 50,
    "fetch.error.backoff.ms": 10,
}


def test_a_kafka_python_consumer_goes_on_where_it_was(mortal: RunningNode) -> None:
    writer = confluent.ConfluentKafka()
    options = {"reconnect_backoff_ms": 10, "reconnect_backoff_max_ms": 50}
    with kafka_python.assigned(mortal.bootstrap, TOPIC, options=options) as consumer:
        for number in range(KILLS):
            batch = [b"%d-%d" % (number, each) for each in range(50)]
            writer.write(mortal.bootstrap, TOPIC, [Message(value) for value in batch])
            assert [each.value for each in kafka_python.take(consumer, 50)] == batch
            mortal.kill()
            mortal.restart()


def test_an_aiokafka_consumer_goes_on_where_it_was(mortal: RunningNode) -> None:
    writer = confluent.ConfluentKafka()

    async def run() -> None:
        async with aio.assigned(mortal.bootstrap, TOPIC) as consumer:
            for number in range(KILLS):
                batch = [b"%d-%d" % (number, each) for each in range(50)]
                messages = [Message(value) for value in batch]
                await asyncio.to_thread(writer.write, mortal.bootstrap, TOPIC, messages)
                assert [each.value for each in await aio.take(consumer, 50)] == batch
                mortal.kill()
                await asyncio.to_thread(mortal.restart)

    asyncio.run(run())
