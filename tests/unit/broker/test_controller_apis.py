"""The controller's APIs, as another node and as people's tools call them."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from tests.support.node_driver import NodeDriver

from tidelog.broker.apis.table import HANDLERS
from tidelog.broker.connections import Connection, Slot
from tidelog.broker.state import Call
from tidelog.metadata.image import PartitionState
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import ConnectionId
from tidelog.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest
from tidelog.wire.messages.alter_partition import (
    AlterPartitionRequest,
    BrokerState,
    PartitionData,
    TopicData,
)
from tidelog.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from tidelog.wire.messages.api_versions import ApiVersionsRequest
from tidelog.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from tidelog.wire.messages.broker_registration import BrokerRegistrationRequest, Listener
from tidelog.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from tidelog.wire.messages.describe_cluster import DescribeClusterRequest
from tidelog.wire.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from tidelog.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from tidelog.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from tidelog.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tidelog.wire.messages.unregister_broker import UnregisterBrokerRequest
from tidelog.wire.requests import RequestHeader
from tidelog.wire.schema import schema_of

_FENCED_TOO = DescribeClusterRequest(
    include_fenced_brokers=True, include_cluster_authorized_operations=False
)


@pytest.fixture
def driver(tmp_path: Path) -> NodeDriver:
    return NodeDriver(tmp_path)


def registration(node: int = 2) -> BrokerRegistrationRequest:
    return BrokerRegistrationRequest(
        broker_id=node,
        cluster_id="",
        incarnation_id=UUID(int=node),
        listeners=[Listener(name="PLAINTEXT", host="other", port=9093, security_protocol=0)],
        features=[],
        rack=None,
    )


def heartbeat(driver: NodeDriver, epoch: int, **wants: bool) -> BrokerHeartbeatRequest:
    return BrokerHeartbeatRequest(
        broker_id=2,
        broker_epoch=epoch,
        current_metadata_offset=driver.node.state.journal.last_offset,
        want_fence=wants.get("want_fence", False),
        want_shut_down=wants.get("want_shut_down", False),
    )


def join(driver: NodeDriver) -> int:
    """Node 2 registers and is let in; gives its epoch."""
    epoch: int = driver.request(registration()).broker_epoch
    assert not driver.request(heartbeat(driver, epoch)).is_fenced
    return epoch


def create(driver: NodeDriver, *replicas: int) -> PartitionState:
    assignment = CreatableReplicaAssignment(partition_index=0, broker_ids=list(replicas))
    topic = CreatableTopic(
        name="t", num_partitions=-1, replication_factor=-1, assignments=[assignment]
    )
    answer = driver.request(CreateTopicsRequest(topics=[topic]))
    assert answer.topics[0].error_code is ErrorCode.NONE
    return state_of(driver)


def state_of(driver: NodeDriver) -> PartitionState:
    return driver.node.state.image.topics["t"].partitions[0]


def alter(driver: NodeDriver, isr: dict[int, int], **options: Any) -> Any:
    state = state_of(driver)
    data = PartitionData(
        partition_index=0,
        leader_epoch=state.leader_epoch,
        partition_epoch=options.get("partition_epoch", state.partition_epoch),
        new_isr=list(isr),
        new_isr_with_epochs=[BrokerState(broker_id=n, broker_epoch=e) for n, e in isr.items()],
    )
    request = AlterPartitionRequest(
        broker_id=1,
        broker_epoch=options.get("epoch", 1),
        topics=[TopicData(topic_id=state.key.topic_id, partitions=[data])],
    )
    return driver.request(request, version=options.get("version"))


def reassign(driver: NodeDriver, replicas: list[int] | None) -> Any:
    partition = ReassignablePartition(partition_index=0, replicas=replicas)
    topic = ReassignableTopic(name="t", partitions=[partition])
    return driver.request(AlterPartitionReassignmentsRequest(topics=[topic]))


def brokers(driver: NodeDriver) -> list[int]:
    answer = driver.request(MetadataRequest(topics=[]))
    return [broker.node_id for broker in answer.brokers]


def test_a_node_registers_and_is_seen_once_it_is_let_in(driver: NodeDriver) -> None:
    answer = driver.request(registration())
    assert (answer.error_code, answer.broker_epoch) == (ErrorCode.NONE, 2)
    assert brokers(driver) == [1]
    known = driver.request(_FENCED_TOO).brokers
    assert [(each.broker_id, each.is_fenced) for each in known] == [(1, False), (2, True)]
    beat = driver.request(heartbeat(driver, 2))
    assert (beat.is_caught_up, beat.is_fenced, beat.should_shut_down) == (True, False, False)
    assert brokers(driver) == [1, 2]


def test_the_answer_leaves_when_the_registration_is_durable(driver: NodeDriver) -> None:
    driver.holds_flushes = True
    asked = driver.submit(registration())
    assert asked not in driver.responses
    driver.finish_flushes()
    assert driver.responses[asked].broker_epoch == 2


def test_nobody_takes_the_controllers_own_id(driver: NodeDriver) -> None:
    refused = driver.request(registration(node=1))
    assert refused.error_code is ErrorCode.DUPLICATE_BROKER_REGISTRATION
    beat = heartbeat(driver, 1, want_fence=True)
    beat.broker_id = 1
    assert driver.request(beat).error_code is ErrorCode.STALE_BROKER_EPOCH
    assert brokers(driver) == [1]


def test_a_stale_heartbeat_is_refused(driver: NodeDriver) -> None:
    epoch = join(driver)
    answer = driver.request(heartbeat(driver, epoch - 1))
    assert (answer.error_code, answer.is_fenced) == (ErrorCode.STALE_BROKER_EPOCH, True)


@pytest.mark.parametrize("version", [2, 3])
def test_a_leader_changes_its_isr(driver: NodeDriver, version: int) -> None:
    epoch = join(driver)
    create(driver, 1, 2)
    answer = alter(driver, {1: 1}, version=version).topics[0].partitions[0]
    assert (answer.error_code, answer.isr, answer.partition_epoch) == (ErrorCode.NONE, [1], 1)
    answer = alter(driver, {1: 1, 2: epoch}, version=version).topics[0].partitions[0]
    assert (answer.leader_id, answer.isr, answer.partition_epoch) == (1, [1, 2], 2)


def test_a_refused_isr_carries_no_numbers(driver: NodeDriver) -> None:
    epoch = join(driver)
    create(driver, 1, 2)
    answer = alter(driver, {1: 1}, partition_epoch=9).topics[0].partitions[0]
    assert answer.error_code is ErrorCode.NOT_CONTROLLER
    assert (answer.leader_id, answer.leader_epoch, answer.partition_epoch) == (-1, -1, -1)
    answer = alter(driver, {1: 1, 2: epoch + 1}).topics[0].partitions[0]
    assert answer.error_code is ErrorCode.INELIGIBLE_REPLICA
    answer = alter(driver, {1: 1}, epoch=7)
    assert (answer.error_code, answer.topics) == (ErrorCode.STALE_BROKER_EPOCH, [])


def test_a_partition_is_moved_listed_and_left_where_it_was(driver: NodeDriver) -> None:
    join(driver)
    create(driver, 1)
    answer = reassign(driver, [2])
    assert answer.responses[0].partitions[0].error_code is ErrorCode.NONE
    listed = driver.request(ListPartitionReassignmentsRequest()).topics
    assert [(topic.name, len(topic.partitions)) for topic in listed] == [("t", 1)]
    moving = listed[0].partitions[0]
    assert (moving.replicas, moving.adding_replicas, moving.removing_replicas) == ([2, 1], [2], [1])
    other = ListPartitionReassignmentsTopics(name="t", partition_indexes=[3])
    assert driver.request(ListPartitionReassignmentsRequest(topics=[other])).topics == []
    assert reassign(driver, None).responses[0].partitions[0].error_code is ErrorCode.NONE
    again = reassign(driver, None).responses[0].partitions[0]
    assert again.error_code is ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
    assert again.error_message


def test_leaders_are_elected_on_request(driver: NodeDriver) -> None:
    epoch = join(driver)
    create(driver, 2, 1)
    asked = [TopicPartitions(topic="t", partitions=[0])]

    def elect(kind: int) -> ErrorCode:
        request = ElectLeadersRequest(election_type=kind, topic_partitions=asked)
        answer = driver.request(request)
        error: ErrorCode = answer.error_code
        if error is ErrorCode.NONE:
            error = answer.replica_election_results[0].partition_result[0].error_code
        return error

    assert elect(0) is ErrorCode.ELECTION_NOT_NEEDED
    driver.request(heartbeat(driver, epoch, want_fence=True))
    assert state_of(driver).leader == 1
    assert elect(0) is ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    assert elect(5) is ErrorCode.INVALID_REQUEST
    driver.request(heartbeat(driver, epoch))
    alter(driver, {1: 1, 2: epoch})
    everything = ElectLeadersRequest(election_type=0, topic_partitions=None)
    assert len(driver.request(everything).replica_election_results) == 1
    assert state_of(driver).leader == 2


def test_a_partition_without_a_leader_is_told_as_such(driver: NodeDriver) -> None:
    epoch = join(driver)
    create(driver, 2)
    driver.request(heartbeat(driver, epoch, want_fence=True))
    asked = MetadataRequest(topics=[MetadataRequestTopic(name="t")])
    partition = driver.request(asked).topics[0].partitions[0]
    assert partition.error_code is ErrorCode.LEADER_NOT_AVAILABLE
    assert (partition.leader_id, partition.offline_replicas) == (-1, [2])
    described = driver.request(DescribeTopicPartitionsRequest(topics=[TopicRequest(name="t")]))
    partition = described.topics[0].partitions[0]
    assert (partition.eligible_leader_replicas, partition.last_known_elr) == ([2], [])


def test_a_node_shuts_down_and_is_forgotten(driver: NodeDriver) -> None:
    epoch = join(driver)
    assert driver.request(UnregisterBrokerRequest(broker_id=2)).error_code is (
        ErrorCode.INVALID_REQUEST
    )
    assert not driver.request(heartbeat(driver, epoch, want_shut_down=True)).should_shut_down
    driver.request(heartbeat(driver, epoch, want_fence=True))
    assert driver.request(heartbeat(driver, epoch, want_shut_down=True)).should_shut_down
    assert driver.request(UnregisterBrokerRequest(broker_id=2)).error_code is ErrorCode.NONE
    again = driver.request(UnregisterBrokerRequest(broker_id=2))
    assert again.error_code is ErrorCode.BROKER_ID_NOT_REGISTERED
    assert again.error_message


def test_producer_ids_are_given_in_blocks(driver: NodeDriver) -> None:
    epoch = join(driver)
    ask = AllocateProducerIdsRequest(broker_id=2, broker_epoch=epoch)
    blocks = [driver.request(ask) for _ in range(2)]
    assert [(block.producer_id_start, block.producer_id_len) for block in blocks] == [
        (0, 1000),
        (1000, 1000),
    ]
    refused = driver.request(AllocateProducerIdsRequest(broker_id=2, broker_epoch=epoch + 1))
    assert refused.error_code is ErrorCode.STALE_BROKER_EPOCH
    assert (refused.producer_id_start, refused.producer_id_len) == (-1, 0)


def test_a_node_that_does_not_decide_says_so(driver: NodeDriver) -> None:
    epoch = join(driver)
    create(driver, 1)
    driver.node.state.active_controller = None
    asked: list[Any] = [
        registration(),
        heartbeat(driver, epoch),
        AlterPartitionRequest(broker_id=1, broker_epoch=1, topics=[]),
        ElectLeadersRequest(topic_partitions=None),
        AlterPartitionReassignmentsRequest(topics=[]),
        ListPartitionReassignmentsRequest(),
        UnregisterBrokerRequest(broker_id=2),
        AllocateProducerIdsRequest(broker_id=2, broker_epoch=epoch),
    ]
    connection = Connection(ConnectionId(1), "test", now_ms=0)
    call = Call(driver.now, Slot(connection, RequestHeader(0, 0, correlation_id=1)))
    for request in asked:
        handle = HANDLERS[schema_of(type(request)).api_key or 0]
        assert handle(driver.node.state, call, request).error_code is ErrorCode.NOT_CONTROLLER


def test_clients_are_not_told_of_what_nodes_say_to_one_another(driver: NodeDriver) -> None:
    request = ApiVersionsRequest(client_software_name="t", client_software_version="1")
    told = {api.api_key for api in driver.request(request).api_keys}
    assert {43, 45, 46, 64} <= told
    assert not {56, 62, 63, 67} & told


def test_what_nodes_decided_is_there_after_a_restart(driver: NodeDriver) -> None:
    join(driver)
    create(driver, 1, 2)
    alter(driver, {1: 1})
    before = driver.node.state.image
    driver.stop()
    driver.restart()
    after = driver.node.state.image
    assert after.topics == before.topics
    assert (sorted(after.nodes), after.last_broker_epoch) == ([1, 2], 3)
