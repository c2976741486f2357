"""What administrators ask and this node answers by itself: access rules, directories, features."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.node_driver import NodeDriver

from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from tidelog.wire.messages.api_versions import ApiVersionsRequest
from tidelog.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from tidelog.wire.messages.create_acls import AclCreation, CreateAclsRequest
from tidelog.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from tidelog.wire.messages.describe_acls import DescribeAclsRequest
from tidelog.wire.messages.describe_cluster import DescribeClusterRequest
from tidelog.wire.messages.describe_groups import DescribeGroupsRequest
from tidelog.wire.messages.describe_log_dirs import DescribeLogDirsRequest
from tidelog.wire.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from tidelog.wire.messages.find_coordinator import FindCoordinatorRequest
from tidelog.wire.messages.init_producer_id import InitProducerIdRequest
from tidelog.wire.messages.metadata import MetadataRequest
from tidelog.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest

NOT_ASKED = -(2**31)
ON_TOPIC, ON_GROUP, ON_CLUSTER = 3576, 3400, 8096
"""As Apache Kafka answers without an authorizer."""


@pytest.fixture
def node(tmp_path: Path) -> NodeDriver:
    node = NodeDriver(tmp_path)
    node.create_topic("orders", partitions=2)
    return node


def test_questions_about_acls_are_answered_that_there_are_none(node: NodeDriver) -> None:
    wanted = DescribeAclsRequest(
        resource_type_filter=1,
        resource_name_filter=None,
        principal_filter=None,
        host_filter=None,
        operation=1,
        permission_type=1,
    )
    rule = AclCreation(
        resource_type=2,
        resource_name="orders",
        principal="User:me",
        host="*",
        operation=3,
        permission_type=3,
    )
    unwanted = DeleteAclsFilter(
        resource_type_filter=1,
        resource_name_filter=None,
        principal_filter=None,
        host_filter=None,
        operation=1,
        permission_type=1,
    )
    described = node.request(wanted)
    created = node.request(CreateAclsRequest(creations=[rule, rule])).results
    deleted = node.request(DeleteAclsRequest(filters=[unwanted])).filter_results
    for answer in (described, *created, *deleted):
        assert answer.error_code is ErrorCode.SECURITY_DISABLED
        assert "no authorizer" in answer.error_message
    assert (len(created), len(deleted)) == (2, 1)


def test_everything_is_allowed_who_asks_is_told(node: NodeDriver) -> None:
    metadata = node.request(
        MetadataRequest(
            topics=None,
            include_topic_authorized_operations=True,
            include_cluster_authorized_operations=True,
        ),
        version=10,
    )
    assert metadata.topics[0].topic_authorized_operations == ON_TOPIC
    assert metadata.cluster_authorized_operations == ON_CLUSTER
    cluster = node.request(DescribeClusterRequest(include_cluster_authorized_operations=True))
    assert cluster.cluster_authorized_operations == ON_CLUSTER
    request = DescribeTopicPartitionsRequest(topics=[TopicRequest(name="orders")])
    assert node.request(request).topics[0].topic_authorized_operations == ON_TOPIC


def test_who_does_not_ask_is_not_told_whoever_asked_before(node: NodeDriver) -> None:
    for is_asked in (True, False, True):
        request = MetadataRequest(topics=None, include_topic_authorized_operations=is_asked)
        topic = node.request(request, version=10).topics[0]
        assert topic.topic_authorized_operations == (ON_TOPIC if is_asked else NOT_ASKED)
    metadata = node.request(MetadataRequest(topics=None), version=10)
    assert metadata.topics[0].topic_authorized_operations == NOT_ASKED
    assert metadata.cluster_authorized_operations == NOT_ASKED


@pytest.mark.parametrize(("is_asked", "told"), [(True, ON_GROUP), (False, NOT_ASKED)])
def test_what_is_allowed_with_a_group_is_told(node: NodeDriver, is_asked: bool, told: int) -> None:
    node.request(FindCoordinatorRequest(key="g", coordinator_keys=["g"]))
    request = DescribeGroupsRequest(groups=["g"], include_authorized_operations=is_asked)
    assert node.request(request, version=5).groups[0].authorized_operations == told


def test_nothing_is_told_of_a_group_that_is_not_there(node: NodeDriver) -> None:
    node.request(FindCoordinatorRequest(key="g", coordinator_keys=["g"]))
    request = ConsumerGroupDescribeRequest(group_ids=["g"], include_authorized_operations=True)
    answer = node.request(request).groups[0]
    assert (answer.error_code, answer.authorized_operations) == (69, NOT_ASKED)


def test_a_replica_may_be_moved_to_where_it_is_and_nowhere_else(node: NodeDriver) -> None:
    there = node.request(DescribeLogDirsRequest(topics=None)).results[0].log_dir
    request = AlterReplicaLogDirsRequest(
        dirs=[
            AlterReplicaLogDir(
                path=there, topics=[AlterReplicaLogDirTopic(name="orders", partitions=[0, 7])]
            ),
            AlterReplicaLogDir(
                path="/elsewhere", topics=[AlterReplicaLogDirTopic(name="orders", partitions=[1])]
            ),
        ]
    )
    (topic,) = node.request(request).results
    assert {row.partition_index: row.error_code for row in topic.partitions} == {
        0: ErrorCode.NONE,
        7: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        1: ErrorCode.LOG_DIR_NOT_FOUND,
    }


def test_the_features_of_the_release_are_told_and_stay(node: NodeDriver) -> None:
    answer = node.request(ApiVersionsRequest())
    final = {row.name: row.max_version_level for row in answer.finalized_features}
    assert {row.name: row.max_version for row in answer.supported_features} == final
    assert final["group.version"] == 1
    assert "transaction.version" not in final
    same = FeatureUpdateKey(feature="group.version", max_version_level=1)
    other = FeatureUpdateKey(feature="group.version", max_version_level=2)
    unknown = FeatureUpdateKey(feature="transaction.version", max_version_level=2)
    assert node.request(UpdateFeaturesRequest(feature_updates=[same])).error_code == 0
    request = UpdateFeaturesRequest(feature_updates=[same, other, unknown])
    rows = node.request(request, version=1).results
    refused = ErrorCode.INVALID_UPDATE_VERSION
    assert [row.error_code for row in rows] == [ErrorCode.NONE, refused, refused]
    whole = node.request(request, version=2)
    assert (whole.error_code, "can't be changed" in whole.error_message) == (refused, True)


@pytest.mark.parametrize(
    ("version", "code"),
    [
        (1, ErrorCode.UNSUPPORTED_VERSION),
        (2, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
        (6, ErrorCode.UNSUPPORTED_VERSION),
    ],
)
def test_transactions_are_refused_so_that_clients_give_up_at_once(
    node: NodeDriver, version: int, code: ErrorCode
) -> None:
    """librdkafka, which speaks version 2, tries for ever after any other code."""
    request = FindCoordinatorRequest(key="mine", coordinator_keys=["mine"], key_type=1)
    answer = node.request(request, version=version)
    row = answer.coordinators[0] if version >= 4 else answer
    assert row.error_code is code
    assert "transactions are not supported yet" in row.error_message
    begin = InitProducerIdRequest(transactional_id="mine", transaction_timeout_ms=1000)
    assert node.request(begin).error_code is ErrorCode.UNSUPPORTED_VERSION
