"""Settings of topics through the node: described, changed while they run, refused when wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.support.node_driver import NodeDriver, batch_of, produce_request

from tidelog.model.errors import ErrorCode
from tidelog.model.settings import SETTINGS
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

TOPIC = 2
BROKER = 4
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
    of_node = described(node, BROKER, "1")
    assert set(of_node) == {s.name for s in SETTINGS}
    assert all(config.read_only for config in of_node.values())


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


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ([("segment.bytes", SET, "few")], ErrorCode.INVALID_CONFIG),
        ([("segment.bytes", SET, None)], ErrorCode.INVALID_CONFIG),
        ([("segment.bytes", APPEND, "1")], ErrorCode.INVALID_CONFIG),
        ([("no.such", SET, "1")], ErrorCode.INVALID_CONFIG),
        ([("cleanup.policy", SUBTRACT, "delete")], ErrorCode.INVALID_CONFIG),
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


RATE = "follower.replication.throttled.rate"


def test_the_rate_for_new_copies_is_changed_for_all_nodes_while_they_run(node: NodeDriver) -> None:
    throttle = node.node.state.replicas.membership.throttle
    assert not throttle.is_on
    assert change(node, (RATE, SET, "5000"), kind=BROKER, name="").error_code is ErrorCode.NONE
    assert throttle.rate == 5000
    told = described(node, BROKER, "1")[RATE]
    assert (told.value, told.config_source) == ("5000", 3)
    node.restart()
    assert node.node.state.replicas.membership.throttle.rate == 5000
    assert change(node, (RATE, DELETE, None), kind=BROKER, name="").error_code is ErrorCode.NONE
    assert not node.node.state.replicas.membership.throttle.is_on


def test_no_other_setting_of_nodes_is_changed_by_clients(node: NodeDriver) -> None:
    other = change(node, ("num.partitions", SET, "5"), kind=BROKER, name="")
    assert other.error_code is ErrorCode.INVALID_CONFIG
    assert "tidelog serve --set" in other.error_message
    wrong = change(node, (RATE, SET, "0"), kind=BROKER, name="")
    assert wrong.error_code is ErrorCode.INVALID_CONFIG
    of_one = change(node, (RATE, SET, "5000"), kind=BROKER, name="1")
    assert of_one.error_code is ErrorCode.INVALID_REQUEST
