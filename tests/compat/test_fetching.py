"""Reading in unusual ways: many partitions, tiny and huge fetches, long polls, crowds."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import aiokafka
import kafka
import pytest
from confluent_kafka import TopicPartition
from tests.compat.clients import aio, confluent, kafka_python
from tests.compat.clients.everyone import CLIENTS
from tests.compat.clients.message import Client, Message
from tests.compat.conftest import MakeTopic
from tests.compat.stored import stored_batches
from tests.support.node_process import RunningNode

WRITER = confluent.ConfluentKafka()
LIBRARIES = CLIENTS[:3]


def spelled(client: Client, **options: object) -> dict[str, object]:
    """Options in the client's spelling: librdkafka has dots, the others underscores."""
    is_librdkafka = client.name in ("confluent-kafka", "kcat")
    return {
        (name.replace("_", ".") if is_librdkafka else _PYTHON_NAMES.get(name, name)): value
        for name, value in options.items()
    }


_PYTHON_NAMES = {"fetch_wait_max_ms": "fetch_max_wait_ms"}


def fill(bootstrap: str, topic: str, *, partitions: int, each: int, size: int = 20) -> None:
    messages = [
        Message(b"%d/%d " % (partition, number) + b"." * size, partition=partition)
        for number in range(each)
        for partition in range(partitions)
    ]
    WRITER.write(bootstrap, topic, messages)


def expect_all(messages: Sequence[Message], *, partitions: int, each: int) -> None:
    """Every message once, in order within its partition."""
    for partition in range(partitions):
        mine = [message for message in messages if message.partition == partition]
        assert [message.offset for message in mine] == list(range(each)), partition
        starts = [(message.value or b"").split(b" ")[0] for message in mine]
        assert starts == [b"%d/%d" % (partition, number) for number in range(each)]


@pytest.mark.parametrize("reader", CLIENTS, ids=lambda client: client.name)
def test_a_hundred_partitions_are_read_by_one_consumer(
    bootstrap: str, make_topic: MakeTopic, reader: Client
) -> None:
    partitions = 100 if reader in LIBRARIES else 10
    topic = make_topic(partitions)
    fill(bootstrap, topic, partitions=partitions, each=20)
    places = range(partitions)
    read = reader.read(bootstrap, topic, partitions * 20, partitions=places)
    expect_all(read, partitions=partitions, each=20)


@pytest.mark.parametrize("reader", CLIENTS, ids=lambda client: client.name)
@pytest.mark.parametrize(
    "options",
    [
        {"max_partition_fetch_bytes": 1},
        {"max_partition_fetch_bytes": 300, "fetch_max_bytes": 1000},
        {"fetch_min_bytes": 1_000_000, "fetch_wait_max_ms": 50},
        {"fetch_min_bytes": 1, "fetch_wait_max_ms": 0},
        {"isolation_level": "read_committed"},
        {"check_crcs": True},
    ],
    ids=lambda options: "-".join(options),
)
def test_odd_fetch_settings_lose_nothing(
    bootstrap: str, make_topic: MakeTopic, reader: Client, options: dict[str, object]
) -> None:
    partitions, each = 5, 20
    topic = make_topic(partitions)
    fill(bootstrap, topic, partitions=partitions, each=each, size=200)
    if reader.name in ("confluent-kafka", "kcat") and "fetch_max_bytes" in options:
        options = {**options, "message_max_bytes": 1000}
    read = reader.read(
        bootstrap,
        topic,
        partitions * each,
        partitions=range(partitions),
        options=spelled(reader, **options),
    )
    expect_all(read, partitions=partitions, each=each)


@pytest.mark.parametrize("reader", CLIENTS, ids=lambda client: client.name)
def test_a_reader_crosses_the_borders_of_segments(
    shared_node: RunningNode, make_topic: MakeTopic, reader: Client
) -> None:
    topic = make_topic(segment_bytes="2000")
    messages = [Message(b"0/%d " % number + b"." * 100) for number in range(300)]
    WRITER.write(shared_node.bootstrap, topic, messages, options={"batch.num.messages": 5})
    bases = {header.base_offset for header in stored_batches(shared_node.data_dir, topic)}
    assert len(bases) >= 60
    read = reader.read(shared_node.bootstrap, topic, len(messages))
    expect_all(read, partitions=1, each=len(messages))


# --- messages that come later -------------------------------------------------------------------


def test_a_waiting_confluent_kafka_consumer_gets_what_comes_later(
    bootstrap: str, topic: str
) -> None:
    options = {"fetch.wait.max.ms": 30_000}
    with confluent.assigned(bootstrap, topic, options=options) as consumer:
        for number in range(5):
            assert consumer.poll(0.2) is None
            WRITER.write(bootstrap, topic, [Message(b"%d" % number)])
            assert confluent.take(consumer, 1)[0].value == b"%d" % number


def test_a_waiting_kafka_python_consumer_gets_what_comes_later(bootstrap: str, topic: str) -> None:
    options = {"fetch_max_wait_ms": 20_000}
    with kafka_python.assigned(bootstrap, topic, options=options) as consumer:
        for number in range(5):
            assert consumer.poll(timeout_ms=200) == {}
            WRITER.write(bootstrap, topic, [Message(b"%d" % number)])
            assert kafka_python.take(consumer, 1)[0].value == b"%d" % number


def test_a_waiting_aiokafka_consumer_gets_what_comes_later(bootstrap: str, topic: str) -> None:
    async def run() -> None:
        options = {"fetch_max_wait_ms": 20_000}
        async with aio.assigned(bootstrap, topic, options=options) as consumer:
            for number in range(5):
                assert await consumer.getmany(timeout_ms=200) == {}
                message = Message(b"%d" % number)
                await asyncio.to_thread(WRITER.write, bootstrap, topic, [message])
                assert (await aio.take(consumer, 1))[0].value == b"%d" % number

    asyncio.run(run())


def test_one_busy_partition_does_not_starve_the_quiet_ones(
    bootstrap: str, make_topic: MakeTopic
) -> None:
    topic = make_topic(3)
    busy = [Message(b"b" * 1000, partition=0) for _ in range(500)]
    WRITER.write(bootstrap, topic, busy, options={"batch.num.messages": 5})
    WRITER.write(bootstrap, topic, [Message(b"quiet", partition=each) for each in (1, 2)])
    options = {"max_partition_fetch_bytes": 5000, "fetch_max_bytes": 5000}
    with kafka_python.assigned(bootstrap, topic, (0, 1, 2), options=options) as consumer:
        read = kafka_python.take(consumer, 100)
    assert {each.partition for each in read} == {0, 1, 2}


# --- changing one's mind ------------------------------------------------------------------------


def test_partitions_join_and_leave_a_running_consumer(
    bootstrap: str, make_topic: MakeTopic
) -> None:
    """In a fetch session these are the additions and the forgotten ones."""
    topic = make_topic(4)
    fill(bootstrap, topic, partitions=4, each=10)
    with confluent.assigned(bootstrap, topic, (0, 1)) as consumer:
        expect_all(confluent.take(consumer, 20), partitions=2, each=10)
        consumer.incremental_assign([TopicPartition(topic, each, 0) for each in (2, 3)])
        assert {each.partition for each in confluent.take(consumer, 20)} == {2, 3}
        consumer.incremental_unassign([TopicPartition(topic, each) for each in (0, 2)])
        fill(bootstrap, topic, partitions=4, each=1)
        assert {each.partition for each in confluent.take(consumer, 2)} == {1, 3}
        assert consumer.poll(0.3) is None


def test_a_session_of_kafka_python_follows_assign_pause_and_seek(
    bootstrap: str, make_topic: MakeTopic
) -> None:
    topic = make_topic(3)
    fill(bootstrap, topic, partitions=3, each=10)
    places = [kafka.TopicPartition(topic, each) for each in range(3)]
    with kafka_python.assigned(bootstrap, topic, (0, 1)) as consumer:
        kafka_python.take(consumer, 20)
        consumer.assign(places)
        read = kafka_python.take(consumer, 10)
        assert {each.partition for each in read} <= {0, 1, 2}
        consumer.pause(places[0])
        consumer.seek_to_beginning(*places)
        read = kafka_python.take(consumer, 20)
        assert {each.partition for each in read} == {1, 2}
        consumer.resume(places[0])
        read = kafka_python.take(consumer, 10)
        assert [each.offset for each in read] == list(range(10))


# --- crowds -------------------------------------------------------------------------------------


@pytest.mark.parametrize("reader", LIBRARIES, ids=lambda client: client.name)
def test_a_crowd_of_consumers_each_reads_everything(
    bootstrap: str, make_topic: MakeTopic, reader: Client
) -> None:
    topic = make_topic(3)
    fill(bootstrap, topic, partitions=3, each=300)

    def read(_: int) -> None:
        messages = reader.read(bootstrap, topic, 900, partitions=(0, 1, 2))
        expect_all(messages, partitions=3, each=300)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(read, range(8)))


def test_fifty_clients_write_and_read_at_once(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic(5)

    def write(number: int) -> None:
        messages = [Message(b"%d-%d" % (number, n), partition=number % 5) for n in range(40)]
        LIBRARIES[number % 3].write(bootstrap, topic, messages)

    def read(number: int) -> list[Message]:
        reader = LIBRARIES[number % 3]
        return reader.read(bootstrap, topic, 25 * 40, partitions=range(5))

    with ThreadPoolExecutor(50) as pool:
        readers = [pool.submit(read, number) for number in range(25)]
        list(pool.map(write, range(25)))
        everything = [each.result() for each in readers]
    for messages in everything:
        values = [each.value for each in messages]
        assert len(set(values)) == 25 * 40
        for number in range(25):
            mine = [value for value in values if value and value.startswith(b"%d-" % number)]
            assert mine == [b"%d-%d" % (number, n) for n in range(40)]


def test_a_consumer_that_stops_in_the_middle_of_a_long_poll_hurts_nobody(
    bootstrap: str, topic: str
) -> None:
    async def leave() -> None:
        options = {"fetch_max_wait_ms": 20_000}
        async with aio.assigned(bootstrap, topic, options=options) as consumer:
            assert await consumer.getmany(aiokafka.TopicPartition(topic, 0), timeout_ms=100) == {}

    asyncio.run(leave())
    WRITER.write(bootstrap, topic, [Message(b"later")])
    assert WRITER.read(bootstrap, topic, 1)[0].value == b"later"
