"""Nodes with narrow limits: clients notice at most a reconnection."""

from __future__ import annotations

import asyncio
import time
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from tests.compat.clients import aio, confluent, kafka_python
from tests.compat.clients.everyone import CLIENTS
from tests.compat.clients.message import PATIENCE_S, Client, Deadline, Message
from tests.compat.conftest import create_topic
from tests.support.node_process import RunningNode, StartNode

TOPIC = "narrow"
WRITER = confluent.ConfluentKafka()
LIBRARIES = CLIENTS[:3]


def narrow_node(start_node: StartNode, tmp_path: Path, *settings: str) -> RunningNode:
    arguments = [part for setting in settings for part in ("--set", setting)]
    node = start_node(tmp_path / "data", *arguments)
    create_topic(node.bootstrap, TOPIC, 3, {})
    return node


def write_and_read(node: RunningNode, client: Client, count: int = 300) -> None:
    messages = [Message(b"%d" % number, partition=number % 3) for number in range(count)]
    client.write(node.bootstrap, TOPIC, messages)
    read = client.read(node.bootstrap, TOPIC, count, partitions=(0, 1, 2))
    for partition in range(3):
        mine = [each.value for each in read if each.partition == partition]
        assert mine == [b"%d" % number for number in range(partition, count, 3)]


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
@pytest.mark.parametrize(
    "setting",
    [
        "max.inflight.requests.per.connection=1",
        "max.incremental.fetch.session.cache.slots=0",
        "fetch.max.bytes=1024",
        "segment.bytes=1024",
        "index.interval.bytes=0",
        "flush.policy=os",
    ],
)
def test_a_narrow_limit_changes_nothing_for_a_client(
    start_node: StartNode, tmp_path: Path, client: Client, setting: str
) -> None:
    write_and_read(narrow_node(start_node, tmp_path, setting), client, 30)


def test_consumers_share_too_few_fetch_sessions(start_node: StartNode, tmp_path: Path) -> None:
    """Each takes the session from the other; both begin again and again, and read everything."""
    node = narrow_node(start_node, tmp_path, "max.incremental.fetch.session.cache.slots=1")
    with ExitStack() as stack:
        readers = [
            stack.enter_context(kafka_python.assigned(node.bootstrap, TOPIC, (0, 1, 2)))
            for _ in range(3)
        ]
        for number in range(5):
            messages = [Message(b"%d" % number, partition=each) for each in range(3)]
            WRITER.write(node.bootstrap, TOPIC, messages)
            for reader in readers:
                read = kafka_python.take(reader, 3)
                assert sorted(each.partition for each in read) == [0, 1, 2]
                assert {each.value for each in read} == {b"%d" % number}


def connections_closed_as_idle(node: RunningNode, count: int) -> None:
    deadline = Deadline("the node closing idle connections")
    while node.log.count("idle") < count:
        deadline.check(node.log)
        time.sleep(0.05)


def test_clients_come_back_after_they_were_idle(start_node: StartNode, tmp_path: Path) -> None:
    """Idempotent, both: librdkafka gives up its connection when all of them were lost and looks
    for the cluster anew, and may then have to send again what was written already."""
    node = narrow_node(start_node, tmp_path, "connections.max.idle.ms=1000")
    producer = confluent.make_producer(node.bootstrap, {"enable.idempotence": True})
    written = []
    with closing(kafka_python.make_producer(node.bootstrap)) as python_producer:
        for number in range(2):
            deliveries = confluent.Deliveries()
            confluent.send(producer, TOPIC, Message(b"%d" % number), deliveries)
            assert producer.flush(PATIENCE_S) == 0
            deliveries.expect(1)
            sent = kafka_python.send(python_producer, TOPIC, Message(b"p%d" % number))
            written += [(deliveries.delivered[0].offset, b"%d" % number)]
            written += [(sent.get(PATIENCE_S).offset, b"p%d" % number)]
            connections_closed_as_idle(node, 2 * (number + 1))
    read = WRITER.read(node.bootstrap, TOPIC, 4)
    assert [(each.offset, each.value) for each in read] == written
    assert [offset for offset, _ in written] == [0, 1, 2, 3]


def test_an_idle_aiokafka_producer_comes_back(start_node: StartNode, tmp_path: Path) -> None:
    node = narrow_node(start_node, tmp_path, "connections.max.idle.ms=1000")

    async def run() -> None:
        async with aio.producing(node.bootstrap, {"enable_idempotence": True}) as producer:
            assert (await (await aio.send(producer, TOPIC, Message(b"a")))).offset == 0
            await asyncio.to_thread(connections_closed_as_idle, node, 1)
            assert (await (await aio.send(producer, TOPIC, Message(b"b")))).offset == 1

    asyncio.run(run())


def test_a_client_too_many_is_turned_away_and_served_later(
    start_node: StartNode, tmp_path: Path
) -> None:
    node = narrow_node(start_node, tmp_path, "max.connections=6")
    with ExitStack() as stack:
        for _ in range(6):
            consumer = stack.enter_context(confluent.assigned(node.bootstrap, TOPIC))
            consumer.poll(0.3)
    write_and_read(node, WRITER)


@pytest.mark.parametrize("client", LIBRARIES, ids=lambda client: client.name)
def test_a_message_of_many_megabytes_passes_where_it_is_allowed(
    start_node: StartNode, tmp_path: Path, client: Client
) -> None:
    node = start_node(tmp_path / "data", "--set", "max.message.bytes=60000000")
    value = b"m" * 40_000_000
    options = {
        "confluent-kafka": {"message.max.bytes": 60_000_000},
        "aiokafka": {"max_request_size": 60_000_000, "max_batch_size": 60_000_000},
        "kafka-python": {"max_request_size": 60_000_000},
    }[client.name]
    client.write(node.bootstrap, TOPIC, [Message(value), Message(b"next")], options=options)
    receive = {"receive.message.max.bytes": 110_000_000, "fetch.message.max.bytes": 50_000_000}
    for reader in LIBRARIES:
        reading = receive if reader.name == "confluent-kafka" else {}
        read = reader.read(node.bootstrap, TOPIC, 2, options=reading)
        assert [each.value for each in read] == [value, b"next"], reader.name


def test_a_request_larger_than_the_node_takes_ends_the_connection(
    start_node: StartNode, tmp_path: Path
) -> None:
    """The client sees a lost connection, tries again, and gives up at its own timeout."""
    node = narrow_node(start_node, tmp_path, "socket.request.max.bytes=20000")
    options = {"message.timeout.ms": 1000, "message.max.bytes": 100_000}
    producer = confluent.make_producer(node.bootstrap, options)
    deliveries = confluent.Deliveries()
    confluent.send(producer, TOPIC, Message(b"x" * 50_000), deliveries)
    assert producer.flush(PATIENCE_S) == 0
    assert len(deliveries.errors) == 1
    assert "20000" in node.log
    with closing(kafka_python.make_producer(node.bootstrap)) as other:
        small = kafka_python.send(other, TOPIC, Message(b"small"))
        assert small.get(PATIENCE_S).offset == 0
