"""Records at the edges of what the format can say."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from random import Random

import pytest
from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from tests.compat.clients import aio, confluent, kafka_python
from tests.compat.clients.everyone import CLIENTS
from tests.compat.clients.message import PATIENCE_S, Message
from tests.compat.conftest import MakeTopic

WRITER = confluent.ConfluentKafka()
FAR_FUTURE = 32_503_680_000_000
"""The year 3000, in milliseconds."""


def read_by_all(bootstrap: str, topic: str, sent: list[Message]) -> None:
    for reader in CLIENTS:
        read = reader.read(bootstrap, topic, len(sent))
        assert [each[:4] for each in read] == [each[:4] for each in sent], reader.name


def test_odd_timestamps_are_kept(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic(**{"message.timestamp.after.max.ms": str(2**63 - 1)})
    times = [1, 1000, FAR_FUTURE, 2, 1_700_000_000_000, FAR_FUTURE + 1, 3]
    sent = [Message(b"%d" % each, timestamp=each) for each in times]
    WRITER.write(bootstrap, topic, sent)
    read_by_all(bootstrap, topic, sent)
    with confluent.assigned(bootstrap, topic) as consumer:
        asked = [TopicPartition(topic, 0, each) for each in (2000, FAR_FUTURE + 1)]
        found = [consumer.offsets_for_times([each], timeout=PATIENCE_S)[0].offset for each in asked]
    assert found == [2, 5]


def test_a_thousand_headers_and_long_ones_are_kept(bootstrap: str, topic: str) -> None:
    many = tuple((f"header-{number}", b"%d" % number) for number in range(1000))
    long = (("name" * 1000, b"v" * 100_000),)
    sent = [Message(b"many", None, many, 1), Message(b"long", None, long, 2)]
    WRITER.write(bootstrap, topic, sent)
    read_by_all(bootstrap, topic, sent)


def test_keys_may_be_larger_than_values(bootstrap: str, topic: str) -> None:
    sent = [Message(b"v", b"k" * 500_000, timestamp=1), Message(None, b"k" * 900_000, timestamp=2)]
    WRITER.write(bootstrap, topic, sent)
    read_by_all(bootstrap, topic, sent)


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_bytes_that_do_not_compress_and_bytes_that_vanish_are_kept(
    bootstrap: str, topic: str, codec: str
) -> None:
    luck = Random(7)
    sent = [Message(luck.randbytes(luck.randrange(5000)), timestamp=n + 1) for n in range(50)]
    sent += [Message(b"\0" * 900_000, timestamp=60)]
    WRITER.write(bootstrap, topic, sent, codec=codec)
    for reader in CLIENTS:
        if codec in reader.codecs:
            read = reader.read(bootstrap, topic, len(sent))
            assert [each[:4] for each in read] == [each[:4] for each in sent], reader.name


def test_a_slow_reader_of_much_data_gets_all_of_it(bootstrap: str, make_topic: MakeTopic) -> None:
    """Responses of many megabytes wait in its socket while others are served."""
    topic, other = make_topic(), make_topic()
    values = [b"%03d" % number + b"." * 200_000 for number in range(100)]
    WRITER.write(bootstrap, topic, [Message(value) for value in values])

    async def run() -> list[bytes | None]:
        options = {"max_partition_fetch_bytes": 20_000_000}
        async with aio.assigned(bootstrap, topic, options=options) as consumer:
            read: list[bytes | None] = []
            while len(read) < len(values):
                read += [each.value for each in await aio.take(consumer, 10)]
                message = Message(b"%d" % len(read))
                await asyncio.to_thread(WRITER.write, bootstrap, other, [message])
            return read

    assert asyncio.run(run()) == values
    assert len(WRITER.read(bootstrap, other, 10)) == 10


def test_topics_come_and_go_under_writers_and_readers(bootstrap: str, unmade_topic: str) -> None:
    """Whatever they are told meanwhile, the node lives, and a topic that stays works as ever."""
    names = [f"{unmade_topic}-{number}" for number in range(3)]
    is_over = threading.Event()

    def write(number: int) -> None:
        options = {"enable.idempotence": number % 2 == 0, "message.timeout.ms": 5000}
        producer = confluent.make_producer(bootstrap, options)
        while not is_over.is_set():
            for name in names:
                try:
                    producer.produce(name, b"value", partition=0)
                except KafkaException:
                    pass
            producer.poll(0.002)
        producer.purge()

    def read(_: int) -> None:
        with kafka_python.assigned(bootstrap, names[0]) as consumer:
            while not is_over.is_set():
                consumer.poll(timeout_ms=50)

    with ThreadPoolExecutor(4) as pool:
        for number in range(3):
            pool.submit(write, number)
        pool.submit(read, 0)
        try:
            come_and_go(bootstrap, names)
        finally:
            is_over.set()
    stays = f"{unmade_topic}-stays"
    WRITER.write(bootstrap, stays, [Message(b"still here")])
    assert WRITER.read(bootstrap, stays, 1)[0].value == b"still here"


def come_and_go(bootstrap: str, names: list[str]) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, **confluent.QUIET})
    refusals: list[str] = []
    for number in range(60):
        name = names[number % len(names)]
        for futures in (admin.delete_topics([name]), admin.create_topics([NewTopic(name, 2)])):
            try:
                futures[name].result(PATIENCE_S)
            except KafkaException as refused:
                refusals.append(refused.args[0].name())
    assert set(refusals) <= {"UNKNOWN_TOPIC_OR_PART", "TOPIC_ALREADY_EXISTS"}
