"""Groups, configs, partitions and records, as administrators' clients see and change them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import kafka
import kafka.admin
import pytest
from aiokafka.admin import AIOKafkaAdminClient
from confluent_kafka import (
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    ConsumerGroupType,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import (
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
)
from confluent_kafka.admin._listoffsets import OffsetSpec
from confluent_kafka.admin._resource import ResourceType
from confluent_kafka.cimpl import NewPartitions
from tests.compat.clients import confluent
from tests.compat.clients.members import Group
from tests.compat.clients.message import PATIENCE_S, Message
from tests.compat.conftest import MakeTopic

WRITER = confluent.ConfluentKafka()
NODE_ARGUMENTS = ("--set=group.consumer.heartbeat.interval.ms=200",)
TYPES = {
    "confluent-eager": ConsumerGroupType.CLASSIC,
    "confluent-consumer": ConsumerGroupType.CONSUMER,
}
every_type = pytest.mark.parametrize("kind", TYPES)


@pytest.fixture
def admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap, **confluent.QUIET})


@pytest.fixture
def python_admin(bootstrap: str) -> Iterator[Any]:
    with closing(kafka.KafkaAdminClient(bootstrap_servers=bootstrap)) as client:
        yield client


@pytest.fixture
def group(bootstrap: str, make_topic: MakeTopic) -> Iterator[Group]:
    topic = make_topic(2)
    messages = [Message(str(each).encode(), partition=each % 2) for each in range(20)]
    WRITER.write(bootstrap, topic, messages)
    with Group(bootstrap, f"group-of-{topic}", [topic]) as group:
        yield group


def has_read_and_left(group: Group, kind: str) -> None:
    """The group is empty, and has committed 10 in each of the two partitions."""
    member = group.join(kind)
    group.has_read([str(each) for each in range(20)])
    member.leave()


def result(futures: dict[Any, Any]) -> Any:
    (future,) = futures.values()
    return future.result(PATIENCE_S)


def error_of(futures: dict[Any, Any]) -> KafkaError:
    with pytest.raises(KafkaException) as raised:
        result(futures)
    error = raised.value.args[0]
    assert isinstance(error, KafkaError)
    return error


def offsets_of(admin: AdminClient, group: Group) -> list[int]:
    asked = [TopicPartition(group.topics[0], each) for each in range(2)]
    request = ConsumerGroupTopicPartitions(group.name, asked)
    answer = result(admin.list_consumer_group_offsets([request]))
    return [each.offset for each in answer.topic_partitions]


# --- groups -------------------------------------------------------------------------------------


@every_type
def test_confluent_kafka_lists_and_describes_groups(
    admin: AdminClient, group: Group, kind: str
) -> None:
    members = group.join(kind), group.join(kind)
    group.shares(2, *members)

    def is_stable() -> bool:
        described = result(admin.describe_consumer_groups([group.name]))
        return bool(described.state == ConsumerGroupState.STABLE)

    group.until(is_stable)
    described = result(admin.describe_consumer_groups([group.name]))
    owned = [each.assignment.topic_partitions for each in described.members]
    assert sorted((each.topic, each.partition) for part in owned for each in part) == [
        (group.topics[0], 0),
        (group.topics[0], 1),
    ]
    assert (described.type, described.coordinator.id) == (TYPES[kind], 1)
    listed = admin.list_consumer_groups(
        states={ConsumerGroupState.STABLE}, types={TYPES[kind]}
    ).result(PATIENCE_S)
    assert listed.errors == []
    assert group.name in [each.group_id for each in listed.valid]
    empty = admin.list_consumer_groups(states={ConsumerGroupState.EMPTY}).result(PATIENCE_S)
    assert group.name not in [each.group_id for each in empty.valid]


@every_type
def test_confluent_kafka_lists_alters_and_deletes_offsets_and_groups(
    admin: AdminClient, group: Group, kind: str
) -> None:
    has_read_and_left(group, kind)
    assert offsets_of(admin, group) == [10, 10]
    new = ConsumerGroupTopicPartitions(group.name, [TopicPartition(group.topics[0], 0, 4)])
    result(admin.alter_consumer_group_offsets([new]))
    assert offsets_of(admin, group) == [4, 10]
    assert result(admin.delete_consumer_groups([group.name])) is None
    assert offsets_of(admin, group) == [-1001, -1001]
    gone = error_of(admin.delete_consumer_groups([group.name]))
    assert gone.code() == KafkaError.GROUP_ID_NOT_FOUND


@every_type
def test_a_living_group_is_neither_deleted_nor_moved(
    admin: AdminClient, python_admin: Any, group: Group, kind: str
) -> None:
    member = group.join(kind)
    group.shares(2, member)
    refused = error_of(admin.delete_consumer_groups([group.name]))
    assert refused.code() == KafkaError.NON_EMPTY_GROUP
    new = ConsumerGroupTopicPartitions(group.name, [TopicPartition(group.topics[0], 0, 4)])
    (partition,) = result(admin.alter_consumer_group_offsets([new])).topic_partitions
    assert partition.error.code() == KafkaError.UNKNOWN_MEMBER_ID
    where = kafka.TopicPartition(group.topics[0], 0)
    answer = python_admin.delete_group_offsets(group.name, [where])
    assert answer == {where: kafka.errors.GroupSubscribedToTopicError}


def test_a_group_that_is_not_there_is_dead_or_an_error(
    admin: AdminClient, python_admin: Any
) -> None:
    described = result(admin.describe_consumer_groups(["nobody"]))
    assert described.state == ConsumerGroupState.DEAD
    (described,) = python_admin.describe_groups(["nobody"]).values()
    assert described["group_state"] == "Dead"
    assert "GroupIdNotFound" in python_admin.delete_groups(["nobody"])["nobody"]


def test_kafka_python_lists_describes_moves_and_deletes_groups(
    python_admin: Any, group: Group
) -> None:
    member = group.join("kafka-python")
    group.has_read([str(each) for each in range(20)])
    described = python_admin.describe_groups([group.name])[group.name]
    assert (described["group_state"], described["protocol_data"]) == ("Stable", "range")
    (seen,) = described["members"]
    owned = seen["member_assignment"]["assigned_partitions"]
    assert [(each["topic"], sorted(each["partitions"])) for each in owned] == [
        (group.topics[0], [0, 1])
    ]
    member.leave()
    listed = {each["group_id"]: each for each in python_admin.list_groups()}
    assert listed[group.name]["group_state"] == "Empty"
    first, second = (kafka.TopicPartition(group.topics[0], each) for each in range(2))
    found = python_admin.list_group_offsets({group.name: None})[group.name]
    assert {where: each.offset for where, each in found.items()} == {first: 10, second: 10}
    python_admin.alter_group_offsets(group.name, {first: kafka.OffsetAndMetadata(3, "", -1)})
    python_admin.delete_group_offsets(group.name, [second])
    found = python_admin.list_group_offsets({group.name: None})[group.name]
    assert {where: each.offset for where, each in found.items()} == {first: 3}
    python_admin.reset_group_offsets(group.name, {first: kafka.admin.OffsetSpec.EARLIEST})
    found = python_admin.list_group_offsets({group.name: [first]})[group.name]
    assert found[first].offset == 0
    python_admin.delete_groups([group.name])
    assert group.name not in [each["group_id"] for each in python_admin.list_groups()]


def test_kafka_python_removes_a_static_member(python_admin: Any, group: Group) -> None:
    members = [group.join("confluent-eager", instance=name) for name in ("one", "two")]
    group.shares(2, *members)
    members[1].leave()
    one = kafka.admin.MemberToRemove(group_instance_id="two")
    python_admin.remove_group_members(group.name, [one])
    group.shares(2, members[0])


def test_aiokafka_lists_and_describes_groups(bootstrap: str, group: Group) -> None:
    has_read_and_left(group, "aiokafka")

    async def run() -> None:
        admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
        await admin.start()
        try:
            assert await admin.find_coordinator(group.name) == 1
            assert (group.name, "consumer") in await admin.list_consumer_groups()
            offsets = await admin.list_consumer_group_offsets(group.name)
            assert sorted(each.offset for each in offsets.values()) == [10, 10]
            (answer,) = await admin.describe_consumer_groups([group.name])
            assert "Empty" in str(answer)
        finally:
            await admin.close()

    asyncio.run(run())


# --- configs ------------------------------------------------------------------------------------


def topic_resource(name: str, **changes: str) -> ConfigResource:
    pairs = {setting.replace("_", "."): value for setting, value in changes.items()}
    return ConfigResource(ResourceType.TOPIC, name, set_config=pairs)


def change(setting: str, operation: AlterConfigOpType, value: str | None = None) -> ConfigEntry:
    return ConfigEntry(setting, value, incremental_operation=operation)


def configs_of(admin: AdminClient, name: str) -> dict[str, Any]:
    found = result(admin.describe_configs([topic_resource(name)]))
    assert isinstance(found, dict)
    return found


def test_confluent_kafka_describes_and_alters_configs(admin: AdminClient, topic: str) -> None:
    before = configs_of(admin, topic)
    assert before["retention.ms"].source == ConfigSource.DEFAULT_CONFIG.value
    changes = [
        change("retention.ms", AlterConfigOpType.SET, "60000"),
        change("cleanup.policy", AlterConfigOpType.APPEND, "compact"),
    ]
    new = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=changes)
    result(admin.incremental_alter_configs([new]))
    after = configs_of(admin, topic)
    assert after["retention.ms"].value == "60000"
    assert after["retention.ms"].source == ConfigSource.DYNAMIC_TOPIC_CONFIG.value
    assert set(after["cleanup.policy"].value.split(",")) == {"delete", "compact"}
    back = change("retention.ms", AlterConfigOpType.DELETE)
    new = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[back])
    result(admin.incremental_alter_configs([new]))
    assert configs_of(admin, topic)["retention.ms"].value == before["retention.ms"].value
    result(admin.alter_configs([topic_resource(topic, segment_bytes="65536")]))
    last = configs_of(admin, topic)
    assert last["segment.bytes"].value == "65536"
    assert last["cleanup.policy"].value == "delete"


@pytest.mark.parametrize(
    ("setting", "value"),
    [("retention.ms", "long"), ("no.such.setting", "1"), ("cleanup.policy", "burn")],
    ids=str,
)
def test_a_config_that_makes_no_sense_is_refused(
    admin: AdminClient, python_admin: Any, topic: str, setting: str, value: str
) -> None:
    entry = change(setting, AlterConfigOpType.SET, value)
    new = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    refused = error_of(admin.incremental_alter_configs([new]))
    assert refused.code() == KafkaError.INVALID_CONFIG
    assert setting in refused.str()
    refused = error_of(admin.alter_configs([topic_resource(topic, **{setting: value})]))
    assert refused.code() == KafkaError.INVALID_CONFIG
    resource = kafka.admin.ConfigResource("topic", topic, configs={setting: value})
    answer = python_admin.alter_configs([resource], raise_on_unknown=False)
    assert "InvalidConfig" in str(answer)


def test_settings_that_programs_for_kafka_give_their_topics_are_accepted(
    admin: AdminClient, topic: str
) -> None:
    given = {
        "flush.messages": "1",
        "segment.jitter.ms": "1000",
        "segment.index.bytes": "1048576",
        "compression.lz4.level": "12",
        "remote.storage.enable": "false",
        "local.retention.ms": "-2",
    }
    changes = [change(name, AlterConfigOpType.SET, value) for name, value in given.items()]
    changes.append(change("confluent.placement.constraints", AlterConfigOpType.DELETE))
    new = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=changes)
    result(admin.incremental_alter_configs([new]))
    now = configs_of(admin, topic)
    assert {name: now[name].value for name in given} == given


def test_configs_of_what_is_not_there_are_refused(admin: AdminClient, unmade_topic: str) -> None:
    unknown = error_of(admin.describe_configs([topic_resource(unmade_topic)]))
    assert unknown.code() == KafkaError.UNKNOWN_TOPIC_OR_PART
    unknown = error_of(admin.alter_configs([topic_resource(unmade_topic, retention_ms="1")]))
    assert unknown.code() == KafkaError.UNKNOWN_TOPIC_OR_PART


def test_the_throttles_of_a_node_are_set_and_cleared(admin: AdminClient) -> None:
    names = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")

    def alter(operation: AlterConfigOpType, value: str | None = None) -> dict[str, Any]:
        changes = [change(name, operation, value) for name in names]
        node = ConfigResource(ResourceType.BROKER, "1", incremental_configs=changes)
        result(admin.incremental_alter_configs([node]))
        found = result(admin.describe_configs([ConfigResource(ResourceType.BROKER, "1")]))
        return {name: (found[name].value, found[name].source) for name in names}

    given = ("5000000", ConfigSource.DYNAMIC_BROKER_CONFIG.value)
    assert alter(AlterConfigOpType.SET, "5000000") == dict.fromkeys(names, given)
    nothing = (str(2**63 - 1), ConfigSource.DEFAULT_CONFIG.value)
    assert alter(AlterConfigOpType.DELETE) == dict.fromkeys(names, nothing)


def test_the_nodes_configs_are_described(
    bootstrap: str, admin: AdminClient, python_admin: Any
) -> None:
    found = result(admin.describe_configs([ConfigResource(ResourceType.BROKER, "1")]))
    given = found["group.consumer.heartbeat.interval.ms"]
    assert (given.value, given.is_default) == ("200", False)
    told = {name: found[name].value for name in ("node.id", "process.roles", "log.segment.bytes")}
    assert told == {
        "node.id": "1",
        "process.roles": "broker,controller",
        "log.segment.bytes": "1073741824",
    }
    assert found["listeners"].value == f"PLAINTEXT://{bootstrap}"
    assert found["advertised.listeners"].is_read_only
    resource = kafka.admin.ConfigResource("broker", "1")
    answer = python_admin.describe_configs([resource], config_filter="all")
    assert "group.consumer.heartbeat.interval.ms" in str(answer)


def test_a_group_has_settings_of_its_own(python_admin: Any) -> None:
    def told() -> dict[str, Any]:
        resource = kafka.admin.ConfigResource(kafka.admin.ConfigResourceType.GROUP, "billing")
        found = python_admin.describe_configs([resource], config_filter="all")
        (settings,) = found["group"].values()
        return {name: each["value"] for name, each in settings.items()}

    new = {"consumer.session.timeout.ms": "50000", "consumer.heartbeat.interval.ms": "6000"}
    group = kafka.admin.ConfigResource(kafka.admin.ConfigResourceType.GROUP, "billing", new)
    python_admin.alter_configs([group])
    assert told() == new


def test_the_data_directory_is_told_by_its_absolute_path(python_admin: Any) -> None:
    (answer,) = python_admin.describe_log_dirs()
    (directory,) = answer["log_dirs"]
    path = Path(directory["log_dir"])
    assert path.is_absolute()
    assert (path / "topics").is_dir()


def test_kafka_python_describes_alters_and_resets_configs(python_admin: Any, topic: str) -> None:
    def modified() -> dict[str, Any]:
        resource = kafka.admin.ConfigResource("topic", topic)
        found = python_admin.describe_configs([resource])["topic"][topic]
        return {name: each["value"] for name, each in found.items()}

    new = kafka.admin.ConfigResource("topic", topic, configs={"retention.ms": "60000"})
    python_admin.alter_configs([new])
    assert modified()["retention.ms"] == "60000"
    python_admin.reset_configs([kafka.admin.ConfigResource("topic", topic, ["retention.ms"])])
    assert "retention.ms" not in modified()


# --- partitions, records, the cluster -----------------------------------------------------------


def test_partitions_are_added_and_never_taken_away(
    admin: AdminClient, python_admin: Any, topic: str
) -> None:
    result(admin.create_partitions([NewPartitions(topic, 3)]))
    python_admin.create_partitions({topic: kafka.admin.NewPartitions(5)})
    (described,) = result(admin.describe_topics(TopicCollection([topic]))).partitions[4:]
    assert described.id == 4
    WRITER.write(admin_bootstrap(described), topic, [Message(b"late", partition=4)])
    fewer = error_of(admin.create_partitions([NewPartitions(topic, 2)]))
    assert fewer.code() == KafkaError.INVALID_PARTITIONS
    with pytest.raises(kafka.errors.InvalidPartitionsError):
        python_admin.create_partitions({topic: kafka.admin.NewPartitions(5)})
    unknown = error_of(admin.create_partitions([NewPartitions(f"{topic}-not", 2)]))
    assert unknown.code() == KafkaError.UNKNOWN_TOPIC_OR_PART


def admin_bootstrap(partition: Any) -> str:
    return f"{partition.leader.host}:{partition.leader.port}"


def test_a_member_finds_partitions_added_while_it_reads(admin: AdminClient, group: Group) -> None:
    members = group.join("confluent-eager"), group.join("confluent-eager")
    group.shares(2, *members)
    result(admin.create_partitions([NewPartitions(group.topics[0], 4)]))
    group.shares(4, *members)


def test_records_are_deleted_up_to_an_offset(
    bootstrap: str, admin: AdminClient, python_admin: Any, topic: str
) -> None:
    WRITER.write(bootstrap, topic, [Message(str(each).encode()) for each in range(10)])
    assert result(admin.delete_records([TopicPartition(topic, 0, 4)])).low_watermark == 4
    (first,) = WRITER.read(bootstrap, topic, 1, options={"auto.offset.reset": "earliest"})
    assert first.offset == 4
    where = kafka.TopicPartition(topic, 0)
    assert python_admin.delete_records({where: 6})[where]["low_watermark"] == 6
    too_far = error_of(admin.delete_records([TopicPartition(topic, 0, 11)]))
    assert too_far.code() == KafkaError.OFFSET_OUT_OF_RANGE
    all_of_them = admin.delete_records([TopicPartition(topic, 0, -1)])
    assert result(all_of_them).low_watermark == 10


def test_offsets_are_listed_by_both(bootstrap: str, admin: AdminClient, python_admin: Any) -> None:
    """In a topic made for it by the first that writes to it."""
    name = "listed-offsets"
    WRITER.write(bootstrap, name, [Message(b"x", timestamp=1000 + each) for each in range(5)])
    spec: Any = OffsetSpec
    specs = (spec.earliest(), spec.latest(), spec.max_timestamp(), spec.for_timestamp(1002))
    where = TopicPartition(name, 0)
    answers = [result(admin.list_offsets({where: each})).offset for each in specs]
    assert answers == [0, 5, 4, 2]
    same = kafka.TopicPartition(name, 0)
    found = python_admin.list_partition_offsets({same: kafka.admin.OffsetSpec.LATEST})
    assert found[same].offset == 5


def test_kafka_python_describes_disks_partitions_and_producers(
    bootstrap: str, python_admin: Any, topic: str
) -> None:
    WRITER.write(bootstrap, topic, [Message(b"x")], options={"enable.idempotence": True})
    described = python_admin.describe_topic_partitions([topic])
    assert [each["name"] for each in described["topics"]] == [topic]
    assert topic in str(python_admin.describe_log_dirs())
    where = kafka.TopicPartition(topic, 0)
    answer = python_admin.describe_producers([where])
    assert "producer_id" in str(answer)
    assert python_admin.describe_cluster()["controller_id"] == 1
