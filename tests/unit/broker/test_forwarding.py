"""Requests for the controller, handed on: what waits behind what, and when one is asked again."""

from __future__ import annotations

from typing import Any

from tidelog.broker.connections import Connection, Slot
from tidelog.broker.controller_link import RETRY_MS, ControllerLink
from tidelog.broker.effects import CallPeer
from tidelog.broker.events import PeerAnswered, PeerFailed
from tidelog.broker.forwarding import PATIENCE_MS, Forwarding
from tidelog.broker.peers import Peers
from tidelog.broker.pending import Pending
from tidelog.broker.state import CLOSE, Call
from tidelog.model.clock import Now
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import ConnectionId, Endpoint, NodeId
from tidelog.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from tidelog.wire.requests import RequestHeader, encode_response

FIRST, SECOND = Endpoint("first", 1), Endpoint("second", 2)
VERSION = 7


class Bench:
    def __init__(self) -> None:
        self.now_ms = 1_000.0
        self.controller: Endpoint | None = FIRST
        self.peers = Peers(NodeId(3))
        self.answers: list[Any] = []
        self.pending = Pending()
        link = ControllerLink(self.peers, lambda: self.controller)
        self.forwarding = Forwarding(link, self.pending, lambda _, told: self.answers.append(told))

    @property
    def now(self) -> Now:
        return Now(self.now_ms, 0)

    def forward(self, *, timeout_ms: int = 1_000) -> CallPeer:
        topic = CreatableTopic(name="t", num_partitions=1, replication_factor=1)
        request = CreateTopicsRequest(topics=[topic], timeout_ms=timeout_ms)
        slot = Slot(Connection(ConnectionId(1), "client", 0.0), RequestHeader(19, VERSION, 1))
        self.forwarding.forward(Call(self.now, slot), request, VERSION)
        return self.sent()

    def sent(self) -> CallPeer:
        (effect,) = [each for each in self.peers.take_effects() if isinstance(each, CallPeer)]
        return effect

    def advance(self, ms: float) -> None:
        self.now_ms += ms
        self.peers.expire(self.now)
        self.forwarding.tick(self.now)

    def answer(self, call: CallPeer, error: ErrorCode = ErrorCode.NONE) -> None:
        header = RequestHeader(19, VERSION, call.call)
        topic = CreatableTopicResult(name="t", error_code=error, error_message=None)
        parts = encode_response(header, CreateTopicsResponse(topics=[topic]))
        frame = b"".join(bytes(part) for part in parts)  # type: ignore[arg-type]
        self.peers.answered(self.now, PeerAnswered(call.call, memoryview(frame)[4:]))


def test_each_request_under_way_has_a_channel_of_its_own_and_not_the_heartbeats() -> None:
    bench = Bench()
    first, second = bench.forward(), bench.forward()
    assert len({first.channel, second.channel, "control"}) == 3
    bench.answer(first)
    assert bench.forward().channel == first.channel


def test_one_that_takes_long_is_not_asked_again() -> None:
    bench = Bench()
    call = bench.forward(timeout_ms=60_000)
    for _ in range(50):
        bench.advance(1_000)
    assert not bench.peers.take_effects()
    bench.answer(call)
    assert [answer.topics[0].name for answer in bench.answers] == ["t"]


def test_it_is_asked_again_where_another_is_the_controller_and_answered_once() -> None:
    bench = Bench()
    old = bench.forward()
    bench.controller = SECOND
    bench.advance(1_000)
    bench.advance(RETRY_MS)
    call = bench.sent()
    assert call.endpoint == SECOND
    bench.answer(old)
    assert not bench.answers
    bench.answer(call)
    assert len(bench.answers) == 1


def test_it_is_asked_again_if_the_connection_is_lost_or_nobody_is_the_controller() -> None:
    bench = Bench()
    first = bench.forward()
    bench.peers.failed(bench.now, PeerFailed(first.call, "connection lost"))
    bench.advance(RETRY_MS)
    second = bench.sent()
    bench.answer(second, ErrorCode.NOT_CONTROLLER)
    bench.advance(RETRY_MS)
    bench.answer(bench.sent())
    assert len(bench.answers) == 1


def test_a_client_is_sent_away_when_nobody_has_answered_for_long() -> None:
    bench = Bench()
    call = bench.forward()
    bench.controller = None
    bench.peers.failed(bench.now, PeerFailed(call.call, "connection lost"))
    for _ in range(200):
        bench.advance(PATIENCE_MS / 100)
    assert bench.answers == [CLOSE]
