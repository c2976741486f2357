"""What this release does not do, said in each client's own words: no crash, no hang, no lie."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import closing
from typing import Any

import aiokafka
import kafka
import pytest
from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._acl import AclBinding, AclOperation, AclPermissionType
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType
from tests.compat.clients import aio, confluent, kafka_python
from tests.compat.clients.kcat import kcat
from tests.compat.clients.message import PATIENCE_S, Message

WRITER = confluent.ConfluentKafka()


# --- transactions -------------------------------------------------------------------------------


def test_confluent_kafka_is_told_that_there_are_no_transactions(bootstrap: str) -> None:
    """The code is that of an ACL: with any other librdkafka asks again for ever."""
    producer = confluent.make_producer(bootstrap, {"transactional.id": "mine"})
    with pytest.raises(KafkaException) as raised:
        producer.init_transactions(PATIENCE_S)
    error = raised.value.args[0]
    assert error.code() == KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert "transactions are not supported yet" in error.str()


def test_kafka_python_is_told_that_there_are_no_transactions(bootstrap: str) -> None:
    producer = kafka_python.make_producer(bootstrap, {"transactional_id": "mine"})
    with closing(producer), pytest.raises(kafka.errors.KafkaError, match="UnsupportedVersion"):
        producer.init_transactions()


def test_aiokafka_is_told_that_there_are_no_transactions(bootstrap: str) -> None:
    async def run() -> None:
        producer = aiokafka.AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id="mine")
        try:
            await producer.start()
        finally:
            await producer.stop()

    with pytest.raises(aiokafka.errors.KafkaError, match="UnsupportedVersion"):
        asyncio.run(run())


def test_kcat_is_told_that_there_are_no_transactions(bootstrap: str, topic: str) -> None:
    with pytest.raises(RuntimeError, match="transactions are not supported yet"):
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


AN_ACL = AclBinding(
    ResourceType.TOPIC,
    "orders",
    ResourcePatternType.LITERAL,
    "User:me",
    "*",
    AclOperation.READ,
    AclPermissionType.ALLOW,
)


def test_confluent_kafka_is_told_what_is_not_supported(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, **confluent.QUIET})
    with pytest.raises(KafkaException) as raised:
        asked: Any = admin.describe_user_scram_credentials(["u"])
        asked["u"].result(PATIENCE_S)
    assert raised.value.args[0].code() == KafkaError._UNSUPPORTED_FEATURE


def test_confluent_kafka_is_told_that_there_are_no_acls(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, **confluent.QUIET})
    (created,) = admin.create_acls([AN_ACL]).values()
    with pytest.raises(KafkaException) as raised:
        created.result(PATIENCE_S)
    error = raised.value.args[0]
    assert error.code() == KafkaError.SECURITY_DISABLED
    assert "no authorizer" in error.str()


def test_confluent_kafka_is_told_all_that_is_allowed(bootstrap: str, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, **confluent.QUIET})
    asked: Any = admin.describe_topics(
        TopicCollection([topic]), include_authorized_operations=True, request_timeout=PATIENCE_S
    )
    told = {each.name for each in asked[topic].result(PATIENCE_S).authorized_operations}
    assert told == {
        "READ", "WRITE", "CREATE", "DELETE", "ALTER", "DESCRIBE", "DESCRIBE_CONFIGS",
        "ALTER_CONFIGS",
    }  # fmt: skip


def test_kafka_python_sees_the_features_and_that_they_stay(bootstrap: str) -> None:
    with closing(kafka.KafkaAdminClient(bootstrap_servers=bootstrap)) as admin:
        features = admin.describe_features()
        assert features["group.version"]["finalized"] == (1, 1)
        assert "transaction.version" not in features
        assert admin.update_features({"group.version": 1}) == {"group.version": "OK"}
        with pytest.raises(kafka.errors.InvalidUpdateVersionError):
            admin.update_features({"group.version": 2})


def test_kafka_python_moves_replicas_to_where_they_are_only(bootstrap: str, topic: str) -> None:
    with closing(kafka.KafkaAdminClient(bootstrap_servers=bootstrap)) as admin:
        (node,) = admin.describe_log_dirs()
        there = node["log_dirs"][0]["log_dir"]
        replica = (topic, 0, node["broker"])
        assert list(admin.alter_replica_log_dirs({replica: there}).values()) == [
            kafka.errors.NoError
        ]
        assert list(admin.alter_replica_log_dirs({replica: "/elsewhere"}).values()) == [
            kafka.errors.LogDirNotFoundError
        ]


def test_kafka_python_lists_what_has_settings(bootstrap: str, topic: str) -> None:
    with closing(kafka.KafkaAdminClient(bootstrap_servers=bootstrap)) as admin:
        listed = admin.list_config_resources()
    assert topic in listed["topic"]
    assert listed["broker"]


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
