"""Many small messages, large ones up to the limit to the byte, and those beyond it."""

from __future__ import annotations

import asyncio
from contextlib import closing

import aiokafka
import kafka
import pytest
from confluent_kafka import KafkaError
from tests.compat.clients import aio, confluent, kafka_python
from tests.compat.clients.everyone import CLIENTS
from tests.compat.clients.kcat import Kcat
from tests.compat.clients.message import PATIENCE_S, Client, Message
from tests.compat.conftest import MakeTopic

MANY = 10_000
BATCH_LIMIT = 1_048_588
"""The default of `max.message.bytes`."""
OVERHEAD = 61 + 11
"""A batch's header, and one record's around a value of this size: lengths and deltas."""


@pytest.mark.parametrize("writer", CLIENTS, ids=lambda client: client.name)
def test_ten_thousand_small_messages_arrive_in_order(
    bootstrap: str, topic: str, writer: Client
) -> None:
    values = [b"%d" % number for number in range(MANY)]
    writer.write(bootstrap, topic, [Message(value) for value in values])
    for reader in CLIENTS:
        read = reader.read(bootstrap, topic, MANY)
        assert [each.value for each in read] == values, reader.name
        assert [each.offset for each in read] == list(range(MANY)), reader.name


@pytest.mark.parametrize("writer", CLIENTS, ids=lambda client: client.name)
def test_messages_of_nearly_a_megabyte_arrive(bootstrap: str, topic: str, writer: Client) -> None:
    values = [bytes([65 + number]) * 990_000 for number in range(5)]
    writer.write(bootstrap, topic, [Message(value) for value in values])
    for reader in CLIENTS:
        read = reader.read(bootstrap, topic, len(values))
        assert [each.value for each in read] == values, reader.name


def test_the_limit_holds_to_the_byte(bootstrap: str, topic: str) -> None:
    producer = confluent.make_producer(bootstrap, {"message.max.bytes": 2 * BATCH_LIMIT})
    fits, too_large = b"f" * (BATCH_LIMIT - OVERHEAD), b"t" * (BATCH_LIMIT - OVERHEAD + 1)
    deliveries = confluent.Deliveries()
    for value in (fits, too_large):
        confluent.send(producer, topic, Message(value), deliveries)
        assert producer.flush(PATIENCE_S) == 0
    assert [each.value for each in deliveries.delivered] == [fits]
    assert [each.code() for each in deliveries.errors] == [KafkaError.MSG_SIZE_TOO_LARGE]
    assert CLIENTS[0].read(bootstrap, topic, 1)[0].value == fits


@pytest.mark.parametrize("reader", CLIENTS, ids=lambda client: client.name)
def test_a_message_larger_than_a_reader_asks_for_still_reaches_it(
    bootstrap: str, make_topic: MakeTopic, reader: Client
) -> None:
    """Whoever asks for a megabyte and meets a batch of four gets it: else it would never get on."""
    topic = make_topic(max_message_bytes="5000000")
    values = [b"before", b"x" * 4_000_000, b"after"]
    for value in values:
        CLIENTS[0].write(
            bootstrap, topic, [Message(value)], options={"message.max.bytes": 5_000_000}
        )
    assert [each.value for each in reader.read(bootstrap, topic, 3)] == values


# --- above the topic's limit --------------------------------------------------------------------


@pytest.fixture
def narrow(make_topic: MakeTopic) -> str:
    """A topic that takes batches of up to a thousand bytes."""
    return make_topic(max_message_bytes="1000")


TOO_LARGE = Message(b"x" * 2000)
FINE = Message(b"x" * 100)


@pytest.mark.parametrize("is_idempotent", [True, False], ids=["idempotent", "plain"])
def test_confluent_kafka_says_which_message_is_too_large(
    bootstrap: str, narrow: str, is_idempotent: bool
) -> None:
    producer = confluent.make_producer(bootstrap, {"enable.idempotence": is_idempotent})
    deliveries = confluent.Deliveries()
    for message in (FINE, TOO_LARGE, FINE):
        confluent.send(producer, narrow, message, deliveries)
        assert producer.flush(PATIENCE_S) == 0
    assert [each.code() for each in deliveries.errors] == [KafkaError.MSG_SIZE_TOO_LARGE]
    assert [each.offset for each in deliveries.delivered] == [0, 1]


def test_kafka_python_says_which_message_is_too_large(bootstrap: str, narrow: str) -> None:
    """Without idempotence: with it, the library takes this for fatal and the producer is over."""
    with closing(kafka_python.make_producer(bootstrap, {"enable_idempotence": False})) as producer:
        assert kafka_python.send(producer, narrow, FINE).get(PATIENCE_S).offset == 0
        with pytest.raises(kafka.errors.MessageSizeTooLargeError):
            kafka_python.send(producer, narrow, TOO_LARGE).get(PATIENCE_S)
        assert kafka_python.send(producer, narrow, FINE).get(PATIENCE_S).offset == 1


def test_aiokafka_says_which_message_is_too_large(bootstrap: str, narrow: str) -> None:
    """Without idempotence: with it, the library counts the refused message as sent, and the next
    one is out of sequence."""

    async def run() -> None:
        async with aio.producing(bootstrap) as producer:
            assert (await (await aio.send(producer, narrow, FINE))).offset == 0
            with pytest.raises(aiokafka.errors.MessageSizeTooLargeError):
                await (await aio.send(producer, narrow, TOO_LARGE))
            assert (await (await aio.send(producer, narrow, FINE))).offset == 1

    asyncio.run(run())


def test_kcat_says_that_a_message_is_too_large(bootstrap: str, narrow: str) -> None:
    with pytest.raises(RuntimeError, match="Message size too large"):
        Kcat().write(bootstrap, narrow, [TOO_LARGE])
