"""What this release does not do, said in each client's own words: no crash, no hang, no lie."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import closing
from typing import Any

import aiokafka
import kafka
import kafka.admin
import pytest
from aiokafka.admin import AIOKafkaAdminClient
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import ConfigResource
from confluent_kafka.admin._resource import ResourceType
from confluent_kafka.cimpl import NewPartitions
from tests.compat.clients import aio, confluent, kafka_python
from tests.compat.clients.kcat import kcat
from tests.compat.clients.message import PATIENCE_S, Message

WRITER = confluent.ConfluentKafka()


# --- transactions -------------------------------------------------------------------------------


def test_confluent_kafka_is_told_that_there_are_no_transactions(bootstrap: str) -> None:
    producer = confluent.make_producer(bootstrap, {"transactional.id": "mine"})
    with pytest.raises(KafkaException) as raised:
        producer.init_transactions(PATIENCE_S)
    error = raised.value.args[0]
    assert error.code() == KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert "transactions are not in this release" in error.str()


def test_kafka_python_is_told_that_there_are_no_transactions(bootstrap: str) -> None:
    producer = kafka_python.make_producer(bootstrap, {"transactional_id": "mine"})
    with (
        closing(producer),
        pytest.raises(kafka.errors.TransactionalIdAuthorizationFailedError),
    ):
        producer.init_transactions()


def test_aiokafka_is_told_that_there_are_no_transactions(bootstrap: str) -> None:
    async def run() -> None:
        producer = aiokafka.AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id="mine")
        try:
            await producer.start()
        finally:
            await producer.stop()

    with pytest.raises(aiokafka.errors.TransactionalIdAuthorizationFailed):
        asyncio.run(run())


def test_kcat_is_told_that_there_are_no_transactions(bootstrap: str, topic: str) -> None:
    with pytest.raises(RuntimeError, match="transactions are not in this release"):
        kcat(bootstrap, "-P", "-t", topic, "-X", "transactional.id=mine", given=b"value")


# --- share groups -------------------------------------------------------------------------------


def test_share_groups_are_not_offered(bootstrap: str) -> None:
    """None of these clients speaks them; the node does not say that it does."""
    with closing(kafka.KafkaAdminClient(bootstrap_servers=bootstrap)) as admin:
        offered = {name for name, _ in _offered(admin)}
    assert "ConsumerGroupHeartbeat" in offered
    assert not [name for name in offered if name.startswith("Share")]


def _offered(admin: Any) -> list[tuple[str, Any]]:
    return [(str(name), versions) for name, versions in admin.api_versions().items()]


# --- without a group ----------------------------------------------------------------------------


def test_a_kafka_python_subscriber_without_a_group_reads(bootstrap: str, topic: str) -> None:
    WRITER.write(bootstrap, topic, [Message(b"value")])
    consumer = kafka.KafkaConsumer(
        topic, bootstrap_servers=bootstrap, group_id=None, auto_offset_reset="earliest"
    )
    with closing(consumer):
        assert kafka_python.take(consumer, 1)[0].value == b"value"


def test_an_aiokafka_subscriber_without_a_group_reads(bootstrap: str, topic: str) -> None:
    WRITER.write(bootstrap, topic, [Message(b"value")])

    async def run() -> list[Message]:
        consumer = aiokafka.AIOKafkaConsumer(
            topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest"
        )
        await consumer.start()
        try:
            return await aio.take(consumer, 1)
        finally:
            await consumer.stop()

    assert asyncio.run(run())[0].value == b"value"


# --- administration -----------------------------------------------------------------------------


def topic_resource(name: str) -> ConfigResource:
    return ConfigResource(ResourceType.TOPIC, name)


@pytest.mark.parametrize(
    "ask",
    [
        lambda admin, name: admin.describe_configs([topic_resource(name)]),
        lambda admin, name: admin.create_partitions([NewPartitions(name, 5)]),
        lambda admin, name: admin.delete_records([TopicPartition(name, 0, 1)]),
        lambda admin, name: admin.delete_consumer_groups(["a-group"], request_timeout=1),
    ],
    ids=["describe-configs", "create-partitions", "delete-records", "delete-groups"],
)
def test_confluent_kafka_is_told_what_is_not_supported(
    bootstrap: str, topic: str, ask: Callable[[AdminClient, str], dict[Any, Any]]
) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, **confluent.QUIET})
    (future,) = ask(admin, topic).values()
    with pytest.raises(KafkaException) as raised:
        future.result(PATIENCE_S)
    expected = (KafkaError._UNSUPPORTED_FEATURE, KafkaError._TIMED_OUT)
    assert raised.value.args[0].code() in expected


@pytest.mark.parametrize(
    "ask",
    [
        lambda admin, name: admin.list_groups(),
        lambda admin, name: admin.describe_log_dirs(),
        lambda admin, name: admin.create_partitions({name: kafka.admin.NewPartitions(5)}),
        lambda admin, name: admin.delete_records({kafka.TopicPartition(name, 0): 1}),
    ],
    ids=["list-groups", "describe-log-dirs", "create-partitions", "delete-records"],
)
def test_kafka_python_is_told_what_is_not_supported(
    bootstrap: str, topic: str, ask: Callable[[Any, str], Any]
) -> None:
    with (
        closing(kafka.KafkaAdminClient(bootstrap_servers=bootstrap)) as admin,
        pytest.raises(kafka.errors.IncompatibleBrokerVersion),
    ):
        ask(admin, topic)


def test_aiokafka_is_told_what_is_not_supported(bootstrap: str) -> None:
    async def run() -> None:
        admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
        await admin.start()
        try:
            with pytest.raises(aiokafka.errors.IncompatibleBrokerVersion):
                await admin.list_consumer_groups()
            with pytest.raises(aiokafka.errors.GroupCoordinatorNotAvailableError):
                await admin.find_coordinator("a-group")
        finally:
            await admin.close()

    asyncio.run(run())
