"""Finding a place in a partition: its ends, a time, any offset, also in the middle of a batch."""

from __future__ import annotations

import asyncio
from typing import Any

import aiokafka
import kafka
import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._listoffsets import OffsetSpec
from tests.compat.clients import aio, confluent, kafka_python
from tests.compat.clients.kcat import kcat, parse
from tests.compat.clients.message import PATIENCE_S, Message
from tests.compat.conftest import create_topic
from tests.compat.stored import stored_batches
from tests.support.node_process import RunningNode

TOPIC = "timed"
COUNT = 100
NOON = 1_700_000_000_000
STEP_MS = 1000

LOOK_UPS = [
    pytest.param(0, 0, id="before-the-first"),
    pytest.param(NOON, 0, id="the-first"),
    pytest.param(NOON + 40 * STEP_MS, 40, id="exactly-one"),
    pytest.param(NOON + 40 * STEP_MS + 1, 41, id="between-two"),
    pytest.param(NOON + 99 * STEP_MS, 99, id="the-last"),
    pytest.param(NOON + 99 * STEP_MS + 1, None, id="after-the-last"),
]
SPECS: Any = OffsetSpec
"""The library's own types do not say what these give."""

PLACES = [0, 1, 37, 50, 98]


def value(number: int) -> bytes:
    return b"message %d" % number


@pytest.fixture(scope="module")
def timed(shared_node: RunningNode) -> str:
    """The bootstrap address of a node with a hundred messages, a second apart, in few batches."""
    create_topic(shared_node.bootstrap, TOPIC, 1, {})
    messages = [Message(value(i), timestamp=NOON + i * STEP_MS) for i in range(COUNT)]
    for part in (messages[:60], messages[60:]):
        confluent.ConfluentKafka().write(
            shared_node.bootstrap, TOPIC, part, options={"linger.ms": 100}
        )
    assert len(list(stored_batches(shared_node.data_dir, TOPIC))) < 10
    return shared_node.bootstrap


# --- by time ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("timestamp", "offset"), LOOK_UPS)
def test_confluent_kafka_finds_the_offset_for_a_time(
    timed: str, timestamp: int, offset: int | None
) -> None:
    with confluent.assigned(timed, TOPIC) as consumer:
        asked = [TopicPartition(TOPIC, 0, timestamp)]
        found = consumer.offsets_for_times(asked, timeout=PATIENCE_S)[0]
    assert found.error is None
    assert found.offset == (-1 if offset is None else offset)


@pytest.mark.parametrize(("timestamp", "offset"), LOOK_UPS)
def test_kafka_python_finds_the_offset_for_a_time(
    timed: str, timestamp: int, offset: int | None
) -> None:
    partition = kafka.TopicPartition(TOPIC, 0)
    with kafka_python.assigned(timed, TOPIC) as consumer:
        found = consumer.offsets_for_times({partition: timestamp})[partition]
    assert (None if found is None else found.offset) == offset
    if offset is not None:
        assert found.timestamp == NOON + offset * STEP_MS


@pytest.mark.parametrize(("timestamp", "offset"), LOOK_UPS)
def test_aiokafka_finds_the_offset_for_a_time(
    timed: str, timestamp: int, offset: int | None
) -> None:
    partition = aiokafka.TopicPartition(TOPIC, 0)

    async def find() -> int | None:
        async with aio.assigned(timed, TOPIC) as consumer:
            found = (await consumer.offsets_for_times({partition: timestamp}))[partition]
            return None if found is None else int(found.offset)

    assert asyncio.run(find()) == offset


@pytest.mark.parametrize(("timestamp", "offset"), LOOK_UPS)
def test_kcat_finds_the_offset_for_a_time(timed: str, timestamp: int, offset: int | None) -> None:
    answer = kcat(timed, "-Q", "-t", f"{TOPIC}:0:{timestamp}").decode()
    assert answer.strip() == f"{TOPIC} [0] offset {-1 if offset is None else offset}"


def test_kcat_reads_from_one_time_to_another(timed: str) -> None:
    span = ["-o", f"s@{NOON + 10 * STEP_MS}", "-o", f"e@{NOON + 13 * STEP_MS}"]
    output = kcat(timed, "-C", "-t", TOPIC, "-p", "0", *span, "-e", "-f", "%s\n")
    assert output.splitlines() == [value(10), value(11), value(12)]


# --- the ends -----------------------------------------------------------------------------------


def test_confluent_kafka_knows_both_ends(timed: str) -> None:
    with confluent.assigned(timed, TOPIC) as consumer:
        place = TopicPartition(TOPIC, 0)
        assert consumer.get_watermark_offsets(place, timeout=PATIENCE_S) == (0, COUNT)


def test_kafka_python_knows_both_ends(timed: str) -> None:
    place = kafka.TopicPartition(TOPIC, 0)
    with kafka_python.assigned(timed, TOPIC) as consumer:
        assert consumer.beginning_offsets([place]) == {place: 0}
        assert consumer.end_offsets([place]) == {place: COUNT}


def test_aiokafka_knows_both_ends(timed: str) -> None:
    place = aiokafka.TopicPartition(TOPIC, 0)

    async def ends() -> tuple[object, object]:
        async with aio.assigned(timed, TOPIC) as consumer:
            begin = await consumer.beginning_offsets([place])
            return begin, await consumer.end_offsets([place])

    assert asyncio.run(ends()) == ({place: 0}, {place: COUNT})


@pytest.mark.parametrize(
    ("spec", "offset"),
    [
        (SPECS.earliest(), 0),
        (SPECS.latest(), COUNT),
        (SPECS.max_timestamp(), COUNT - 1),
        (SPECS.for_timestamp(NOON + 5 * STEP_MS), 5),
    ],
    ids=["earliest", "latest", "max-timestamp", "timestamp"],
)
def test_an_administrator_lists_offsets(timed: str, spec: OffsetSpec, offset: int) -> None:
    admin = AdminClient({"bootstrap.servers": timed, **confluent.QUIET})
    place = TopicPartition(TOPIC, 0)
    found = admin.list_offsets({place: spec})[place].result(PATIENCE_S)
    assert found.offset == offset


# --- any offset ---------------------------------------------------------------------------------


@pytest.mark.parametrize("offset", PLACES)
def test_confluent_kafka_reads_from_the_middle_of_a_batch(timed: str, offset: int) -> None:
    with confluent.assigned(timed, TOPIC, offset=offset) as consumer:
        read = confluent.take(consumer, 2)
        assert [(each.offset, each.value) for each in read] == pairs(offset)
        consumer.seek(TopicPartition(TOPIC, 0, offset))
        assert [(each.offset, each.value) for each in confluent.take(consumer, 2)] == pairs(offset)


@pytest.mark.parametrize("offset", PLACES)
def test_kafka_python_reads_from_the_middle_of_a_batch(timed: str, offset: int) -> None:
    with kafka_python.assigned(timed, TOPIC) as consumer:
        for _ in range(2):
            consumer.seek(kafka.TopicPartition(TOPIC, 0), offset)
            read = kafka_python.take(consumer, 2)
            assert [(each.offset, each.value) for each in read] == pairs(offset)


@pytest.mark.parametrize("offset", PLACES)
def test_aiokafka_reads_from_the_middle_of_a_batch(timed: str, offset: int) -> None:
    async def read() -> list[Message]:
        async with aio.assigned(timed, TOPIC) as consumer:
            consumer.seek(aiokafka.TopicPartition(TOPIC, 0), offset)
            return await aio.take(consumer, 2)

    assert [(each.offset, each.value) for each in asyncio.run(read())] == pairs(offset)


@pytest.mark.parametrize("offset", PLACES)
def test_kcat_reads_from_the_middle_of_a_batch(timed: str, offset: int) -> None:
    place = ["-C", "-t", TOPIC, "-p", "0", "-o", str(offset), "-c", "2"]
    read = parse(kcat(timed, *place, "-f", "%p %o %T %K %S %h\\x1f%k%s\\x1e"))
    assert [(each.offset, each.value) for each in read] == pairs(offset)


def pairs(offset: int) -> list[tuple[int, bytes]]:
    return [(number, value(number)) for number in (offset, offset + 1)]


# --- beyond the ends ----------------------------------------------------------------------------


def test_confluent_kafka_is_told_that_an_offset_is_out_of_range(timed: str) -> None:
    options = {"auto.offset.reset": "error"}
    with (
        confluent.assigned(timed, TOPIC, offset=COUNT + 1, options=options) as consumer,
        pytest.raises(KafkaException) as raised,
    ):
        confluent.take(consumer, 1)
    assert raised.value.args[0].code() == KafkaError._AUTO_OFFSET_RESET


def test_confluent_kafka_begins_again_where_it_was_told_to(timed: str) -> None:
    options = {"auto.offset.reset": "earliest"}
    with confluent.assigned(timed, TOPIC, offset=COUNT + 1, options=options) as consumer:
        assert confluent.take(consumer, 1)[0].value == value(0)


def test_kafka_python_is_told_that_an_offset_is_out_of_range(timed: str) -> None:
    with kafka_python.assigned(timed, TOPIC, options={"auto_offset_reset": "none"}) as consumer:
        consumer.seek(kafka.TopicPartition(TOPIC, 0), COUNT + 1)
        with pytest.raises(kafka.errors.OffsetOutOfRangeError):
            kafka_python.take(consumer, 1)


def test_aiokafka_is_told_that_an_offset_is_out_of_range(timed: str) -> None:
    async def read() -> None:
        async with aio.assigned(timed, TOPIC, options={"auto_offset_reset": "none"}) as consumer:
            consumer.seek(aiokafka.TopicPartition(TOPIC, 0), COUNT + 1)
            await aio.take(consumer, 1)

    with pytest.raises(aiokafka.errors.OffsetOutOfRangeError):
        asyncio.run(read())
