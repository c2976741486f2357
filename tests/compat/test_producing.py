"""Writing in unusual ways: every acks, tiny batches, one or many requests in flight, crowds."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import KafkaError
from tests.compat.clients import aio, confluent, kafka_python
from tests.compat.clients.confluent import ConfluentKafka
from tests.compat.clients.everyone import CLIENTS
from tests.compat.clients.message import PATIENCE_S, Client, Message
from tests.compat.conftest import MakeTopic

READER = ConfluentKafka()
COUNT = 300

ODD_LIBRDKAFKA: list[dict[str, Any]] = [
    {"linger.ms": 0},
    {"linger.ms": 0, "batch.num.messages": 1},
    {"linger.ms": 20, "batch.size": 1},
    {"linger.ms": 50, "batch.num.messages": 100_000, "batch.size": 1_000_000},
    {"max.in.flight": 1},
    {"max.in.flight": 1, "enable.idempotence": True},
    {"max.in.flight": 5, "enable.idempotence": True, "batch.num.messages": 3, "linger.ms": 0},
    {"max.in.flight": 1000, "batch.num.messages": 1, "linger.ms": 0},
    {"queue.buffering.max.messages": 10},
    {"acks": 1},
    {"acks": 1, "request.timeout.ms": 1000},
    {"acks": 0},
    {"acks": 0, "batch.num.messages": 1, "linger.ms": 0},
    {"enable.idempotence": True, "enable.gapless.guarantee": True},
    {"socket.nagle.disable": False},
    {"socket.send.buffer.bytes": 2048, "socket.receive.buffer.bytes": 2048},
    {"sticky.partitioning.linger.ms": 0},
    {"api.version.request": False, "broker.version.fallback": "0.11.0.0"},
]

ODD_PYTHON: list[dict[str, Any]] = [
    {"linger_ms": 0},
    {"acks": 0, "enable_idempotence": False},
    {"acks": 1, "enable_idempotence": False},
    {"acks": "all", "enable_idempotence": False},
    {"enable_idempotence": True},
]

ODD_KAFKA_PYTHON: list[dict[str, Any]] = [
    *ODD_PYTHON,
    {"batch_size": 0},
    {"batch_size": 1_000_000, "linger_ms": 50},
    {"max_in_flight_requests_per_connection": 1},
    {"max_in_flight_requests_per_connection": 5, "batch_size": 50},
    {"max_in_flight_requests_per_connection": 100, "enable_idempotence": False, "batch_size": 1},
    {"send_buffer_bytes": 2048, "receive_buffer_bytes": 2048},
]


def named(options: Mapping[str, Any]) -> str:
    return "-".join(f"{name}={value}" for name, value in options.items())


def write_and_read(
    bootstrap: str, topic: str, writer: Client, options: Mapping[str, Any] | None = None
) -> None:
    """All that was written is there, once, in order, whatever the settings."""
    values = [b"%d" % number for number in range(COUNT)]
    writer.write(bootstrap, topic, [Message(value) for value in values], options=options)
    assert [each.value for each in READER.read(bootstrap, topic, COUNT)] == values
    with confluent.assigned(bootstrap, topic, offset=COUNT) as consumer:
        assert consumer.poll(0.1) is None


@pytest.mark.parametrize("options", ODD_LIBRDKAFKA, ids=named)
def test_confluent_kafka_with_odd_settings(
    bootstrap: str, topic: str, options: dict[str, Any]
) -> None:
    write_and_read(bootstrap, topic, ConfluentKafka(), options)


@pytest.mark.parametrize("options", ODD_KAFKA_PYTHON, ids=named)
def test_kafka_python_with_odd_settings(
    bootstrap: str, topic: str, options: dict[str, Any]
) -> None:
    write_and_read(bootstrap, topic, CLIENTS[2], options)


@pytest.mark.parametrize(
    "options",
    [*ODD_PYTHON, {"max_batch_size": 1}, {"max_batch_size": 1_000_000, "linger_ms": 50}],
    ids=named,
)
def test_aiokafka_with_odd_settings(bootstrap: str, topic: str, options: dict[str, Any]) -> None:
    write_and_read(bootstrap, topic, CLIENTS[1], options)


@pytest.mark.parametrize("options", [{"acks": 0}, {"acks": 1}, {"acks": -1}], ids=named)
def test_kcat_with_every_acks(bootstrap: str, topic: str, options: dict[str, Any]) -> None:
    write_and_read(bootstrap, topic, CLIENTS[3], {"topic.acks": options["acks"]})


def test_one_producer_writes_to_many_partitions_and_topics(
    bootstrap: str, make_topic: MakeTopic
) -> None:
    topics = [make_topic(20) for _ in range(5)]
    producer = confluent.make_producer(bootstrap, {"enable.idempotence": True})
    deliveries = confluent.Deliveries()
    for number in range(10):
        for topic in topics:
            for partition in range(20):
                message = Message(b"%d" % number, partition=partition)
                confluent.send(producer, topic, message, deliveries)
    assert producer.flush(PATIENCE_S) == 0
    deliveries.expect(1000)
    for topic in topics:
        read = READER.read(bootstrap, topic, 200, partitions=range(20))
        for partition in range(20):
            mine = [each.value for each in read if each.partition == partition]
            assert mine == [b"%d" % number for number in range(10)]


def test_a_producer_that_is_dropped_without_a_flush_leaves_a_prefix(
    bootstrap: str, topic: str
) -> None:
    producer = confluent.make_producer(bootstrap, {"linger.ms": 0, "batch.num.messages": 10})
    deliveries = confluent.Deliveries()
    for number in range(1000):
        confluent.send(producer, topic, Message(b"%d" % number), deliveries)
    producer.poll(0.05)
    seen = len(deliveries.delivered)
    del producer
    read = READER.read(bootstrap, topic, seen)
    assert [each.value for each in read] == [b"%d" % number for number in range(seen)]


def test_a_batch_larger_than_the_topic_takes_is_split_by_those_who_can(
    bootstrap: str, make_topic: MakeTopic
) -> None:
    """kafka-python does, as the Java client. (Its `flush` trips over the parts.)"""
    topic = make_topic(max_message_bytes="5000")
    with closing(
        kafka_python.make_producer(bootstrap, {"linger_ms": 200, "batch_size": 16_000})
    ) as producer:
        futures = [producer.send(topic, b"%d" % n + b"." * 500, partition=0) for n in range(25)]
        offsets = [future.get(PATIENCE_S).offset for future in futures]
    assert offsets == list(range(25))
    read = READER.read(bootstrap, topic, 25)
    assert [(each.value or b"").partition(b".")[0] for each in read] == [
        b"%d" % number for number in range(25)
    ]


def test_a_partition_that_does_not_exist_is_an_error_at_once(bootstrap: str, topic: str) -> None:
    producer = confluent.make_producer(bootstrap)
    deliveries = confluent.Deliveries()
    confluent.send(producer, topic, Message(b"v", partition=5), deliveries)
    assert producer.flush(PATIENCE_S) == 0
    assert [each.code() for each in deliveries.errors] == [KafkaError._UNKNOWN_PARTITION]
    with (
        closing(kafka_python.make_producer(bootstrap)) as other,
        pytest.raises(ValueError, match="Unrecognized partition"),
    ):
        other.send(topic, b"v", partition=5).get(PATIENCE_S)


@pytest.mark.parametrize("is_idempotent", [True, False], ids=["idempotent", "plain"])
def test_a_crowd_of_producers_writes_to_one_partition(
    bootstrap: str, topic: str, is_idempotent: bool
) -> None:
    def write(number: int) -> None:
        writer = CLIENTS[number % 3]
        name = "enable.idempotence" if number % 3 == 0 else "enable_idempotence"
        messages = [Message(b"%d-%d" % (number, n)) for n in range(30)]
        writer.write(bootstrap, topic, messages, options={name: is_idempotent})

    with ThreadPoolExecutor(30) as pool:
        list(pool.map(write, range(30)))
    values = [each.value or b"" for each in READER.read(bootstrap, topic, 900)]
    for number in range(30):
        mine = [value for value in values if value.startswith(b"%d-" % number)]
        assert mine == [b"%d-%d" % (number, n) for n in range(30)]


def test_an_aiokafka_batch_made_by_hand_arrives_whole(bootstrap: str, topic: str) -> None:
    async def run() -> int:
        async with aio.producing(bootstrap) as producer:
            batch = producer.create_batch()
            for number in range(10):
                assert batch.append(key=None, value=b"%d" % number, timestamp=None) is not None
            batch.close()
            metadata = await (await producer.send_batch(batch, topic, partition=0))
            return int(metadata.offset)

    assert asyncio.run(run()) == 0
    assert [each.value for each in READER.read(bootstrap, topic, 10)] == [
        b"%d" % number for number in range(10)
    ]


@pytest.mark.parametrize("is_idempotent", [False, True])
def test_librdkafka_hears_which_records_of_a_batch_were_refused(
    bootstrap: str, make_topic: MakeTopic, is_idempotent: bool
) -> None:
    """It tells them from the others where they are two or more.

    The four are one batch however slow the machine is: they linger until `flush` sends them.
    """
    topic = make_topic(cleanup_policy="compact")
    said: dict[str, int] = {}
    options = {"linger.ms": 60_000, "enable.idempotence": is_idempotent}
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, **options})
    for number, key in enumerate((b"a", None, b"b", None)):

        def heard(error: KafkaError | None, message: confluent_kafka.Message) -> None:
            assert error is not None
            said[(message.value() or b"").decode()] = error.code()

        producer.produce(topic, key=key, value=f"{number}", partition=0, on_delivery=heard)
    assert producer.flush(PATIENCE_S) == 0
    others, those = KafkaError._INVALID_DIFFERENT_RECORD, KafkaError.INVALID_RECORD
    assert said == {"0": others, "1": those, "2": others, "3": those}
