"""Groups through the node: coordinators, their log, and what a client may hear when."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.support.node_driver import NodeDriver, batch_of, produce_request

from tidelog.broker.events import ConnectionClosed
from tidelog.broker.offsets_log import read_records
from tidelog.groups.records import read_record
from tidelog.log.disk import DiskError
from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.delete_groups import DeleteGroupsRequest
from tidelog.wire.messages.delete_topics import DeleteTopicsRequest
from tidelog.wire.messages.describe_groups import DescribeGroupsRequest
from tidelog.wire.messages.find_coordinator import FindCoordinatorRequest
from tidelog.wire.messages.heartbeat import HeartbeatRequest
from tidelog.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from tidelog.wire.messages.list_groups import ListGroupsRequest
from tidelog.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tidelog.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from tidelog.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment


@pytest.fixture
def node(tmp_path: Path) -> NodeDriver:
    node = NodeDriver(tmp_path, offsets_topic_num_partitions="3")
    node.create_topic("orders", partitions=2)
    return node


def find(node: NodeDriver, group_id: str = "billing") -> ErrorCode:
    response = node.request(FindCoordinatorRequest(coordinator_keys=[group_id]))
    error: ErrorCode = response.coordinators[0].error_code
    return error


def commit_request(
    offset: int, group_id: str = "billing", member_id: str = "", generation: int = -1
) -> OffsetCommitRequest:
    partition = OffsetCommitRequestPartition(
        partition_index=0, committed_offset=offset, committed_metadata="note"
    )
    return OffsetCommitRequest(
        group_id=group_id,
        member_id=member_id,
        generation_id_or_member_epoch=generation,
        topics=[OffsetCommitRequestTopic(name="orders", partitions=[partition])],
    )


def commit(node: NodeDriver, offset: int, **who: Any) -> ErrorCode:
    response = node.request(commit_request(offset, **who), version=9)
    error: ErrorCode = response.topics[0].partitions[0].error_code
    return error


def committed(node: NodeDriver, *group_ids: str) -> list[int]:
    groups = [
        OffsetFetchRequestGroup(
            group_id=group_id,
            topics=[OffsetFetchRequestTopics(name="orders", partition_indexes=[0])],
        )
        for group_id in group_ids or ("billing",)
    ]
    response = node.request(OffsetFetchRequest(groups=groups), version=9)
    return [group.topics[0].partitions[0].committed_offset for group in response.groups]


def join_request(member_id: str = "", group_id: str = "billing") -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=group_id,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=60_000,
        member_id=member_id,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )


def joined(node: NodeDriver, group_id: str = "billing") -> Any:
    """A first member, through both steps."""
    first = node.request(join_request(group_id=group_id), version=5)
    assert first.error_code is ErrorCode.MEMBER_ID_REQUIRED
    number = node.submit(join_request(first.member_id, group_id), version=5)
    node.advance(200)
    response = node.responses[number]
    assert response.error_code is ErrorCode.NONE
    return response


def test_the_first_question_creates_the_offsets_topic(node: NodeDriver) -> None:
    assert commit(node, 1) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert find(node) is ErrorCode.NONE
    topic = node.node.state.image.topics["__consumer_offsets"]
    assert len(topic.partitions) == 3
    assert topic.configs["cleanup.policy"] == "compact"
    assert find(node, "another") is ErrorCode.NONE


def test_transactions_and_share_groups_are_refused_at_once(node: NodeDriver) -> None:
    for key_type, error in ((1, 35), (2, 42)):
        request = FindCoordinatorRequest(coordinator_keys=["x"], key_type=key_type)
        answer = node.request(request).coordinators[0]
        assert (answer.error_code, answer.port) == (error, -1)
        assert "not supported yet" in answer.error_message


@pytest.mark.parametrize("is_clean", [True, False])
def test_a_committed_offset_survives(node: NodeDriver, is_clean: bool) -> None:
    find(node)
    assert commit(node, 42) is ErrorCode.NONE
    assert committed(node) == [42]
    if is_clean:
        node.stop()
    node.restart()
    assert committed(node) == [42]


def test_the_log_has_what_kafka_writes_and_our_own_fields_beside_it(node: NodeDriver) -> None:
    find(node)
    commit(node, 42)
    joined(node)
    found = {}
    for partition in range(3):
        leader = node.node.state.replicas.find("__consumer_offsets", partition)
        assert not isinstance(leader, ErrorCode)
        for each in read_records(leader):
            assert each.key is not None
            assert each.value is not None
            assert each.value[:2] == b"\x00\x03"
            found[each.key[1]] = read_record(each.key, each.value, each.headers)
    assert found[1] is not None
    assert found[1][1].topic_id == node.node.state.image.topics["orders"].topic_id
    assert found[2] is not None
    assert found[2][1].is_unsettled


def test_a_commit_is_answered_when_it_is_durable_and_not_read_before(node: NodeDriver) -> None:
    find(node)
    node.holds_flushes = True
    number = node.submit(commit_request(42), version=9)
    reader = node.connect()
    group = OffsetFetchRequestGroup(group_id="billing", topics=None)
    read = node.submit(OffsetFetchRequest(groups=[group]), version=9, connection=reader)
    assert number not in node.responses
    assert read not in node.responses
    node.finish_flushes()
    assert node.responses[number].topics[0].partitions[0].error_code is ErrorCode.NONE
    assert node.responses[read].groups[0].topics[0].partitions[0].committed_offset == 42


def test_groups_of_several_shards_are_answered_together(node: NodeDriver) -> None:
    find(node)
    names = [f"group-{number}" for number in range(12)]
    for number, name in enumerate(names):
        assert commit(node, number, group_id=name) is ErrorCode.NONE
    assert committed(node, *names) == list(range(12))
    listed = node.request(ListGroupsRequest()).groups
    assert [group.group_id for group in listed] == sorted(names)
    shards = {node.node.state.coordinators.partition_for(name) for name in names}
    assert shards == {0, 1, 2}


def test_the_old_form_of_offset_fetch_means_the_same(node: NodeDriver) -> None:
    find(node)
    commit(node, 7)
    topic = OffsetFetchRequestTopic(name="orders", partition_indexes=[0, 1])
    response = node.request(OffsetFetchRequest(group_id="billing", topics=[topic]), version=7)
    offsets = [p.committed_offset for p in response.topics[0].partitions]
    assert (response.error_code, offsets) == (ErrorCode.NONE, [7, -1])


def test_a_member_joins_syncs_and_lives(node: NodeDriver) -> None:
    find(node)
    member = joined(node)
    assert member.leader == member.member_id
    sync = node.request(
        SyncGroupRequest(
            group_id="billing",
            generation_id=member.generation_id,
            member_id=member.member_id,
            assignments=[SyncGroupRequestAssignment(member_id=member.member_id, assignment=b"all")],
        )
    )
    assert (sync.error_code, sync.assignment) == (ErrorCode.NONE, b"all")
    who = {"member_id": member.member_id, "generation": member.generation_id}
    assert commit(node, 5, **who) is ErrorCode.NONE
    assert (
        commit(node, 6, member_id=member.member_id, generation=99) is ErrorCode.ILLEGAL_GENERATION
    )
    described = node.request(DescribeGroupsRequest(groups=["billing"])).groups[0]
    assert (described.group_state, len(described.members)) == ("Stable", 1)
    assert described.members[0].client_host == "/test"


def test_a_silent_member_is_sent_away_and_its_commits_refused(node: NodeDriver) -> None:
    find(node)
    member = joined(node)
    node.advance(10_001)
    beat = node.request(
        HeartbeatRequest(
            group_id="billing", generation_id=member.generation_id, member_id=member.member_id
        )
    )
    assert beat.error_code is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_group_that_does_not_exist_is_dead_to_old_clients(node: NodeDriver) -> None:
    find(node)
    request = DescribeGroupsRequest(groups=["nobody"])
    old = node.request(request, version=5).groups[0]
    new = node.request(request, version=6).groups[0]
    assert (old.error_code, old.group_state) == (ErrorCode.NONE, "Dead")
    assert new.error_code is ErrorCode.GROUP_ID_NOT_FOUND


def test_deleting_a_group_forgets_its_offsets(node: NodeDriver) -> None:
    find(node)
    commit(node, 9)
    deleted = node.request(DeleteGroupsRequest(groups_names=["billing", "nobody"])).results
    assert [result.error_code for result in deleted] == [
        ErrorCode.NONE,
        ErrorCode.GROUP_ID_NOT_FOUND,
    ]
    assert committed(node) == [-1]


def test_offsets_go_with_their_topic(node: NodeDriver) -> None:
    find(node)
    commit(node, 9)
    node.request(DeleteTopicsRequest(topic_names=["orders"], timeout_ms=1000), version=5)
    node.advance(1)
    node.create_topic("orders", partitions=2)
    assert committed(node) == [-1]


def test_a_client_that_leaves_while_it_joins_is_not_waited_for(node: NodeDriver) -> None:
    find(node)
    first = node.request(join_request(), version=5)
    other = node.connect()
    node.submit(join_request(first.member_id), version=5, connection=other)
    node.step(ConnectionClosed(other))
    assert len(node.node.state.pending) == 0
    node.advance(200)
    node.advance(10_001)
    assert len(node.node.state.pending) == 0


def test_after_a_failed_fsync_groups_are_refused_not_left_waiting(node: NodeDriver) -> None:
    find(node)
    node.holds_flushes = True
    number = node.submit(commit_request(42), version=9)
    node.finish_flushes(DiskError("input/output error"))
    error = node.responses[number].topics[0].partitions[0].error_code
    assert error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert commit(node, 43) is ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_nobody_writes_to_the_offsets_topic_or_deletes_it(node: NodeDriver) -> None:
    find(node)
    request = produce_request("__consumer_offsets", batch_of(b"x"))
    answer = node.request(request, version=9).responses[0].partition_responses[0]
    assert answer.error_code is ErrorCode.INVALID_TOPIC_EXCEPTION
    deletion = DeleteTopicsRequest(topic_names=["__consumer_offsets"], timeout_ms=1000)
    deleted = node.request(deletion, version=5)
    assert deleted.responses[0].error_code is ErrorCode.INVALID_TOPIC_EXCEPTION


def test_a_coordinator_without_a_session_tells_nothing_of_its_groups(node: NodeDriver) -> None:
    """Another may be in its place by now, and know members and offsets that this one does not."""
    find(node)
    stranger = HeartbeatRequest(group_id="billing", generation_id=1, member_id="who")
    assert node.request(stranger).error_code is ErrorCode.UNKNOWN_MEMBER_ID
    node.node.state.replicas.session_changed(is_alive=False)
    assert node.request(stranger).error_code is ErrorCode.NOT_COORDINATOR
    node.node.state.replicas.session_changed(is_alive=True)
    assert node.request(stranger).error_code is ErrorCode.UNKNOWN_MEMBER_ID
