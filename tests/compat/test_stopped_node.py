"""SIGTERM with clients connected: a clean end, nothing acknowledged lost, and they come back."""

from __future__ import annotations

import asyncio
from contextlib import closing
from pathlib import Path

import pytest
from tests.compat.clients import aio, confluent, kafka_python
from tests.compat.clients.message import PATIENCE_S, Message
from tests.compat.conftest import create_topic
from tests.support.node_process import RunningNode, StartNode

TOPIC = "kept"
WRITER = confluent.ConfluentKafka()
QUICK = {"reconnect.backoff.ms": 10, "reconnect.backoff.max.ms": 50}
QUICK_PYTHON = {"reconnect_backoff_ms": 10, "reconnect_backoff_max_ms": 50}


@pytest.fixture
def stoppable(start_node: StartNode, tmp_path: Path) -> RunningNode:
    node = start_node(tmp_path / "data")
    create_topic(node.bootstrap, TOPIC, 1, {})
    return node


def stop_and_start(node: RunningNode) -> None:
    assert node.stop() == 0, node.log
    assert "Traceback" not in node.log, node.log
    node.restart()


def test_confluent_kafka_comes_back_after_a_restart(stoppable: RunningNode) -> None:
    producer = confluent.make_producer(stoppable.bootstrap, {"enable.idempotence": True, **QUICK})
    deliveries = confluent.Deliveries()
    with confluent.assigned(stoppable.bootstrap, TOPIC, options=QUICK) as consumer:
        for number in range(3):
            confluent.send(producer, TOPIC, Message(b"%d" % number), deliveries)
            assert producer.flush(PATIENCE_S) == 0
            assert confluent.take(consumer, 1)[0].value == b"%d" % number
            stop_and_start(stoppable)
    assert [each.offset for each in deliveries.delivered] == [0, 1, 2]


def test_kafka_python_comes_back_after_a_restart(stoppable: RunningNode) -> None:
    with (
        closing(kafka_python.make_producer(stoppable.bootstrap, QUICK_PYTHON)) as producer,
        kafka_python.assigned(stoppable.bootstrap, TOPIC, options=QUICK_PYTHON) as consumer,
    ):
        for number in range(3):
            sent = kafka_python.send(producer, TOPIC, Message(b"%d" % number))
            assert sent.get(PATIENCE_S).offset == number
            assert kafka_python.take(consumer, 1)[0].value == b"%d" % number
            stop_and_start(stoppable)


def test_aiokafka_comes_back_after_a_restart(stoppable: RunningNode) -> None:
    async def run() -> None:
        async with (
            aio.producing(stoppable.bootstrap, {"enable_idempotence": True}) as producer,
            aio.assigned(stoppable.bootstrap, TOPIC) as consumer,
        ):
            for number in range(3):
                sent = await aio.send(producer, TOPIC, Message(b"%d" % number))
                assert (await sent).offset == number
                assert (await aio.take(consumer, 1))[0].value == b"%d" % number
                await asyncio.to_thread(stop_and_start, stoppable)

    asyncio.run(run())


def test_a_stop_in_the_middle_of_producing_loses_and_doubles_nothing(
    stoppable: RunningNode,
) -> None:
    count = 3000
    options = {"enable.idempotence": True, "batch.num.messages": 10, "linger.ms": 1, **QUICK}
    producer = confluent.make_producer(stoppable.bootstrap, options)
    deliveries = confluent.Deliveries()
    for number in range(count):
        confluent.send(producer, TOPIC, Message(b"%d" % number), deliveries)
        if number in (1000, 2000):
            stop_and_start(stoppable)
    assert producer.flush(PATIENCE_S) == 0
    deliveries.expect(count)
    read = WRITER.read(stoppable.bootstrap, TOPIC, count)
    assert [each.value for each in read] == [b"%d" % number for number in range(count)]


def test_a_stop_does_not_wait_for_long_polls(stoppable: RunningNode) -> None:
    options = {"fetch.wait.max.ms": 60_000, "socket.timeout.ms": 120_000}
    with confluent.assigned(stoppable.bootstrap, TOPIC, options=options) as consumer:
        assert consumer.poll(0.3) is None
        stop_and_start(stoppable)
        WRITER.write(stoppable.bootstrap, TOPIC, [Message(b"after")])
        assert confluent.take(consumer, 1)[0].value == b"after"
