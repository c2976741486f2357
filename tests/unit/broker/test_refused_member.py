"""A member of a cluster that is not let in: what it tells the operator, and how it ends. The other
voter is played by the test."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.node_driver import NodeDriver, batch_of, produce_request

from tidelog.broker.effects import Announce, CallPeer, CloseConnection, Effect, Stop
from tidelog.broker.events import Event, PeerAnswered, StopRequested
from tidelog.broker.last_life import CLEAN_MARK, CLUSTER_ID
from tidelog.broker.quorum_requests import answer_of, question_of
from tidelog.broker.requests import OPENING_PATIENCE_MS
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import LeaderEpoch, NodeId
from tidelog.quorum import messages as m
from tidelog.wire.messages.api_versions import ApiVersionsRequest
from tidelog.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from tidelog.wire.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
)
from tidelog.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    PartitionData,
    TopicData,
)
from tidelog.wire.messages.metadata import MetadataRequest
from tidelog.wire.requests import decode_body, decode_header, encode_response

OWN, OTHER = NodeId(1), NodeId(2)
EPOCH = LeaderEpoch(5)
VOTERS = "1@127.0.0.1:9092,2@127.0.0.1:9093"


class Member(NodeDriver):
    """Node 1 of two voters; node 2 is the controller and says to a registration what it is told."""

    def __init__(self, data_dir: Path) -> None:
        self.verdict: Callable[[], ErrorCode] = lambda: ErrorCode.NONE
        self.vote_error = ErrorCode.NONE
        self.leader = OTHER
        self.is_silent = False
        self.registrations = 0
        super().__init__(data_dir, controller_quorum_voters=VOTERS, clock_steady_ms="0")

    def step(self, event: Event) -> list[Effect]:
        effects = super().step(event)
        for call in effects:
            if isinstance(call, CallPeer) and not self.is_silent:
                self._answer_call(call)
        return effects

    def _answer_call(self, call: CallPeer) -> None:
        frame = memoryview(bytearray(call.frame))[4:]
        header, position = decode_header(frame)
        answer = self._answer(decode_body(header, frame, position))
        if answer is not None:
            parts = b"".join(bytes(part) for part in encode_response(header, answer))  # type: ignore[arg-type]
            self.step(PeerAnswered(call.call, memoryview(parts)[4:]))

    def _answer(self, request: Any) -> Any:
        if isinstance(request, BrokerRegistrationRequest):
            self.registrations += 1
            return BrokerRegistrationResponse(error_code=self.verdict(), broker_epoch=7)
        if isinstance(request, BrokerHeartbeatRequest):
            return BrokerHeartbeatResponse(
                is_caught_up=False, is_fenced=True, should_shut_down=False
            )
        if isinstance(question_of(request), m.VoteRequest):
            leader = self.leader if self.vote_error is ErrorCode.NONE else None
            epoch = EPOCH if self.vote_error is ErrorCode.NONE else LeaderEpoch(0)
            return answer_of(m.VoteResponse(self.vote_error, leader, epoch), self.now)
        return None  # a fetch that waits for news

    def live(self, seconds: float) -> None:
        for _ in range(int(seconds * 20)):
            if self.effects_of(Stop):
                return
            self.advance(50)


@pytest.fixture
def member(tmp_path: Path) -> Member:
    return Member(tmp_path / "data")


def test_a_controller_that_clients_could_not_find_is_not_named(member: Member) -> None:
    """Node 2 is not among the brokers that this node knows: what is asked of it is handed on."""
    member.live(2)
    assert member.node.state.cluster.told_controller_id == OWN
    assert OTHER not in member.node.state.image.nodes


def test_a_client_waits_for_a_node_that_has_not_caught_up_and_is_sent_away(member: Member) -> None:
    """What it would be told is what the node's own directory says: nothing, or old news."""
    number = member.submit(MetadataRequest(topics=[]))
    member.advance(OPENING_PATIENCE_MS - 1)
    assert member.effects_of(CloseConnection) == []
    member.advance(2)
    assert number not in member.responses
    assert [each.connection for each in member.effects_of(CloseConnection)] == [member.connection]


def test_a_node_that_has_not_caught_up_says_what_it_speaks_and_how_its_voters_are(
    member: Member,
) -> None:
    assert member.request(ApiVersionsRequest()).error_code is ErrorCode.NONE
    topic = TopicData(
        topic_name="__cluster_metadata", partitions=[PartitionData(partition_index=0)]
    )
    assert member.request(DescribeQuorumRequest(topics=[topic])) is not None


def test_records_are_not_taken_before_the_node_has_caught_up(member: Member) -> None:
    """Their producer tries again, as with a node that is not there yet."""
    member.submit(produce_request("orders", batch_of(b"x")), version=9)
    assert [each.connection for each in member.effects_of(CloseConnection)] == [member.connection]


def test_a_directory_of_another_cluster_is_told_once(member: Member) -> None:
    member.verdict = lambda: ErrorCode.INCONSISTENT_CLUSTER_ID
    member.live(20)
    assert member.registrations > 20
    told = [text for text in member.reports if "belongs to another cluster" in text]
    assert len(told) == 1
    assert not member.effects_of(Stop)
    assert not member.effects_of(Announce)


def test_a_voter_of_another_cluster_is_told_once(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / CLUSTER_ID).write_text("ours\n")
    member = Member(data)
    member.vote_error = ErrorCode.INCONSISTENT_CLUSTER_ID
    member.live(20)
    told = [text for text in member.reports if "127.0.0.1:9093 is not in cluster ours" in text]
    assert len(told) == 1
    assert member.registrations == 0


def _ends_for_the_other(member: Member) -> None:
    """Not before the session of a former life would be over."""
    member.live(4)
    assert not member.effects_of(Stop)
    member.live(30)
    stops = member.effects_of(Stop)
    assert len(stops) == 1
    assert "living node 1" in stops[0].failure


def test_a_process_whose_id_is_taken_ends_and_says_why(member: Member) -> None:
    member.verdict = lambda: ErrorCode.DUPLICATE_BROKER_REGISTRATION
    _ends_for_the_other(member)


def test_a_process_whose_id_is_the_controllers_ends_and_says_why(member: Member) -> None:
    """Nobody answers its registration: it would have to be sent to itself."""
    member.leader = OWN
    _ends_for_the_other(member)
    assert member.registrations == 0


def test_who_was_killed_in_office_waits_until_another_is_elected(member: Member) -> None:
    member.leader = OWN
    member.live(3)
    member.leader = OTHER
    member.live(20)
    assert member.registrations > 0
    assert not member.reports
    assert not member.effects_of(Stop)


def test_the_shadow_of_the_last_life_is_waited_for_in_silence(member: Member) -> None:
    member.verdict = lambda: ErrorCode.DUPLICATE_BROKER_REGISTRATION
    member.live(3.2)
    member.verdict = lambda: ErrorCode.NONE
    member.live(20)
    assert not member.reports
    assert not member.effects_of(Stop)


def test_a_controller_that_says_nothing_more_proves_nothing(member: Member) -> None:
    """That the id is taken must be heard for longer than a session, not once and then nothing."""
    member.verdict = lambda: ErrorCode.DUPLICATE_BROKER_REGISTRATION
    member.live(2)
    assert member.registrations > 0
    member.is_silent = True
    member.live(30)
    assert not member.effects_of(Stop)


def test_a_member_that_was_never_let_in_leaves_at_once_and_without_the_clean_mark(
    member: Member,
) -> None:
    """It has not looked at its logs: a crash before this life may have torn them."""
    member.is_silent = True
    member.live(1)
    member.step(StopRequested())
    assert member.effects_of(Stop) == [Stop()]
    assert not (member.data_dir / CLEAN_MARK).exists()


def test_a_fenced_member_does_not_wait_for_a_cluster_that_is_gone(member: Member) -> None:
    member.live(3)
    member.is_silent = True
    member.live(10)
    assert not member.effects_of(Stop)
    member.step(StopRequested())
    started_ms = member.now_ms
    member.live(10)
    assert member.effects_of(Stop) == [Stop()]
    assert member.now_ms - started_ms < 4000
    assert any("stops without handing over" in text for text in member.reports)
