"""Requests that only the controller can decide, received by another node.

The node asks the controller in the client's stead, in the client's version, and hands on what it
says. While nobody is the controller, or an election is under way, it asks again; a client that has
waited too long is sent away, and comes back by itself.

Such a request may take long (thousands of topics are created in slices), so each has a channel of
its own while it is under way: neither the node's heartbeats nor other clients' requests wait behind
it. And it is not asked again while the controller that was asked is in office: it may be at work.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tidelog.broker.controller_link import RETRY_MS, ControllerLink
from tidelog.broker.pending import Pending, Wait
from tidelog.broker.state import CLOSE, PARKED, Call, Sentinel
from tidelog.model.clock import Now
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import Endpoint
from tidelog.wire.messages.describe_quorum import DescribeQuorumResponse

PATIENCE_MS = 15_000.0
"""For one request, attempts and pauses together; one that is under way may take as long as its
client has said, if that is longer."""

_LONGEST_MS = 120_000.0
"""However long the client is willing to wait."""

_LOOK_MS = 500.0
"""How often to look whether the controller that was asked is still the controller."""

_MAX_LANES = 16
"""Channels for forwarded requests; more requests than that share them."""

FORWARDED = frozenset((19, 20, 33, 37, 43, 44, 45, 46, 64))
"""CreateTopics, DeleteTopics, AlterConfigs, CreatePartitions, ElectLeaders,
IncrementalAlterConfigs, AlterPartitionReassignments, ListPartitionReassignments,
UnregisterBroker."""


class ForwardWait(Wait):
    """The controller has been asked, or will be."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def resume(self, now: Now, *, is_expired: bool) -> Any | None:
        return CLOSE if is_expired else None

    def describe(self) -> str:
        return f"{self._name} waits for the controller"


class _Forwarded:
    """One request on its way. `attempt` is the last one; None between two."""

    __slots__ = ("attempt", "number", "request", "retry_at_ms", "timeout_ms", "until_ms", "version")

    def __init__(self, number: int, request: Any, version: int, now_ms: float) -> None:
        self.number = number
        self.request = request
        self.version = version
        self.until_ms = now_ms + PATIENCE_MS
        self.timeout_ms = min(_LONGEST_MS, getattr(request, "timeout_ms", 0))
        self.retry_at_ms = 0.0
        self.attempt: _Attempt | None = None


class _Attempt:
    """A `Conversation` with one controller about one request."""

    __slots__ = ("_forwarding", "endpoint", "forwarded", "lane")

    def __init__(
        self, forwarding: Forwarding, forwarded: _Forwarded, endpoint: Endpoint, lane: int
    ) -> None:
        self._forwarding = forwarding
        self.forwarded = forwarded
        self.endpoint = endpoint
        self.lane = lane

    def answered(self, now: Now, response: Any) -> None:
        self._forwarding.ended(self)
        if self.forwarded.attempt is self:
            self._forwarding.answered(now, self.forwarded, response)

    def failed(self, now: Now, reason: str) -> None:
        self._forwarding.ended(self)
        if self.forwarded.attempt is self:
            self._forwarding.retry_later(now, self.forwarded)


class Forwarding:
    """All requests that were handed on. `answer` gives a row's client its response."""

    def __init__(
        self,
        link: ControllerLink,
        pending: Pending,
        answer: Callable[[int, Any], None],
    ) -> None:
        self._link = link
        self._pending = pending
        self._answer = answer
        self._waiting: list[_Forwarded] = []
        self._under_way: dict[_Attempt, None] = {}
        self._look_at_ms = 0.0

    def forward(self, call: Call, request: Any, version: int) -> Sentinel:
        wait = ForwardWait(type(request).__name__)
        number = self._pending.park_on_reply(call.slot, wait)
        self._try(call.now, _Forwarded(number, request, version, call.now.monotonic_ms))
        return PARKED

    def tick(self, now: Now) -> None:
        """Ask again for those whose pause is over; give up on those who have waited enough."""
        if self._under_way and now.monotonic_ms >= self._look_at_ms:
            self._look_at_ms = now.monotonic_ms + _LOOK_MS
            self._look_for_another_controller(now)
        due = [one for one in self._waiting if now.monotonic_ms >= one.retry_at_ms]
        if due:
            self._waiting = [one for one in self._waiting if now.monotonic_ms < one.retry_at_ms]
        for one in due:
            self._try(now, one)

    def next_deadline(self) -> float | None:
        deadlines = [one.retry_at_ms for one in self._waiting]
        if self._under_way:
            deadlines.append(self._look_at_ms)
        return min(deadlines, default=None)

    def _look_for_another_controller(self, now: Now) -> None:
        """One that was asked and has been replaced may never answer, nor end its connection."""
        controller = self._link.endpoint
        for attempt in list(self._under_way):
            is_current = attempt.forwarded.attempt is attempt
            if is_current and controller not in (None, attempt.endpoint):
                self.retry_later(now, attempt.forwarded)

    def _try(self, now: Now, one: _Forwarded) -> None:
        if not self._pending.has_number(one.number):
            return
        if now.monotonic_ms >= one.until_ms:
            self._answer(one.number, CLOSE)
            return
        endpoint = self._link.endpoint
        if endpoint is None:
            self.retry_later(now, one)
            return
        if not self._under_way:
            self._look_at_ms = now.monotonic_ms + _LOOK_MS
        attempt = one.attempt = _Attempt(self, one, endpoint, self._free_lane())
        self._under_way[attempt] = None
        self._link.ask(
            now,
            one.request,
            timeout_ms=max(one.until_ms - now.monotonic_ms, one.timeout_ms),
            conversation=attempt,
            channel=("forwarded", attempt.lane),
            version=one.version,
        )

    def _free_lane(self) -> int:
        taken = [attempt.lane for attempt in self._under_way]
        return min(range(_MAX_LANES), key=lambda lane: (taken.count(lane), lane))

    def ended(self, attempt: _Attempt) -> None:
        """Its channel is free for others."""
        self._under_way.pop(attempt, None)

    def answered(self, now: Now, one: _Forwarded, response: Any) -> None:
        if _says_not_controller(response):
            self.retry_later(now, one)
        else:
            self._answer(one.number, response)

    def retry_later(self, now: Now, one: _Forwarded) -> None:
        one.attempt = None
        one.retry_at_ms = now.monotonic_ms + RETRY_MS
        self._waiting.append(one)


def _says_not_controller(response: Any) -> bool:
    """The word stands at the top of a response, or in each of its rows."""
    if isinstance(response, DescribeQuorumResponse):
        partitions = (each for topic in response.topics for each in topic.partitions)
        return any(each.error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER for each in partitions)
    if getattr(response, "error_code", None) is ErrorCode.NOT_CONTROLLER:
        return True
    for name in ("topics", "responses", "results"):
        rows = getattr(response, name, None)
        if rows:
            return any(getattr(r, "error_code", None) is ErrorCode.NOT_CONTROLLER for r in rows)
    return False
