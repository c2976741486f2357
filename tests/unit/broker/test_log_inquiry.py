"""The controller asks the replicas of partitions that nobody leads what they have."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.node_driver import NodeDriver

from tidelog.broker.controller_link import RETRY_MS
from tidelog.broker.effects import CallPeer
from tidelog.broker.events import PeerAnswered, PeerFailed
from tidelog.broker.log_inquiry import PATIENCE_MS, Inquiries
from tidelog.broker.peers import Peers
from tidelog.controller.decision import Decision
from tidelog.controller.log_ends import LogEndsByPartition
from tidelog.metadata.image import PartitionState
from tidelog.metadata.records import ConfigRecord, NodeRecord, PartitionRecord
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import Endpoint, NodeId
from tidelog.wire.messages import API_BY_KEY
from tidelog.wire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from tidelog.wire.requests import LENGTH_BYTES, RequestHeader, encode_response

LIST_OFFSETS = 2
FIRST_PORT = 9000


class Stage(NodeDriver):
    """A node that is the controller, with two others that the test plays, and one partition that
    nobody leads."""

    def __init__(self, data_dir: Path) -> None:
        super().__init__(data_dir)
        self.create_topic("orders", 1)
        self.peers = Peers(NodeId(1))
        self.inquiries = Inquiries(
            self.node.state,
            self.peers,
            endpoint_of=lambda node_id: Endpoint("host", FIRST_PORT + node_id),
        )
        self.told: list[LogEndsByPartition] = []
        for node in (1, 2, 3):
            self.register(node, epoch=20)
        topic = self.node.state.controller.image.topics["orders"]
        partition = PartitionRecord(
            topic_id=topic.topic_id,
            partition=0,
            replicas=[1, 2, 3],
            isr=[],
            leader=-1,
            leader_epoch=4,
        )
        self.node.state.commit(Decision([partition], None), self.now)

    def register(self, node: int, *, epoch: int) -> None:
        record = NodeRecord(node_id=node, host="h", port=9092, rack=None, epoch=epoch)
        self.node.state.commit(Decision([record], None), self.now)

    def allow(self) -> None:
        topic = self.node.state.controller.image.topics["orders"]
        name = "unclean.leader.election.enable"
        record = ConfigRecord(topic_id=topic.topic_id, name=name, value="true")
        self.node.state.commit(Decision([record], None), self.now)

    @property
    def state(self) -> PartitionState:
        return self.node.state.controller.image.topics["orders"].partitions[0]

    def ask(self) -> dict[int, CallPeer]:
        self.inquiries.ask(self.now, [self.state], lambda now, ends: self.told.append(ends))
        return self.calls()

    def calls(self) -> dict[int, CallPeer]:
        """What is newly asked, by node."""
        effects = [each for each in self.peers.take_effects() if isinstance(each, CallPeer)]
        return {each.endpoint.port - FIRST_PORT: each for each in effects}

    def answer(
        self, call: CallPeer, end: int, *, epoch: int = 0, error: ErrorCode = ErrorCode.NONE
    ) -> None:
        row = ListOffsetsPartitionResponse(
            partition_index=0, error_code=error, offset=end, leader_epoch=epoch
        )
        topic = ListOffsetsTopicResponse(name="orders", partitions=[row])
        version = API_BY_KEY[LIST_OFFSETS].max_version
        header = RequestHeader(LIST_OFFSETS, version, call.call)
        parts = encode_response(header, ListOffsetsResponse(topics=[topic]))
        whole = b"".join(bytes(part) for part in parts)  # type: ignore[arg-type]
        frame = memoryview(whole)[LENGTH_BYTES:]
        self.peers.answered(self.now, PeerAnswered(call.call, frame))

    def fail(self, call: CallPeer) -> None:
        self.peers.failed(self.now, PeerFailed(call.call, "connection refused"))

    def pass_time(self, ms: float) -> dict[int, CallPeer]:
        self.now_ms += ms
        self.inquiries.settle(self.now)
        return self.calls()

    def ends(self) -> dict[int, tuple[int, int]]:
        """What was told, by node: the last epoch and the log's end."""
        (told,) = self.told
        return {
            int(node_id): (end.last_epoch, end.log_end_offset)
            for node_id, end in told[self.state.key].by_node.items()
        }


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


def test_every_usable_replica_is_asked_once(stage: Stage) -> None:
    calls = stage.ask()
    assert sorted(calls) == [1, 2, 3]
    for node, end in ((1, 7), (2, 9), (3, 0)):
        assert stage.told == []
        stage.answer(calls[node], end, epoch=2 if end else -1)
    assert stage.ends() == {1: (2, 7), 2: (2, 9), 3: (-1, 0)}
    assert stage.inquiries.next_deadline() is None


def test_who_does_not_answer_is_asked_again_but_not_for_ever(stage: Stage) -> None:
    calls = stage.ask()
    stage.answer(calls[1], 7)
    stage.answer(calls[2], 9)
    stage.fail(calls[3])
    assert stage.told == []
    assert stage.inquiries.next_deadline() == stage.now_ms + RETRY_MS
    again = stage.pass_time(RETRY_MS)
    assert list(again) == [3]
    stage.now_ms += PATIENCE_MS
    stage.fail(again[3])
    assert stage.ends() == {1: (0, 7), 2: (0, 9)}


def test_who_has_not_heard_of_the_leaders_end_is_asked_again(stage: Stage) -> None:
    calls = stage.ask()
    stage.answer(calls[1], 7)
    stage.answer(calls[3], 5)
    stage.answer(calls[2], -1, error=ErrorCode.UNKNOWN_LEADER_EPOCH)
    stage.answer(stage.pass_time(RETRY_MS)[2], 9)
    assert stage.ends() == {1: (0, 7), 2: (0, 9), 3: (0, 5)}


def test_who_registers_again_meanwhile_is_asked_again(stage: Stage) -> None:
    calls = stage.ask()
    stage.answer(calls[2], 9)
    stage.answer(calls[3], 5)
    stage.register(2, epoch=21)
    stage.answer(calls[1], 7)
    again = stage.calls()
    assert list(again) == [2]
    stage.answer(again[2], 3)
    assert stage.ends() == {1: (0, 7), 2: (0, 3), 3: (0, 5)}


def test_a_topic_that_allows_it_gets_the_fullest_as_its_leader(stage: Stage) -> None:
    assert stage.pass_time(0) == {}
    stage.allow()
    calls = stage.pass_time(0)
    assert sorted(calls) == [1, 2, 3]
    assert stage.pass_time(50) == {}, "one inquiry at a time"
    for node, end in ((1, 7), (2, 9), (3, 0)):
        stage.answer(calls[node], end)
    assert stage.state.leader == 2
    assert stage.pass_time(RETRY_MS) == {}


def test_who_is_not_the_controller_any_more_asks_nobody(stage: Stage) -> None:
    calls = stage.ask()
    for node in (1, 2):
        stage.answer(calls[node], 7)
    stage.node.state.active_controller = None
    stage.fail(calls[3])
    assert stage.pass_time(RETRY_MS) == {}
    assert len(stage.told) == 1


def test_the_time_of_an_inquiry_is_limited_whatever_happens(stage: Stage) -> None:
    calls = stage.ask()
    until_ms = stage.now_ms + PATIENCE_MS
    while not stage.told:
        for call in calls.values():
            stage.fail(call)
        calls = stage.pass_time(RETRY_MS)
        assert stage.now_ms <= until_ms + 2 * RETRY_MS
    assert stage.ends() == {}
