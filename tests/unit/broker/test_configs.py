"""Settings of topics through the node: described, changed while they run, refused when wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.support.node_driver import NodeDriver, batch_of, produce_request

from tidelog.model.errors import ErrorCode
from tidelog.model.settings import SETTINGS
from tidelog.partition.throttle import Throttle
from tidelog.wire.messages.alter_configs import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
)
from tidelog.wire.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from tidelog.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from tidelog.wire.messages.describe_log_dirs import DescribeLogDirsRequest
from tidelog.wire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from tidelog.wire.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
)
from tidelog.wire.messages.incremental_alter_configs import (
    AlterableConfig as Change,
)
from tidelog.wire.messages.incremental_alter_configs import (
    AlterConfigsResource as ChangedResource,
)
from tidelog.wire.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from tidelog.wire.messages.list_config_resources import ListConfigResourcesRequest

TOPIC = 2
BROKER = 4
BROKER_LOGGER = 8
GROUP = 32
RATE = "follower.replication.throttled.rate"
LEADER_RATE = "leader.replication.throttled.rate"
SET, DELETE, APPEND, SUBTRACT = range(4)


@pytest.fixture
def node(tmp_path: Path) -> NodeDriver:
    node = NodeDriver(tmp_path, segment_bytes="2048")
    node.create_topic("orders")
    return node


def described(node: NodeDriver, kind: int = TOPIC, name: str = "orders") -> dict[str, Any]:
    resource = DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=None
    )
    request = DescribeConfigsRequest(
        resources=[resource], include_synonyms=True, include_documentation=True
    )
    result = node.request(request).results[0]
    assert result.error_code is ErrorCode.NONE
    return {config.name: config for config in result.configs}


def change(node: NodeDriver, *changes: tuple[str, int, str | None], **where: Any) -> Any:
    resource = ChangedResource(
        resource_type=where.get("kind", TOPIC),
        resource_name=where.get("name", "orders"),
        configs=[
            Change(name=name, config_operation=operation, value=value)
            for name, operation, value in changes
        ],
    )
    request = IncrementalAlterConfigsRequest(
        resources=[resource], validate_only=where.get("validate_only", False)
    )
    return node.request(request).responses[0]


def test_every_setting_is_described_with_its_source(node: NodeDriver) -> None:
    configs = described(node)
    assert set(configs) == {s.name for s in SETTINGS if s.scope == "topic"}
    given = configs["segment.bytes"]
    assert (given.value, given.config_source) == ("2048", 4)
    assert [synonym.source for synonym in given.synonyms] == [4, 5]
    assert configs["retention.ms"].config_source == 5
    assert all(config.documentation for config in configs.values())
    names = [(synonym.source, synonym.name) for synonym in given.synonyms]
    assert names == [(4, "log.segment.bytes"), (5, "log.segment.bytes")]


def test_a_topics_own_value_comes_before_what_the_node_would_give_it(node: NodeDriver) -> None:
    change(node, ("retention.ms", SET, "60000"), ("segment.bytes", SET, "4096"))
    configs = described(node)
    told = {
        name: [(each.source, each.name, each.value) for each in configs[name].synonyms]
        for name in ("retention.ms", "segment.bytes")
    }
    assert told == {
        "retention.ms": [(1, "retention.ms", "60000"), (5, "log.retention.ms", "604800000")],
        "segment.bytes": [
            (1, "segment.bytes", "4096"),
            (4, "log.segment.bytes", "2048"),
            (5, "log.segment.bytes", "1073741824"),
        ],
    }


def test_the_loggers_of_a_node_are_a_resource_without_settings(node: NodeDriver) -> None:
    assert described(node, BROKER_LOGGER, "1") == {}
    other = DescribeConfigsResource(
        resource_type=BROKER_LOGGER, resource_name="2", configuration_keys=None
    )
    refused = node.request(DescribeConfigsRequest(resources=[other])).results[0]
    assert refused.error_code is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("role", ["leader", "follower"])
def test_all_replicas_are_throttled_or_those_that_are_listed(node: NodeDriver, role: str) -> None:
    name = f"{role}.replication.throttled.replicas"
    for text in ("*", "0:1,0:2", ""):
        assert change(node, (name, SET, text)).error_code is ErrorCode.NONE
    change(node, (name, SET, "*"))
    for operation, text in ((SET, "*,0:1"), (SET, "0:1, *"), (SET, "*,*"), (APPEND, "0:1")):
        refused = change(node, (name, operation, text))
        assert refused.error_code is ErrorCode.INVALID_CONFIG
        assert f"{name} is * alone" in refused.error_message
    assert described(node)[name].value == "*"


def test_the_nodes_configs_are_those_tools_for_kafka_look_for(node: NodeDriver) -> None:
    of_node = described(node, BROKER, "1")
    assert {s.name for s in SETTINGS if s.scope != "group"} <= set(of_node)
    changeable = {name for name, config in of_node.items() if not config.read_only}
    assert changeable == {
        RATE,
        LEADER_RATE,
        "replica.alter.log.dirs.io.max.bytes.per.second",
        "clock.confirmed.ms",
    }
    told = {name: (config.value, config.config_source) for name, config in of_node.items()}
    listener = "PLAINTEXT://127.0.0.1:9092"
    assert told["node.id"] == told["broker.id"] == ("1", 4)
    assert told["listeners"] == told["advertised.listeners"] == (listener, 4)
    assert told["log.dirs"] == ("/", 4)
    assert told["process.roles"] == ("broker,controller", 4)
    assert told["log.segment.bytes"] == told["segment.bytes"] == ("2048", 4)
    assert told["log.retention.ms"] == ("604800000", 5)
    assert told["log.retention.hours"] == ("168", 5)
    assert told["message.max.bytes"] == ("1048588", 5)
    asked = DescribeConfigsResource(
        resource_type=BROKER, resource_name="1", configuration_keys=["log.dirs"]
    )
    result = node.request(DescribeConfigsRequest(resources=[asked])).results[0]
    assert [config.name for config in result.configs] == ["log.dirs"]


def test_a_setting_changes_while_the_topic_runs_and_survives(node: NodeDriver) -> None:
    assert change(node, ("max.message.bytes", SET, "100")).error_code is ErrorCode.NONE
    refused = node.produce("orders", b"x" * 200)
    assert refused.error_code is ErrorCode.MESSAGE_TOO_LARGE
    node.restart()
    assert described(node)["max.message.bytes"].config_source == 1
    assert change(node, ("max.message.bytes", DELETE, None)).error_code is ErrorCode.NONE
    assert node.produce("orders", b"x" * 200).error_code is ErrorCode.NONE


def test_a_list_grows_and_shrinks(node: NodeDriver) -> None:
    assert change(node, ("cleanup.policy", APPEND, "compact")).error_code is ErrorCode.NONE
    assert described(node)["cleanup.policy"].value == "delete,compact"
    assert change(node, ("cleanup.policy", SUBTRACT, "delete")).error_code is ErrorCode.NONE
    assert described(node)["cleanup.policy"].value == "compact"
    assert change(node, ("cleanup.policy", SUBTRACT, "compact")).error_code is ErrorCode.NONE
    assert described(node)["cleanup.policy"].value == ""
    assert change(node, ("cleanup.policy", APPEND, "delete")).error_code is ErrorCode.NONE
    assert described(node)["cleanup.policy"].value == "delete"


def test_deleting_a_setting_that_is_unknown_does_not_refuse_the_others(node: NodeDriver) -> None:
    wanted = [("no.such", DELETE, None), ("segment.ms", SET, " 1000 ")]
    assert change(node, *wanted).error_code is ErrorCode.NONE
    assert described(node)["segment.ms"].value == "1000"
    assert dict(node.node.state.image.topics["orders"].configs) == {"segment.ms": "1000"}


def test_settings_of_kafka_that_change_nothing_here_are_kept_and_shown(node: NodeDriver) -> None:
    assert change(node, ("flush.ms", SET, "1000"), ("preallocate", SET, "true")).error_code == 0
    assert change(node, ("remote.storage.enable", SET, "false")).error_code is ErrorCode.NONE
    configs = described(node)
    assert (configs["flush.ms"].value, configs["preallocate"].value) == ("1000", "true")
    assert "Changes nothing" in configs["flush.ms"].documentation
    refused = change(node, ("remote.storage.enable", SET, "true"))
    assert refused.error_code is ErrorCode.INVALID_CONFIG
    node.restart()
    assert described(node)["flush.ms"].config_source == 1


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ([("segment.bytes", SET, "few")], ErrorCode.INVALID_CONFIG),
        ([("segment.bytes", SET, None)], ErrorCode.INVALID_CONFIG),
        ([("segment.bytes", APPEND, "1")], ErrorCode.INVALID_CONFIG),
        ([("no.such", SET, "1")], ErrorCode.INVALID_CONFIG),
        ([("no.such", SUBTRACT, "1")], ErrorCode.INVALID_CONFIG),
        ([("segment.ms", SET, "1000"), ("segment.ms", SET, "2")], ErrorCode.INVALID_REQUEST),
        ([("segment.ms", 9, "1")], ErrorCode.INVALID_REQUEST),
        ([("segment.ms", SET, "1000"), ("no.such", SET, "1")], ErrorCode.INVALID_CONFIG),
    ],
)
def test_a_wrong_change_changes_nothing_and_says_why(
    node: NodeDriver, changes: list[tuple[str, int, str | None]], error: ErrorCode
) -> None:
    before = {name: config.value for name, config in described(node).items()}
    answer = change(node, *changes)
    assert answer.error_code is error
    assert answer.error_message
    assert {name: config.value for name, config in described(node).items()} == before


def test_unknown_topics_and_the_node_itself_are_refused(node: NodeDriver) -> None:
    unknown = change(node, ("segment.ms", SET, "1"), name="nowhere")
    assert unknown.error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert change(node, ("a", SET, "1"), kind=16, name="m").error_code is ErrorCode.INVALID_REQUEST
    of_node = change(node, ("segment.ms", SET, "1"), kind=BROKER, name="1")
    assert of_node.error_code is ErrorCode.INVALID_REQUEST
    assert "--set" in of_node.error_message


def test_validate_only_changes_nothing(node: NodeDriver) -> None:
    answer = change(node, ("segment.ms", SET, "1000"), validate_only=True)
    assert answer.error_code is ErrorCode.NONE
    assert described(node)["segment.ms"].config_source == 5


def test_the_old_way_replaces_everything(node: NodeDriver) -> None:
    change(node, ("segment.ms", SET, "1000"))
    resource = AlterConfigsResource(
        resource_type=TOPIC,
        resource_name="orders",
        configs=[AlterableConfig(name="retention.ms", value="5000")],
    )
    answer = node.request(AlterConfigsRequest(resources=[resource])).responses[0]
    assert answer.error_code is ErrorCode.NONE
    configs = described(node)
    assert configs["retention.ms"].value == "5000"
    assert configs["segment.ms"].config_source == 5


def test_the_watermark_does_not_fall_back_when_flushing_begins(tmp_path: Path) -> None:
    node = NodeDriver(tmp_path, flush_policy="os")
    node.create_topic("orders")
    node.produce("orders", b"seen")
    leader = node.node.state.replicas.find("orders", 0)
    assert not isinstance(leader, ErrorCode)
    assert leader.high_watermark == 1
    change(node, ("flush.policy", SET, "ack"))
    assert leader.high_watermark == 1
    node.holds_flushes = True
    number = node.submit(produce_request("orders", batch_of(b"later")), version=9)
    assert number not in node.responses
    assert leader.high_watermark == 1
    node.finish_flushes()
    assert leader.high_watermark == 2


def test_a_topic_gets_more_partitions_and_never_fewer(node: NodeDriver) -> None:
    def grow(count: int, assignments: list[list[int]] | None = None) -> ErrorCode:
        topic = CreatePartitionsTopic(
            name="orders",
            count=count,
            assignments=None
            if assignments is None
            else [CreatePartitionsAssignment(broker_ids=nodes) for nodes in assignments],
        )
        request = CreatePartitionsRequest(topics=[topic], timeout_ms=1000)
        error: ErrorCode = node.request(request).results[0].error_code
        return error

    assert grow(3) is ErrorCode.NONE
    assert grow(3) is ErrorCode.INVALID_PARTITIONS
    assert grow(1) is ErrorCode.INVALID_PARTITIONS
    assert grow(4, [[1]]) is ErrorCode.NONE
    assert grow(6, [[1]]) is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert grow(5, [[7]]) is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    request = produce_request("orders", batch_of(b"x"), partition=3)
    answer = node.request(request, version=9).responses[0].partition_responses[0]
    assert answer.error_code is ErrorCode.NONE
    node.restart()
    assert len(node.node.state.image.topics["orders"].partitions) == 4


def test_partitions_are_described_a_page_at_a_time(node: NodeDriver) -> None:
    node.create_topic("a", partitions=3)
    node.create_topic("b", partitions=3)
    seen: list[tuple[str, int]] = []
    cursor: Cursor | None = None
    for _ in range(10):
        request = DescribeTopicPartitionsRequest(
            topics=[], response_partition_limit=2, cursor=cursor
        )
        page = node.request(request)
        seen += [
            (topic.name, partition.partition_index)
            for topic in page.topics
            for partition in topic.partitions
        ]
        cursor = page.next_cursor
        if cursor is None:
            break
    assert seen == [("a", 0), ("a", 1), ("a", 2), ("b", 0), ("b", 1), ("b", 2), ("orders", 0)]


def test_log_directories_tell_sizes(node: NodeDriver) -> None:
    node.produce("orders", b"x" * 500)
    result = node.request(DescribeLogDirsRequest(topics=None)).results[0]
    assert result.topics[0].partitions[0].partition_size > 500
    assert result.log_dir == node.node.state.config.data_dir
    assert not result.is_cordoned


def test_producers_are_described(node: NodeDriver) -> None:
    batch = batch_of(b"a", b"b", producer_id=7, producer_epoch=0, base_sequence=0)
    node.request(produce_request("orders", batch), version=9)
    request = DescribeProducersRequest(
        topics=[TopicRequest(name="orders", partition_indexes=[0, 9])]
    )
    known, unknown = node.request(request).topics[0].partitions
    assert [(p.producer_id, p.last_sequence) for p in known.active_producers] == [(7, 1)]
    assert unknown.error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_the_node_dates_records_where_it_is_asked_to(node: NodeDriver) -> None:
    assert node.produce("orders", b"x").log_append_time_ms == -1
    change(node, ("message.timestamp.type", SET, "LogAppendTime"))
    assert node.produce("orders", b"y").log_append_time_ms == node.now.wall_ms


# --- nodes ------------------------------------------------------------------------------------


def test_the_rate_for_new_copies_is_changed_for_all_nodes_while_they_run(node: NodeDriver) -> None:
    def throttle() -> Throttle:
        return node.node.state.replicas.membership.throttle

    assert not throttle().is_on
    assert change(node, (RATE, SET, "5000"), kind=BROKER, name="").error_code is ErrorCode.NONE
    assert throttle().rate == 5000
    told = described(node, BROKER, "1")[RATE]
    assert (told.value, told.config_source) == ("5000", 3)
    assert {name: config.value for name, config in described(node, BROKER, "").items()} == {
        RATE: "5000"
    }
    node.restart()
    assert throttle().rate == 5000
    assert change(node, (RATE, DELETE, None), kind=BROKER, name="").error_code is ErrorCode.NONE
    assert not throttle().is_on


def test_the_rates_of_one_node_are_changed_as_kafkas_reassignment_tool_does(
    node: NodeDriver,
) -> None:
    membership = node.node.state.replicas.membership
    change(node, (RATE, SET, "5000"), kind=BROKER, name="")
    given = [(LEADER_RATE, SET, "700"), (RATE, SET, "800")]
    assert change(node, *given, kind=BROKER, name="1").error_code is ErrorCode.NONE
    assert (membership.leader_throttle.rate, membership.throttle.rate) == (700, 800)
    told = described(node, BROKER, "1")[RATE]
    assert [(s.source, s.value) for s in told.synonyms][:2] == [(2, "800"), (3, "5000")]
    node.restart()
    membership = node.node.state.replicas.membership
    assert (membership.leader_throttle.rate, membership.throttle.rate) == (700, 800)
    cleared = [
        (name, DELETE, None)
        for name in (LEADER_RATE, RATE, "replica.alter.log.dirs.io.max.bytes.per.second")
    ]
    assert change(node, *cleared, kind=BROKER, name="1").error_code is ErrorCode.NONE
    assert (membership.leader_throttle.is_on, membership.throttle.rate) == (False, 5000)


@pytest.mark.parametrize(
    ("where", "setting", "error"),
    [
        ("", ("num.partitions", SET, "5"), ErrorCode.INVALID_REQUEST),
        ("", ("no.such", SET, "5"), ErrorCode.INVALID_REQUEST),
        ("", (RATE, SET, "0"), ErrorCode.INVALID_REQUEST),
        ("", (RATE, SET, None), ErrorCode.INVALID_REQUEST),
        ("", (RATE, APPEND, "1"), ErrorCode.INVALID_REQUEST),
        ("one", (RATE, SET, "5"), ErrorCode.INVALID_REQUEST),
        ("7", (RATE, SET, "5"), ErrorCode.BROKER_ID_NOT_REGISTERED),
        ("01", (RATE, SET, "5"), ErrorCode.BROKER_ID_NOT_REGISTERED),
        pytest.param("9" * 5000, (RATE, SET, "5"), ErrorCode.BROKER_ID_NOT_REGISTERED, id="long"),
    ],
)
def test_what_can_not_be_changed_of_a_node_is_refused_in_words(
    node: NodeDriver, where: str, setting: tuple[str, int, str | None], error: ErrorCode
) -> None:
    refused = change(node, setting, kind=BROKER, name=where)
    assert refused.error_code is error
    assert refused.error_message


# --- groups -----------------------------------------------------------------------------------

SESSION = "consumer.session.timeout.ms"
INTERVAL = "consumer.heartbeat.interval.ms"


def test_a_group_has_settings_of_its_own_and_they_survive(node: NodeDriver) -> None:
    before = described(node, GROUP, "billing")
    assert {name: config.value for name, config in before.items()} == {
        SESSION: "45000",
        INTERVAL: "5000",
    }
    assert before[SESSION].config_source == 5
    given = [(SESSION, SET, "50000"), (INTERVAL, SET, "6000"), ("no.such", DELETE, None)]
    assert change(node, *given, kind=GROUP, name="billing").error_code is ErrorCode.NONE
    node.restart()
    told = described(node, GROUP, "billing")[SESSION]
    assert (told.value, told.config_source, told.read_only) == ("50000", 8, False)
    assert [(s.source, s.name) for s in told.synonyms] == [(8, SESSION), (5, f"group.{SESSION}")]
    topics = node.node.state.coordinators._topics
    assert dict(topics.group_configs("billing")) == {SESSION: "50000", INTERVAL: "6000"}
    assert dict(topics.group_configs("other")) == {}
    replaced = AlterConfigsResource(
        resource_type=GROUP,
        resource_name="billing",
        configs=[AlterableConfig(name=INTERVAL, value="7000")],
    )
    answer = node.request(AlterConfigsRequest(resources=[replaced])).responses[0]
    assert answer.error_code is ErrorCode.NONE
    assert dict(topics.group_configs("billing")) == {INTERVAL: "7000"}
    assert change(node, (INTERVAL, DELETE, None), kind=GROUP, name="billing").error_code == 0
    assert not node.node.state.image.resource_configs


@pytest.mark.parametrize(
    ("name", "setting", "error", "said"),
    [
        ("", (SESSION, SET, "50000"), ErrorCode.INVALID_REQUEST, "name"),
        ("g", (SESSION, SET, "44999"), ErrorCode.INVALID_CONFIG, "group.consumer.min.session"),
        ("g", (SESSION, SET, "60001"), ErrorCode.INVALID_CONFIG, "group.consumer.max.session"),
        ("g", (INTERVAL, SET, "15001"), ErrorCode.INVALID_CONFIG, "max.heartbeat.interval.ms"),
        ("g", (INTERVAL, SET, "soon"), ErrorCode.INVALID_CONFIG, "whole number"),
        ("g", ("share.session.timeout.ms", SET, "50000"), ErrorCode.INVALID_CONFIG, "unknown"),
        ("g", ("retention.ms", SET, "50000"), ErrorCode.INVALID_CONFIG, "unknown"),
    ],
)
def test_a_groups_settings_have_bounds(
    node: NodeDriver,
    name: str,
    setting: tuple[str, int, str | None],
    error: ErrorCode,
    said: str,
) -> None:
    refused = change(node, setting, kind=GROUP, name=name)
    assert refused.error_code is error
    assert said in refused.error_message
    assert not node.node.state.image.resource_configs


def test_a_session_must_be_longer_than_the_interval_of_heartbeats(tmp_path: Path) -> None:
    node = NodeDriver(tmp_path, group_consumer_max_heartbeat_interval_ms="50000")
    refused = change(node, (INTERVAL, SET, "45000"), kind=GROUP, name="g")
    assert refused.error_code is ErrorCode.INVALID_CONFIG
    assert "must be greater" in refused.error_message


def test_what_has_settings_is_listed(node: NodeDriver) -> None:
    def listed(*kinds: int, version: int = 1) -> list[tuple[int, str]]:
        request = ListConfigResourcesRequest(resource_types=list(kinds))
        found = node.request(request, version=version).config_resources
        return [(each.resource_type, each.resource_name) for each in found]

    change(node, (SESSION, SET, "50000"), kind=GROUP, name="billing")
    change(node, (RATE, SET, "5000"), kind=BROKER, name="1")
    logger = (BROKER_LOGGER, "1")
    assert listed() == [(TOPIC, "orders"), (BROKER, "1"), logger, (GROUP, "billing")]
    assert listed(BROKER) == [(BROKER, "1")]
    assert listed(BROKER_LOGGER) == [logger]
    assert listed(GROUP, 16) == [(GROUP, "billing")]
    assert listed(version=0) == []
    unknown = node.request(ListConfigResourcesRequest(resource_types=[77]), version=1)
    assert unknown.error_code is ErrorCode.UNSUPPORTED_VERSION
