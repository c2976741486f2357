"""What this release does not do, said in each client's own words: no crash, no hang, no lie."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import closing
from typing import Any

import aiokafka
import kafka
import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._acl import AclBindingFilter, AclOperation, AclPermissionType
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType
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
        offered = [each.name for each in admin.api_versions()]
    assert "ConsumerGroupHeartbeat" in offered
    assert not [name for name in offered if "Share" in name]


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


ANY_NAME: Any = None
ANY_ACL = AclBindingFilter(
    ResourceType.ANY,
    ANY_NAME,
    ResourcePatternType.ANY,
    ANY_NAME,
    ANY_NAME,
    AclOperation.ANY,
    AclPermissionType.ANY,
)


@pytest.mark.parametrize(
    "ask",
    [
        lambda admin, name: admin.describe_acls(ANY_ACL),
        lambda admin, name: admin.describe_user_scram_credentials(["u"])["u"],
    ],
    ids=["acls", "users"],
)
def test_confluent_kafka_is_told_what_is_not_supported(
    bootstrap: str, topic: str, ask: Callable[[AdminClient, str], Any]
) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, **confluent.QUIET})
    with pytest.raises(KafkaException) as raised:
        ask(admin, topic).result(PATIENCE_S)
    assert raised.value.args[0].code() == KafkaError._UNSUPPORTED_FEATURE


@pytest.mark.parametrize(
    "ask",
    [
        lambda admin: admin.list_transactions(),
        lambda admin: admin.describe_user_scram_credentials(),
    ],
    ids=["transactions", "users"],
)
def test_kafka_python_is_told_what_is_not_supported(
    bootstrap: str, ask: Callable[[Any], Any]
) -> None:
    with (
        closing(kafka.KafkaAdminClient(bootstrap_servers=bootstrap)) as admin,
        pytest.raises(kafka.errors.IncompatibleBrokerVersion),
    ):
        ask(admin)
