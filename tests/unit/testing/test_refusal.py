"""An error in the shape of every API's answer, and read by somebody else's codec."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.serial import entity_reader
from tests.unit.wire.instances import instances, joined, kio_class, kio_versions, name_of

from tidelog.model.errors import ErrorCode
from tidelog.testing.refusal import refusal
from tidelog.wire.codec import encode_body
from tidelog.wire.messages import API_BY_KEY, APIS, Api
from tidelog.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tidelog.wire.messages.delete_groups import DeleteGroupsRequest
from tidelog.wire.messages.delete_topics import DeleteTopicsRequest
from tidelog.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from tidelog.wire.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from tidelog.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tidelog.wire.messages.find_coordinator import FindCoordinatorRequest
from tidelog.wire.messages.join_group import JoinGroupRequest
from tidelog.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tidelog.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from tidelog.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tidelog.wire.requests import RequestHeader
from tidelog.wire.schema import schema_of

ERROR = ErrorCode.NOT_LEADER_OR_FOLLOWER


def refused(request: Any, version: int, error: ErrorCode = ERROR) -> Any:
    api_key = schema_of(type(request)).api_key
    assert api_key is not None
    return refusal(RequestHeader(api_key, version, 1), request, error)


def errors_in(value: Any) -> Iterator[int]:
    """Every error code of a message, kio's or ours."""
    if isinstance(value, list | tuple):
        for element in value:
            yield from errors_in(element)
    elif is_dataclass(value) and not isinstance(value, type):
        for field in fields(value):
            if field.name == "error_code":
                yield int(getattr(value, field.name))
            else:
                yield from errors_in(getattr(value, field.name))


@pytest.mark.parametrize("api", APIS, ids=name_of)
@settings(max_examples=15)
@given(data=st.data())
def test_a_refusal_can_be_read_and_says_nothing_but_the_error(
    api: Api, data: st.DataObject
) -> None:
    version = data.draw(st.sampled_from(kio_versions(api)))
    request = data.draw(instances(api.request_class, version))
    answer = refused(request, version)
    encoded = joined(encode_body(answer, version))
    understood, size = entity_reader(kio_class(api, "response", version))(encoded, 0)
    assert size == len(encoded)
    assert set(errors_in(answer)) <= {ERROR}
    assert set(errors_in(understood)) <= {ERROR}


@pytest.mark.parametrize("version", [3, 9, 12])
def test_a_produce_is_refused_partition_by_partition(version: int) -> None:
    data = [PartitionProduceData(index=number, records=b"") for number in (4, 2)]
    request = ProduceRequest(
        acks=-1, timeout_ms=1, topic_data=[TopicProduceData(name="orders", partition_data=data)]
    )
    (topic,) = refused(request, version).responses
    assert topic.name == "orders"
    rows = [(row.index, row.error_code, row.base_offset) for row in topic.partition_responses]
    assert rows == [(4, ERROR, -1), (2, ERROR, -1)]
    assert topic.partition_responses[0].error_message == ERROR.explanation


def test_a_fetch_is_refused_as_a_whole_and_partition_by_partition() -> None:
    wanted = FetchPartition(partition=3, fetch_offset=17, partition_max_bytes=1)
    request = FetchRequest(
        max_wait_ms=1, min_bytes=1, topics=[FetchTopic(topic="orders", partitions=[wanted])]
    )
    answer = refused(request, 12)
    (row,) = answer.responses[0].partitions
    assert answer.error_code == row.error_code == ERROR
    assert (answer.responses[0].topic, row.partition_index) == ("orders", 3)
    assert (row.high_watermark, row.records) == (-1, b"")


def test_names_stand_where_the_request_has_nothing_but_names() -> None:
    found = refused(FindCoordinatorRequest(key_type=0, coordinator_keys=["a", "b"]), 4)
    assert [(row.key, row.error_code, row.node_id) for row in found.coordinators] == [
        ("a", ERROR, -1),
        ("b", ERROR, -1),
    ]
    deleted = refused(DeleteGroupsRequest(groups_names=["g"]), 1)
    assert [(row.group_id, row.error_code) for row in deleted.results] == [("g", ERROR)]
    topics = refused(DeleteTopicsRequest(topic_names=["t"], timeout_ms=1), 3)
    assert [(row.name, row.error_code) for row in topics.responses] == [("t", ERROR)]


def test_committed_offsets_are_refused_down_to_the_partition() -> None:
    topics = [OffsetFetchRequestTopics(name="orders", partition_indexes=[0, 5])]
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=topics)])
    (group,) = refused(request, 8).groups
    assert (group.group_id, group.error_code) == ("g", ERROR)
    rows = group.topics[0].partitions
    assert [(row.partition_index, row.error_code) for row in rows] == [(0, ERROR), (5, ERROR)]
    assert {row.committed_offset for row in rows} == {-1}


def test_metadata_of_all_topics_has_no_row_to_refuse() -> None:
    assert refused(MetadataRequest(topics=None), 9).topics == []
    named = refused(MetadataRequest(topics=[MetadataRequestTopic(name="orders")]), 9)
    assert [(row.name, row.error_code) for row in named.topics] == [("orders", ERROR)]


def test_what_a_row_is_about_is_repeated_and_what_it_asked_for_is_not() -> None:
    resource = DescribeConfigsResource(
        resource_type=2, resource_name="orders", configuration_keys=None
    )
    (config,) = refused(DescribeConfigsRequest(resources=[resource]), 4).results
    assert (config.resource_type, config.resource_name, config.configs) == (2, "orders", [])
    new = CreatableTopic(name="orders", num_partitions=7, replication_factor=3)
    (topic,) = refused(CreateTopicsRequest(topics=[new], timeout_ms=1), 7).topics
    assert (topic.name, topic.num_partitions, topic.replication_factor) == ("orders", -1, -1)


def test_rows_about_something_else_are_left_out() -> None:
    topics = [DescribableLogDirTopic(topic="orders", partitions=[0])]
    answer = refused(DescribeLogDirsRequest(topics=topics), 4)
    assert (answer.error_code, answer.results) == (ERROR, [])


def test_a_member_keeps_its_id_when_it_is_refused() -> None:
    request = JoinGroupRequest(
        group_id="g", session_timeout_ms=1, member_id="me", protocol_type="consumer", protocols=[]
    )
    answer = refused(request, 5, ErrorCode.UNKNOWN_MEMBER_ID)
    assert (answer.error_code, answer.member_id) == (ErrorCode.UNKNOWN_MEMBER_ID, "me")
    assert answer.generation_id == -1


def test_every_api_of_the_node_has_a_place_for_an_error_in_some_version() -> None:
    for api in API_BY_KEY.values():
        assert "error_code" in str(_kinds(api.response_class)), api.name


def _kinds(cls: type) -> list[Any]:
    found: list[Any] = []
    for field in schema_of(cls).fields:
        element = field.type.element
        found.append(field.type.kind)
        if element is not None and element.struct is not None:
            found.append(_kinds(element.struct))
    return found
