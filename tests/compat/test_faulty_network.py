"""Connections that break between any two frames, and inside them: nothing lost, nothing doubled.

The proxy cuts about every tenth produce, fetch and InitProducerId, before, in the middle of and
after the frame. What the client never heard of it sends again; the node must tell what it has.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from tests.compat.clients import aio, confluent, kafka_python
from tests.compat.clients.everyone import CLIENTS
from tests.compat.clients.message import PATIENCE_S, Client, Message
from tests.compat.conftest import create_topic
from tests.support.node_process import RunningNode, StartNode
from tests.support.proxy import FETCH, Faults, Proxy, proxied_node

COUNT = 1000
SEEDS = (1, 2)
RATE = 0.1
VALUES = [b"%d" % number for number in range(COUNT)]
TOPIC = "through-faults"


@pytest.fixture
def faulty(start_node: StartNode, tmp_path: Path) -> Iterator[tuple[RunningNode, Proxy]]:
    """A node behind a proxy, with a topic; faults are not switched on yet."""
    with proxied_node(start_node, tmp_path / "data") as (node, proxy):
        create_topic(proxy.bootstrap, TOPIC, 1, {})
        yield node, proxy
        assert "Traceback" not in node.log, node.log


def expect_exactly_once(proxy: Proxy) -> None:
    """In calm weather: the whole topic, and it ends there."""
    proxy.faults = None
    assert sum(proxy.cuts.values()) >= 5, proxy.cuts
    with confluent.assigned(proxy.bootstrap, TOPIC) as consumer:
        assert [each.value for each in confluent.take(consumer, COUNT)] == VALUES
        assert consumer.poll(0.3) is None


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("in_flight", [1, 5])
def test_an_idempotent_confluent_kafka_producer_writes_exactly_once(
    faulty: tuple[RunningNode, Proxy], seed: int, in_flight: int
) -> None:
    _, proxy = faulty
    options = {
        "enable.idempotence": True,
        "max.in.flight": in_flight,
        "batch.num.messages": 10,
        "linger.ms": 1,
        "retry.backoff.ms": 5,
        "reconnect.backoff.ms": 5,
        "reconnect.backoff.max.ms": 20,
    }
    proxy.faults = Faults(seed, RATE)
    producer = confluent.make_producer(proxy.bootstrap, options)
    deliveries = confluent.Deliveries()
    for value in VALUES:
        confluent.send(producer, TOPIC, Message(value), deliveries)
    assert producer.flush(PATIENCE_S) == 0
    deliveries.expect(COUNT)
    assert [each.offset for each in deliveries.delivered] == list(range(COUNT))
    expect_exactly_once(proxy)


@pytest.mark.parametrize("seed", SEEDS)
def test_an_idempotent_kafka_python_producer_writes_exactly_once(
    faulty: tuple[RunningNode, Proxy], seed: int
) -> None:
    _, proxy = faulty
    options = {
        "batch_size": 200,
        "retry_backoff_ms": 5,
        "reconnect_backoff_ms": 5,
        "reconnect_backoff_max_ms": 20,
    }
    proxy.faults = Faults(seed, RATE)
    with closing(kafka_python.make_producer(proxy.bootstrap, options)) as producer:
        futures = [kafka_python.send(producer, TOPIC, Message(value)) for value in VALUES]
        offsets = [future.get(PATIENCE_S).offset for future in futures]
    assert offsets == list(range(COUNT))
    expect_exactly_once(proxy)


@pytest.mark.parametrize("seed", SEEDS)
def test_an_idempotent_aiokafka_producer_writes_exactly_once(
    faulty: tuple[RunningNode, Proxy], seed: int
) -> None:
    _, proxy = faulty
    options = {"enable_idempotence": True, "max_batch_size": 200, "retry_backoff_ms": 5}

    async def run() -> list[int]:
        async with aio.producing(proxy.bootstrap, options) as producer:
            proxy.faults = Faults(seed, RATE)
            futures = [await aio.send(producer, TOPIC, Message(value)) for value in VALUES]
            async with asyncio.timeout(PATIENCE_S):
                return [metadata.offset for metadata in await asyncio.gather(*futures)]

    assert asyncio.run(run()) == list(range(COUNT))
    expect_exactly_once(proxy)


READERS = {
    "confluent-kafka": {
        "max.partition.fetch.bytes": 2000,
        "fetch.error.backoff.ms": 0,
        "reconnect.backoff.ms": 5,
        "reconnect.backoff.max.ms": 20,
    },
    "kafka-python": {
        "max_partition_fetch_bytes": 500,
        "reconnect_backoff_ms": 5,
        "reconnect_backoff_max_ms": 20,
    },
    "aiokafka": {"max_partition_fetch_bytes": 500},
}
"""kcat gives up when its only broker is gone; librdkafka takes a second to come back each time."""


@pytest.mark.parametrize("reader", CLIENTS[:3], ids=lambda client: client.name)
def test_a_consumer_reads_everything_once_and_in_order(
    faulty: tuple[RunningNode, Proxy], reader: Client
) -> None:
    _, proxy = faulty
    messages = [Message(value) for value in VALUES]
    CLIENTS[0].write(proxy.bootstrap, TOPIC, messages, options={"batch.num.messages": 10})
    proxy.faults = Faults(seed=3, rate=0.2, api_keys=(FETCH,))
    read = reader.read(proxy.bootstrap, TOPIC, COUNT, options=READERS[reader.name])
    assert [each.value for each in read] == VALUES
    assert sum(proxy.cuts.values()) >= 3, proxy.cuts


def test_clients_come_back_after_all_connections_are_cut_at_once(
    faulty: tuple[RunningNode, Proxy],
) -> None:
    _, proxy = faulty
    options = {"enable.idempotence": True, "reconnect.backoff.ms": 50}
    producer = confluent.make_producer(proxy.bootstrap, options)
    with confluent.assigned(proxy.bootstrap, TOPIC) as consumer:
        for number in range(5):
            deliveries = confluent.Deliveries()
            confluent.send(producer, TOPIC, Message(b"%d" % number), deliveries)
            assert producer.flush(PATIENCE_S) == 0
            deliveries.expect(1)
            assert confluent.take(consumer, 1)[0].value == b"%d" % number
            proxy.cut_all()
