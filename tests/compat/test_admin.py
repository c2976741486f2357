"""Topics and the cluster, as administrators' clients see and change them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import aiokafka
import kafka
import kafka.admin
import pytest
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin import NewTopic as AioNewTopic
from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from tests.compat.clients import aio, confluent, kafka_python
from tests.compat.clients.everyone import CLIENTS
from tests.compat.clients.kcat import kcat
from tests.compat.clients.message import PATIENCE_S, Client, Deadline, Message
from tests.compat.conftest import MakeTopic, create_topic
from tests.support.node_process import StartNode

WRITER = confluent.ConfluentKafka()


@pytest.fixture
def admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap, **confluent.QUIET})


@pytest.fixture
def python_admin(bootstrap: str) -> Iterator[Any]:
    with closing(kafka.KafkaAdminClient(bootstrap_servers=bootstrap)) as client:
        yield client


def partitions_of(admin: AdminClient, name: str) -> int:
    return len(admin.list_topics(timeout=PATIENCE_S).topics[name].partitions)


def error_of(future: Any) -> KafkaError:
    with pytest.raises(KafkaException) as raised:
        future.result(PATIENCE_S)
    error = raised.value.args[0]
    assert isinstance(error, KafkaError)
    return error


# --- creating -----------------------------------------------------------------------------------


def test_confluent_kafka_creates_lists_describes_and_deletes(
    admin: AdminClient, unmade_topic: str
) -> None:
    new = NewTopic(unmade_topic, num_partitions=3, config={"segment.bytes": "65536"})
    admin.create_topics([new])[unmade_topic].result(PATIENCE_S)
    assert partitions_of(admin, unmade_topic) == 3
    collection = TopicCollection([unmade_topic])
    described = admin.describe_topics(collection)[unmade_topic].result(PATIENCE_S)
    assert [each.id for each in described.partitions] == [0, 1, 2]
    assert {each.leader.id for each in described.partitions} == {1}
    admin.delete_topics([unmade_topic])[unmade_topic].result(PATIENCE_S)
    assert unmade_topic not in admin.list_topics(timeout=PATIENCE_S).topics
    gone = error_of(admin.describe_topics(collection)[unmade_topic])
    assert gone.code() == KafkaError.UNKNOWN_TOPIC_OR_PART


def test_kafka_python_creates_lists_describes_and_deletes(
    python_admin: Any, unmade_topic: str
) -> None:
    new = kafka.admin.NewTopic(unmade_topic, num_partitions=3, replication_factor=1)
    python_admin.create_topics([new])
    assert unmade_topic in python_admin.list_topics()
    (described,) = python_admin.describe_topics([unmade_topic])
    assert [each["partition_index"] for each in described["partitions"]] == [0, 1, 2]
    python_admin.delete_topics([unmade_topic])
    assert unmade_topic not in python_admin.list_topics()
    with pytest.raises(kafka.errors.UnknownTopicOrPartitionError):
        python_admin.delete_topics([unmade_topic])


def test_aiokafka_creates_lists_describes_and_deletes(bootstrap: str, unmade_topic: str) -> None:
    async def run() -> None:
        admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
        await admin.start()
        try:
            await admin.create_topics([AioNewTopic(unmade_topic, 3, 1)])
            assert unmade_topic in await admin.list_topics()
            (described,) = await admin.describe_topics([unmade_topic])
            assert len(described["partitions"]) == 3
            await admin.delete_topics([unmade_topic])
            assert unmade_topic not in await admin.list_topics()
        finally:
            await admin.close()

    asyncio.run(run())


def test_kcat_lists_brokers_and_topics(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic(3)
    listing = kcat(bootstrap, "-L", "-t", topic).decode()
    assert f"broker 1 at {bootstrap} (controller)" in listing
    assert f'topic "{topic}" with 3 partitions:' in listing


@pytest.mark.parametrize(
    ("new", "code"),
    [
        ({"num_partitions": 0}, KafkaError.INVALID_PARTITIONS),
        ({"replication_factor": 3}, KafkaError.INVALID_REPLICATION_FACTOR),
        ({"config": {"segment.bytes": "many"}}, KafkaError.INVALID_CONFIG),
        ({"config": {"segment.bytes": "-1"}}, KafkaError.INVALID_CONFIG),
        ({"config": {"no.such.setting": "1"}}, KafkaError.INVALID_CONFIG),
        (
            {"num_partitions": 2, "replica_assignment": [[1], [2]]},
            KafkaError.INVALID_REPLICA_ASSIGNMENT,
        ),
    ],
    ids=lambda value: str(value).replace(" ", "") if isinstance(value, dict) else "",
)
def test_a_topic_that_makes_no_sense_is_refused(
    admin: AdminClient, unmade_topic: str, new: dict[str, Any], code: int
) -> None:
    future = admin.create_topics([NewTopic(unmade_topic, **new)])[unmade_topic]
    error = error_of(future)
    assert error.code() == code
    assert error.str() != ""
    assert unmade_topic not in admin.list_topics(timeout=PATIENCE_S).topics


@pytest.mark.parametrize("name", ["", ".", "..", "sp ace", "sl/ash", "ümlaut", "x" * 250])
def test_a_name_that_is_none_is_refused(admin: AdminClient, name: str) -> None:
    error = error_of(admin.create_topics([NewTopic(name, 1)])[name])
    assert error.code() == KafkaError.TOPIC_EXCEPTION


def test_the_longest_name_works(bootstrap: str, admin: AdminClient) -> None:
    name = "x" * 249
    admin.create_topics([NewTopic(name, 2)])[name].result(PATIENCE_S)
    WRITER.write(bootstrap, name, [Message(b"value", partition=1)])
    assert WRITER.read(bootstrap, name, 1, partitions=(1,))[0].value == b"value"
    admin.delete_topics([name])[name].result(PATIENCE_S)


def test_a_topic_that_exists_is_refused(admin: AdminClient, topic: str) -> None:
    error = error_of(admin.create_topics([NewTopic(topic, 5)])[topic])
    assert error.code() == KafkaError.TOPIC_ALREADY_EXISTS
    assert partitions_of(admin, topic) == 1


def test_one_bad_topic_does_not_spoil_the_others(admin: AdminClient, unmade_topic: str) -> None:
    good, bad = f"{unmade_topic}-good", f"{unmade_topic}-bad"
    futures = admin.create_topics([NewTopic(good, 1), NewTopic(bad, 0)])
    futures[good].result(PATIENCE_S)
    assert error_of(futures[bad]).code() == KafkaError.INVALID_PARTITIONS


def test_a_dry_run_creates_nothing(admin: AdminClient, unmade_topic: str) -> None:
    new = [NewTopic(unmade_topic, 1)]
    admin.create_topics(new, validate_only=True)[unmade_topic].result(PATIENCE_S)
    assert unmade_topic not in admin.list_topics(timeout=PATIENCE_S).topics


def test_a_topic_created_by_many_at_once_is_created_once(bootstrap: str, unmade_topic: str) -> None:
    def create(_: int) -> str:
        try:
            create_topic(bootstrap, unmade_topic, 2, {})
        except KafkaException as refused:
            return str(refused.args[0].name())
        return "created"

    with ThreadPoolExecutor(10) as pool:
        outcomes = sorted(pool.map(create, range(10)))
    assert outcomes == ["TOPIC_ALREADY_EXISTS"] * 9 + ["created"]


# --- deleting -----------------------------------------------------------------------------------


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
def test_a_topic_created_again_is_empty(
    bootstrap: str, admin: AdminClient, topic: str, client: Client
) -> None:
    client.write(bootstrap, topic, [Message(b"old")])
    for number in range(3):
        admin.delete_topics([topic])[topic].result(PATIENCE_S)
        create_topic(bootstrap, topic, 1, {})
        client.write(bootstrap, topic, [Message(b"new %d" % number)])
        read = client.read(bootstrap, topic, 1)
        assert [(each.offset, each.value) for each in read] == [(0, b"new %d" % number)]


def test_a_producer_outlives_the_topic_it_writes_to(
    bootstrap: str, admin: AdminClient, topic: str
) -> None:
    """It has the old topic's id and epoch in its head; metadata puts it right."""
    producer = confluent.make_producer(bootstrap, {"enable.idempotence": True})
    deliveries = confluent.Deliveries()
    confluent.send(producer, topic, Message(b"old"), deliveries)
    assert producer.flush(PATIENCE_S) == 0
    admin.delete_topics([topic])[topic].result(PATIENCE_S)
    create_topic(bootstrap, topic, 1, {})
    deadline = Deadline("a producer for a topic created again")
    while len(deliveries.delivered) < 2:
        deadline.check(deliveries.errors)
        confluent.send(producer, topic, Message(b"new"), deliveries)
        producer.flush(PATIENCE_S)
    read = WRITER.read(bootstrap, topic, 1)
    assert [(each.offset, each.value) for each in read] == [(0, b"new")]


def test_consumers_outlive_the_topic_they_read(
    bootstrap: str, admin: AdminClient, topic: str
) -> None:
    """They find themselves beyond the end of the new topic, and begin again as they were told."""

    def create_again() -> None:
        admin.delete_topics([topic])[topic].result(PATIENCE_S)
        create_topic(bootstrap, topic, 1, {})

    async def read_with_aiokafka() -> bytes | None:
        async with aio.assigned(bootstrap, topic) as third:
            await aio.take(third, 5)
            await asyncio.to_thread(create_again)
            assert first.poll(timeout_ms=200) == {}
            assert second.poll(0.2) is None
            await asyncio.to_thread(WRITER.write, bootstrap, topic, [Message(b"new")])
            return (await aio.take(third, 1))[0].value

    WRITER.write(bootstrap, topic, [Message(b"old")] * 5)
    options = {"auto.offset.reset": "earliest"}
    with (
        kafka_python.assigned(bootstrap, topic) as first,
        confluent.assigned(bootstrap, topic, options=options) as second,
    ):
        kafka_python.take(first, 5)
        confluent.take(second, 5)
        assert asyncio.run(read_with_aiokafka()) == b"new"
        assert kafka_python.take(first, 1)[0].value == b"new"
        assert confluent.take(second, 1)[0].value == b"new"


def test_deleting_what_is_not_there_is_an_error(admin: AdminClient, unmade_topic: str) -> None:
    error = error_of(admin.delete_topics([unmade_topic])[unmade_topic])
    assert error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART


# --- topics nobody created ----------------------------------------------------------------------


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
def test_a_topic_comes_into_being_when_it_is_written_to(
    bootstrap: str, unmade_topic: str, client: Client
) -> None:
    client.write(bootstrap, unmade_topic, [Message(b"first")])
    assert client.read(bootstrap, unmade_topic, 1)[0].value == b"first"


def test_a_reader_waits_for_a_topic_without_creating_it(
    bootstrap: str, admin: AdminClient, unmade_topic: str
) -> None:
    with confluent.assigned(bootstrap, unmade_topic) as consumer:
        assert consumer.poll(0.3) is None
        assert unmade_topic not in admin.list_topics(timeout=PATIENCE_S).topics
        WRITER.write(bootstrap, unmade_topic, [Message(b"first")])
        assert confluent.take(consumer, 1)[0].value == b"first"


def test_without_auto_creation_unknown_topics_are_errors(
    start_node: StartNode, tmp_path: Path
) -> None:
    node = start_node(tmp_path / "data", "--set", "auto.create.topics.enable=false")
    producer = confluent.make_producer(node.bootstrap, {"topic.metadata.propagation.max.ms": 0})
    deliveries = confluent.Deliveries()
    confluent.send(producer, "nowhere", Message(b"value"), deliveries)
    assert producer.flush(PATIENCE_S) == 0
    codes = [each.code() for each in deliveries.errors]
    assert codes in ([KafkaError._UNKNOWN_TOPIC], [KafkaError.UNKNOWN_TOPIC_OR_PART])
    with (
        closing(kafka_python.make_producer(node.bootstrap, {"max_block_ms": 500})) as other,
        pytest.raises(kafka.errors.KafkaTimeoutError),
    ):
        other.send("nowhere", b"value").get(PATIENCE_S)

    async def write() -> None:
        options = {"bootstrap_servers": node.bootstrap, "request_timeout_ms": 500}
        producer = aiokafka.AIOKafkaProducer(**options)
        await producer.start()
        try:
            await producer.send_and_wait("nowhere", b"value")
        finally:
            await producer.stop()

    with pytest.raises(aiokafka.errors.KafkaError):
        asyncio.run(write())
    with pytest.raises(RuntimeError, match="Unknown topic"):
        patience = ["-X", "topic.metadata.propagation.max.ms=0"]
        kcat(node.bootstrap, "-P", "-t", "nowhere", *patience, given=b"value")


def test_an_auto_created_topic_has_the_nodes_number_of_partitions(
    start_node: StartNode, tmp_path: Path
) -> None:
    node = start_node(tmp_path / "data", "--set", "num.partitions=4")
    WRITER.write(node.bootstrap, "made", [Message(b"value", partition=3)])
    admin = AdminClient({"bootstrap.servers": node.bootstrap, **confluent.QUIET})
    assert partitions_of(admin, "made") == 4


# --- the cluster --------------------------------------------------------------------------------


def test_everybody_sees_the_same_cluster(
    bootstrap: str, admin: AdminClient, python_admin: Any
) -> None:
    described = admin.describe_cluster().result(PATIENCE_S)
    assert [f"{node.host}:{node.port}" for node in described.nodes] == [bootstrap]
    assert described.controller.id == 1
    other = python_admin.describe_cluster()
    assert other["cluster_id"] == described.cluster_id
    assert [(each["broker_id"], each["port"]) for each in other["brokers"]] == [
        (node.id, node.port) for node in described.nodes
    ]

    async def ask() -> Any:
        client = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
        await client.start()
        try:
            return await client.describe_cluster()
        finally:
            await client.close()

    assert asyncio.run(ask())["cluster_id"] == described.cluster_id


def test_metadata_of_many_topics_is_whole(start_node: StartNode, tmp_path: Path) -> None:
    node = start_node(tmp_path / "data")
    admin = AdminClient({"bootstrap.servers": node.bootstrap, **confluent.QUIET})
    names = [f"topic-{number}" for number in range(200)]
    for future in admin.create_topics([NewTopic(name, 2) for name in names]).values():
        future.result(PATIENCE_S)
    listed = admin.list_topics(timeout=PATIENCE_S).topics
    assert {name: len(topic.partitions) for name, topic in listed.items()} == dict.fromkeys(
        names, 2
    )
    with closing(kafka.KafkaAdminClient(bootstrap_servers=node.bootstrap)) as other:
        assert sorted(other.list_topics()) == sorted(names)
    assert kcat(node.bootstrap, "-L").decode().count(" with 2 partitions:") == 200
    for future in admin.delete_topics(names).values():
        future.result(PATIENCE_S)
    assert admin.list_topics(timeout=PATIENCE_S).topics == {}
