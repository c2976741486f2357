"""Calls to other nodes: one answer each, or one failure."""

from __future__ import annotations

from typing import Any

from tidelog.broker.effects import CallPeer, HangUp
from tidelog.broker.events import PeerAnswered, PeerFailed
from tidelog.broker.peers import Peers
from tidelog.model.clock import Now
from tidelog.model.ids import CallId, Endpoint, NodeId
from tidelog.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tidelog.wire.requests import API_VERSIONS, LENGTH_BYTES, RequestHeader, encode_response

THERE = Endpoint("there", 9092)


class Asker:
    """Writes down what became of its call."""

    def __init__(self) -> None:
        self.heard: list[object] = []

    def answered(self, now: Now, response: Any) -> None:
        self.heard.append(response)

    def failed(self, now: Now, reason: str) -> None:
        self.heard.append(reason)


class Bench:
    """Calls of one node."""

    def __init__(self) -> None:
        self.peers = Peers(NodeId(1))

    def ask(self, *, deadline_ms: float = 100.0) -> tuple[CallId, Asker]:
        asker = Asker()
        call = self.peers.call(
            THERE,
            "control",
            ApiVersionsRequest(),
            deadline_ms=deadline_ms,
            conversation=asker,
            version=0,
        )
        return call, asker


def _now(ms: float) -> Now:
    return Now(ms, int(ms))


def _answer(correlation_id: int) -> memoryview:
    header = RequestHeader(API_VERSIONS, 0, correlation_id)
    parts = encode_response(header, ApiVersionsResponse(api_keys=[]))
    whole = b"".join(bytes(part) for part in parts)  # type: ignore[arg-type]
    return memoryview(whole)[LENGTH_BYTES:]


def test_an_answer_reaches_who_asked_and_nobody_hears_it_twice() -> None:
    bench = Bench()
    call, asker = bench.ask()
    [effect] = bench.peers.take_effects()
    assert isinstance(effect, CallPeer)
    assert (effect.call, effect.endpoint, effect.channel) == (call, THERE, "control")
    bench.peers.answered(_now(1), PeerAnswered(call, _answer(call)))
    bench.peers.answered(_now(2), PeerAnswered(call, _answer(call)))
    bench.peers.failed(_now(3), PeerFailed(call, "too late"))
    assert len(asker.heard) == 1
    assert isinstance(asker.heard[0], ApiVersionsResponse)
    assert bench.peers.next_deadline() is None


def test_a_failed_call_says_why() -> None:
    bench = Bench()
    call, asker = bench.ask()
    bench.peers.failed(_now(1), PeerFailed(call, "connection reset"))
    assert asker.heard == ["connection reset"]


def test_a_call_that_takes_too_long_ends_its_channel_and_all_that_waits_on_it() -> None:
    bench = Bench()
    _, first = bench.ask(deadline_ms=100)
    late, second = bench.ask(deadline_ms=5_000)
    bench.peers.take_effects()
    assert bench.peers.next_deadline() == 100
    bench.peers.expire(_now(100))
    assert first.heard == second.heard == ["no answer in time"]
    assert bench.peers.take_effects() == [HangUp(THERE, "control")]
    bench.peers.answered(_now(101), PeerAnswered(late, _answer(late)))
    assert second.heard == ["no answer in time"]


def test_a_malformed_answer_or_one_to_another_question_is_a_failure() -> None:
    bench = Bench()
    for frame in (memoryview(b"\0"), _answer(77)):
        call, asker = bench.ask()
        bench.peers.take_effects()
        bench.peers.answered(_now(1), PeerAnswered(call, frame))
        [reason] = asker.heard
        assert isinstance(reason, str)
        assert bench.peers.take_effects() == [HangUp(THERE, "control")]
