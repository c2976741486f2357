"""What this node has asked other nodes and is waiting to hear.

A call is a row: whom, what, until when, and the `Conversation` that goes on with the answer. A call
ends once, with an answer or with a failure; what comes after its deadline comes too late, and its
channel is closed with it, since answers on a channel come in order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Any, Protocol

from tidelog.broker.effects import CallPeer, Channel, Effect, HangUp
from tidelog.broker.events import PeerAnswered, PeerFailed
from tidelog.model.clock import Now
from tidelog.model.ids import CallId, Endpoint, NodeId
from tidelog.wire.errors import DecodeError
from tidelog.wire.messages import API_BY_KEY
from tidelog.wire.requests import decode_response, encode_request
from tidelog.wire.schema import schema_of

_MAX_CORRELATION = 0x7FFFFFFF


class Conversation(Protocol):
    """Who asked, and goes on from the answer."""

    def answered(self, now: Now, response: Any) -> None: ...

    def failed(self, now: Now, reason: str) -> None: ...


class Then:
    """A conversation of one question: two functions."""

    __slots__ = ("_on_answer", "_on_failure")

    def __init__(
        self,
        on_answer: Callable[[Now, Any], None],
        on_failure: Callable[[Now, str], None],
    ) -> None:
        self._on_answer = on_answer
        self._on_failure = on_failure

    def answered(self, now: Now, response: Any) -> None:
        self._on_answer(now, response)

    def failed(self, now: Now, reason: str) -> None:
        self._on_failure(now, reason)


@dataclass(slots=True)
class _Call:
    endpoint: Endpoint
    channel: Channel
    api_key: int
    version: int
    deadline_ms: float
    conversation: Conversation


class Peers:
    """All calls under way. `take_effects` gives what is to be sent."""

    def __init__(self, node_id: NodeId) -> None:
        self._client_id = client_id_of(node_id)
        self._calls: dict[CallId, _Call] = {}
        self._deadlines: list[tuple[float, CallId]] = []
        self._next_call = 1
        self.effects: list[Effect] = []

    def __len__(self) -> int:
        return len(self._calls)

    def call(
        self,
        endpoint: Endpoint,
        channel: Channel,
        request: Any,
        *,
        deadline_ms: float,
        conversation: Conversation,
        version: int | None = None,
    ) -> CallId:
        """Ask, in the newest version we speak unless another is given."""
        api_key = schema_of(type(request)).api_key
        assert api_key is not None, f"{type(request).__name__} is not a request"
        if version is None:
            version = API_BY_KEY[api_key].max_version
        call = CallId(self._next_call)
        self._next_call += 1
        frame = encode_request(
            request,
            version,
            correlation_id=call & _MAX_CORRELATION,
            client_id=self._client_id,
        )
        self._calls[call] = _Call(endpoint, channel, api_key, version, deadline_ms, conversation)
        heappush(self._deadlines, (deadline_ms, call))
        self.effects.append(CallPeer(call, endpoint, channel, frame))
        return call

    def answered(self, now: Now, event: PeerAnswered) -> None:
        """A malformed answer is as good as none."""
        call = self._calls.pop(event.call, None)
        if call is None:
            return
        try:
            correlation_id, response = decode_response(call.api_key, call.version, event.frame)
        except DecodeError as error:
            self._give_up(call)
            call.conversation.failed(now, f"a malformed answer: {error}")
            return
        if correlation_id != event.call & _MAX_CORRELATION:
            self._give_up(call)
            call.conversation.failed(now, "an answer to another question")
            return
        call.conversation.answered(now, response)

    def failed(self, now: Now, event: PeerFailed) -> None:
        call = self._calls.pop(event.call, None)
        if call is not None:
            call.conversation.failed(now, event.reason)

    def expire(self, now: Now) -> None:
        """Calls whose time is up, and with each all that waits behind it on its channel."""
        while self._deadlines and self._deadlines[0][0] <= now.monotonic_ms:
            _, number = heappop(self._deadlines)
            call = self._calls.pop(number, None)
            if call is None:
                continue
            self._give_up(call)
            call.conversation.failed(now, "no answer in time")
            for other in [n for n, each in self._calls.items() if _same_channel(each, call)]:
                self._calls.pop(other).conversation.failed(now, "no answer in time")

    def next_deadline(self) -> float | None:
        while self._deadlines and self._deadlines[0][1] not in self._calls:
            heappop(self._deadlines)
        return self._deadlines[0][0] if self._deadlines else None

    def take_effects(self) -> list[Effect]:
        """What is to be done since the last call, in order."""
        effects, self.effects = self.effects, []
        return effects

    def describe(self) -> list[str]:
        return [
            f"{API_BY_KEY[call.api_key].name} to {call.endpoint} until {call.deadline_ms:.0f} ms"
            for call in self._calls.values()
        ]

    def _give_up(self, call: _Call) -> None:
        self.effects.append(HangUp(call.endpoint, call.channel))


def _same_channel(one: _Call, other: _Call) -> bool:
    return one.endpoint == other.endpoint and one.channel == other.channel


def client_id_of(node_id: NodeId | None) -> str:
    """How a node names itself when it asks another."""
    return f"node-{node_id}"
