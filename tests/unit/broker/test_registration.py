"""What an answered heartbeat is worth to the node that sent it: a lease."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from tidelog.broker.controller_link import ControllerLink
from tidelog.broker.effects import CallPeer
from tidelog.broker.events import PeerAnswered
from tidelog.broker.peers import Peers
from tidelog.broker.registration import Identity, Patience, Registration, Stage
from tidelog.model.clock import Now
from tidelog.model.ids import Endpoint, NodeId, Offset
from tidelog.wire.messages.broker_heartbeat import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
)
from tidelog.wire.messages.broker_registration import BrokerRegistrationResponse
from tidelog.wire.requests import decode_body, decode_header, encode_response

SESSION_MS = 3000.0
LEASE_MS = 1800.0


class Registering:
    """A registration whose controller is played by the test."""

    def __init__(self) -> None:
        self.office_until_ms: float | None = None
        self.is_opening = False
        self.peers = Peers(NodeId(1))
        self.registration = Registration(
            Identity(
                NodeId(1),
                cluster_id="",
                incarnation=UUID(int=1),
                endpoint=Endpoint("here", 9092),
                rack=None,
            ),
            ControllerLink(self.peers, lambda: Endpoint("there", 9092)),
            Patience(heartbeat_ms=500, session_ms=SESSION_MS),
            metadata_offset=lambda: Offset(0),
            office_until_ms=lambda: self.office_until_ms,
            is_opening=lambda: self.is_opening,
        )
        self.answer(0, BrokerRegistrationResponse(broker_epoch=1))
        self.registration.is_noted = True

    def ask(self, now_ms: float) -> CallPeer:
        self.registration.tick(Now(now_ms, 0))
        (call,) = self.peers.take_effects()
        assert isinstance(call, CallPeer)
        return call

    def hear(self, now_ms: float, call: CallPeer, answer: Any) -> None:
        header, _ = decode_header(memoryview(bytearray(call.frame))[4:])
        frame = b"".join(bytes(part) for part in encode_response(header, answer))  # type: ignore[arg-type]
        self.peers.answered(Now(now_ms, 0), PeerAnswered(call.call, memoryview(frame)[4:]))

    def answer(self, now_ms: float, answer: Any) -> None:
        self.hear(now_ms, self.ask(now_ms), answer)

    def beat(self, now_ms: float) -> None:
        self.answer(now_ms, _alive())


def _alive(*, is_caught_up: bool = True, is_fenced: bool = False) -> BrokerHeartbeatResponse:
    return BrokerHeartbeatResponse(
        is_caught_up=is_caught_up, is_fenced=is_fenced, should_shut_down=False
    )


def _wants_fence(call: CallPeer) -> bool:
    frame = memoryview(bytearray(call.frame))[4:]
    header, position = decode_header(frame)
    request = decode_body(header, frame, position)
    assert isinstance(request, BrokerHeartbeatRequest)
    return request.want_fence


def test_a_lease_counts_from_when_the_heartbeat_was_sent() -> None:
    one = Registering()
    call = one.ask(100)
    one.hear(900, call, _alive())
    assert one.registration.stage is Stage.SERVING
    assert one.registration.may_lead(100 + LEASE_MS - 1)
    assert not one.registration.may_lead(100 + LEASE_MS)


def test_the_controllers_own_node_may_lead_as_long_as_no_other_is_elected() -> None:
    one = Registering()
    one.office_until_ms = 1500
    one.beat(100)
    assert one.registration.may_lead(1499)
    assert not one.registration.may_lead(1500)


def test_with_the_office_goes_the_lease_it_gave_itself() -> None:
    one = Registering()
    one.office_until_ms = 1500
    one.beat(100)
    one.office_until_ms = None
    one.registration.left_office()
    assert not one.registration.may_lead(101)
    one.beat(700)
    assert one.registration.may_lead(700 + LEASE_MS - 1)
    one.registration.left_office()
    assert one.registration.may_lead(701), "what another controller granted stays"


def test_an_answer_of_its_own_that_comes_after_the_office_counts_for_nothing() -> None:
    one = Registering()
    one.office_until_ms = 1500
    call = one.ask(100)
    one.office_until_ms = None
    one.hear(200, call, _alive())
    assert not one.registration.may_lead(201)


def test_who_takes_office_counts_on_nothing_that_was_granted_for_longer() -> None:
    one = Registering()
    one.beat(100)
    one.office_until_ms = 1000
    one.registration.took_office()
    assert one.registration.may_lead(999)
    assert not one.registration.may_lead(1000)


def test_who_has_not_read_that_it_was_replaced_gets_no_lease_and_asks_again_soon() -> None:
    one = Registering()
    one.beat(100)
    one.answer(600, _alive(is_caught_up=False))
    assert one.registration.stage is Stage.SERVING
    assert not one.registration.may_lead(100 + LEASE_MS)
    one.beat(700)
    assert one.registration.may_lead(700 + LEASE_MS - 1)


def test_a_new_controller_is_told_at_once() -> None:
    """Though the last one still owes an answer, which it can't give any more."""
    one = Registering()
    one.beat(100)
    unanswered = one.ask(600)
    one.registration.met_controller(Now(700, 0))
    one.beat(700)
    one.hear(800, unanswered, _alive(is_caught_up=False))
    assert one.registration.may_lead(700 + LEASE_MS - 1)
    assert not one.registration.may_lead(700 + LEASE_MS)


def test_a_node_stays_fenced_until_it_has_opened_its_logs_and_says_so_at_once() -> None:
    """Before that it could not tell which of them may lack records."""
    one = Registering()
    one.is_opening = True
    call = one.ask(100)
    assert _wants_fence(call)
    one.hear(110, call, _alive(is_fenced=True))
    one.is_opening = False
    one.registration.opened_logs(Now(120, 0))
    call = one.ask(120)
    assert not _wants_fence(call)
    one.hear(130, call, _alive())
    assert one.registration.stage is Stage.SERVING


def test_a_node_that_serves_is_not_fenced_for_new_logs() -> None:
    one = Registering()
    one.beat(100)
    one.is_opening = True
    assert not _wants_fence(one.ask(600))
