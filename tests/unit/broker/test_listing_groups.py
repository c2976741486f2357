"""Very many groups are listed in slices, and others are answered in between."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.node_driver import NodeDriver

from tidelog.broker.apis import list_groups
from tidelog.broker.events import ConnectionClosed
from tidelog.groups.registry import Registry
from tidelog.log.disk import DiskError
from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.delete_groups import DeleteGroupsRequest
from tidelog.wire.messages.find_coordinator import FindCoordinatorRequest
from tidelog.wire.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from tidelog.wire.messages.metadata import MetadataRequest
from tidelog.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)

_SLICE = 4
_GROUPS = [f"group-{number:02}" for number in range(40)]


@pytest.fixture
def slices(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many groups were listed at a time."""
    monkeypatch.setattr(list_groups, "GROUPS_PER_SLICE", _SLICE)
    monkeypatch.setattr(list_groups, "_MOST_AT_ONCE", 2 * _SLICE)
    seen: list[int] = []
    listed = Registry.listed

    def noting(
        self: Registry, request: ListGroupsRequest, group_ids: list[str] | None = None
    ) -> list[ListedGroup]:
        seen.append(self.most_groups() if group_ids is None else len(group_ids))
        return listed(self, request, group_ids)

    monkeypatch.setattr(Registry, "listed", noting)
    return seen


@pytest.fixture
def node(tmp_path: Path, slices: list[int]) -> NodeDriver:
    node = NodeDriver(tmp_path, offsets_topic_num_partitions="3")
    node.create_topic("orders")
    node.request(FindCoordinatorRequest(coordinator_keys=["group"]))
    for group_id in _GROUPS:
        commit(node, group_id)
    return node


def commit(node: NodeDriver, group_id: str) -> int:
    row = OffsetCommitRequestPartition(partition_index=0, committed_offset=1)
    topic = OffsetCommitRequestTopic(name="orders", partitions=[row])
    return node.submit(OffsetCommitRequest(group_id=group_id, topics=[topic]), version=9)


def answer(node: NodeDriver, number: int) -> ListGroupsResponse:
    steps = 0
    while number not in node.responses:
        node.advance(0)
        steps += 1
        assert steps < 50
    response: ListGroupsResponse = node.responses[number]
    return response


def names(response: ListGroupsResponse) -> list[str]:
    return [group.group_id for group in response.groups]


def test_very_many_groups_are_listed_in_slices(node: NodeDriver, slices: list[int]) -> None:
    other = node.connect()
    number = node.submit(ListGroupsRequest())
    while number not in node.responses:
        before = len(slices)
        node.advance(0)
        assert len(slices) <= before + 1
        assert node.request(MetadataRequest(topics=None), connection=other).topics
    response = node.responses[number]
    assert response.error_code is ErrorCode.NONE
    assert sorted(names(response)) == _GROUPS
    assert max(slices) == _SLICE
    assert {group.group_state for group in response.groups} == {"Empty"}


@pytest.mark.parametrize("version", range(6))
def test_every_version_lists_them(node: NodeDriver, version: int) -> None:
    number = node.submit(ListGroupsRequest(), version=version)
    assert sorted(names(answer(node, number))) == _GROUPS


def test_a_filter_holds_in_every_slice(node: NodeDriver) -> None:
    number = node.submit(ListGroupsRequest(states_filter=["Stable"]))
    assert answer(node, number).groups == []


def test_a_group_that_is_gone_before_its_slice_is_not_listed(node: NodeDriver) -> None:
    other = node.connect()
    number = node.submit(ListGroupsRequest())
    node.request(DeleteGroupsRequest(groups_names=_GROUPS[-3:]), connection=other)
    assert sorted(names(answer(node, number))) == _GROUPS[:-3]


def test_nothing_is_listed_that_is_not_committed(node: NodeDriver) -> None:
    node.holds_flushes = True
    commit(node, "late")
    other = node.connect()
    number = node.submit(ListGroupsRequest(), connection=other)
    for _ in range(30):
        node.advance(0)
    assert number not in node.responses
    assert not node.node.state.long_requests
    node.finish_flushes()
    assert sorted(names(answer(node, number))) == [*_GROUPS, "late"]


def test_while_a_shard_is_loaded_the_answer_is_to_come_back(node: NodeDriver) -> None:
    node.restart()
    state = node.node.state
    shard = next(iter(state.coordinators._shards.values()))
    state.coordinators._reload(shard, node.now)
    refused = node.request(ListGroupsRequest())
    assert refused.error_code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def test_a_client_that_has_gone_leaves_nothing_behind(node: NodeDriver) -> None:
    other = node.connect()
    node.submit(ListGroupsRequest(), connection=other)
    node.advance(0)
    node.step(ConnectionClosed(other))
    node.advance(0)
    state = node.node.state
    assert not state.long_requests
    assert not state.coordinators._gatherings
    assert not any(shard.waiting for shard in state.coordinators._shards.values())


def test_a_disk_that_fails_in_between_ends_it(node: NodeDriver) -> None:
    number = node.submit(ListGroupsRequest())
    node.advance(0)
    node.node.state.fail_storage(DiskError("gone"))
    assert answer(node, number).error_code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert not node.node.state.coordinators._gatherings
