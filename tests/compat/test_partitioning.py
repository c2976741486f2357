"""Where a key's messages go: one partition, in order; the same for all who hash as Kafka does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from tests.compat.clients import aio, confluent, kafka_python
from tests.compat.clients.kcat import kcat
from tests.compat.clients.message import PATIENCE_S, Message
from tests.compat.conftest import MakeTopic

PARTITIONS = 7
KEYS = [b"key-%d" % number for number in range(40)] + [b"", b"\xff\x00", "größe".encode()]
READER = confluent.ConfluentKafka()

Places = dict[bytes, int]


def confluent_places(bootstrap: str, topic: str, **options: object) -> Places:
    producer = confluent.make_producer(bootstrap, options)
    deliveries = confluent.Deliveries()
    for key in KEYS:
        producer.produce(topic, key=key, value=key, on_delivery=deliveries)
    assert producer.flush(PATIENCE_S) == 0
    deliveries.expect(len(KEYS))
    return {each.key: each.partition for each in deliveries.delivered if each.key is not None}


def murmur2_places(bootstrap: str, topic: str) -> Places:
    return confluent_places(bootstrap, topic, partitioner="murmur2_random")


def kafka_python_places(bootstrap: str, topic: str) -> Places:
    producer = kafka_python.make_producer(bootstrap)
    futures = {key: producer.send(topic, key=key, value=key) for key in KEYS}
    places = {key: future.get(PATIENCE_S).partition for key, future in futures.items()}
    producer.close()
    return places


def aiokafka_places(bootstrap: str, topic: str) -> Places:
    async def run() -> Places:
        async with aio.producing(bootstrap) as producer:
            sent = {key: await producer.send_and_wait(topic, key=key, value=key) for key in KEYS}
            return {key: metadata.partition for key, metadata in sent.items()}

    return asyncio.run(run())


def kcat_places(bootstrap: str, topic: str) -> Places:
    given = b"\x1e".join(key + b"\x1f" + key for key in KEYS if key)
    delimiters = ["-K", "\\x1f", "-D", "\\x1e"]
    murmur2 = ["-X", "topic.partitioner=murmur2_random"]
    kcat(bootstrap, "-P", "-t", topic, *delimiters, *murmur2, given=given)
    count = len([key for key in KEYS if key])
    read = READER.read(bootstrap, topic, count, partitions=range(PARTITIONS))
    return {each.key: each.partition for each in read if each.key is not None}


@pytest.mark.parametrize(
    "places_of",
    [murmur2_places, aiokafka_places, kcat_places],
    ids=["confluent-kafka", "aiokafka", "kcat"],
)
def test_a_key_lands_where_kafka_python_puts_it(
    bootstrap: str, make_topic: MakeTopic, places_of: Callable[[str, str], Places]
) -> None:
    expected = kafka_python_places(bootstrap, make_topic(PARTITIONS))
    places = places_of(bootstrap, make_topic(PARTITIONS))
    assert places == {key: expected[key] for key in places}
    assert len(places) >= len(KEYS) - 1
    assert len(set(expected.values())) == PARTITIONS


def test_the_default_of_librdkafka_is_another_hash(bootstrap: str, make_topic: MakeTopic) -> None:
    """CRC-32: whoever mixes clients and relies on co-partitioning must set the partitioner."""
    own = confluent_places(bootstrap, make_topic(PARTITIONS))
    assert own != murmur2_places(bootstrap, make_topic(PARTITIONS))


def test_messages_of_a_key_keep_their_order(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic(PARTITIONS)
    producer = confluent.make_producer(bootstrap, {"linger.ms": 0})
    for number in range(500):
        producer.produce(topic, key=b"key-%d" % (number % 20), value=b"%d" % number)
        producer.poll(0)
    assert producer.flush(PATIENCE_S) == 0
    read = READER.read(bootstrap, topic, 500, partitions=range(PARTITIONS))
    for key in range(20):
        mine = [each for each in read if each.key == b"key-%d" % key]
        assert len({each.partition for each in mine}) == 1
        assert [each.value for each in mine] == [b"%d" % number for number in range(key, 500, 20)]


def test_messages_without_a_key_are_spread(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic(PARTITIONS)
    with_python = kafka_python.make_producer(bootstrap)
    for number in range(200):
        with_python.send(topic, value=b"%d" % number).get(PATIENCE_S)
    with_python.close()
    read: list[Message] = READER.read(bootstrap, topic, 200, partitions=range(PARTITIONS))
    assert len({each.partition for each in read}) > 1
    assert len({each.value for each in read}) == 200
