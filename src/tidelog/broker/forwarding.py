"""Requests that only the controller can decide, received by another node.

The node asks the controller in the client's stead, in the client's version, and hands on what it
says. While nobody is the controller, or an election is under way, it asks again; a client that has
waited too long is sent away, and comes back by itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tidelog.broker.controller_link import RETRY_MS, ControllerLink
from tidelog.broker.peers import Then
from tidelog.broker.pending import Pending, Wait
from tidelog.broker.state import CLOSE, PARKED, Call, Sentinel
from tidelog.model.clock import Now
from tidelog.model.errors import ErrorCode

PATIENCE_MS = 15_000.0
"""For one request, attempts and pauses together."""

_ATTEMPT_MS = 5_000.0

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
    """One request on its way."""

    __slots__ = ("number", "request", "retry_at_ms", "until_ms", "version")

    def __init__(self, number: int, request: Any, version: int, until_ms: float) -> None:
        self.number = number
        self.request = request
        self.version = version
        self.until_ms = until_ms
        self.retry_at_ms = 0.0


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

    def forward(self, call: Call, request: Any, version: int) -> Sentinel:
        wait = ForwardWait(type(request).__name__)
        until_ms = call.now.monotonic_ms + PATIENCE_MS
        number = self._pending.park_on_reply(call.slot, wait)
        self._try(call.now, _Forwarded(number, request, version, until_ms))
        return PARKED

    def tick(self, now: Now) -> None:
        """Ask again for those whose pause is over; give up on those who have waited enough."""
        due = [one for one in self._waiting if now.monotonic_ms >= one.retry_at_ms]
        if due:
            self._waiting = [one for one in self._waiting if now.monotonic_ms < one.retry_at_ms]
        for one in due:
            self._try(now, one)

    def next_deadline(self) -> float | None:
        if not self._waiting:
            return None
        return min(one.retry_at_ms for one in self._waiting)

    def _try(self, now: Now, one: _Forwarded) -> None:
        if not self._pending.has_number(one.number):
            return
        if now.monotonic_ms >= one.until_ms:
            self._answer(one.number, CLOSE)
            return
        conversation = Then(
            lambda then, response: self._answered(then, one, response),
            lambda then, reason: self._later(then, one),
        )
        is_sent = self._link.ask(
            now,
            one.request,
            timeout_ms=_ATTEMPT_MS,
            conversation=conversation,
            version=one.version,
        )
        if not is_sent:
            self._later(now, one)

    def _answered(self, now: Now, one: _Forwarded, response: Any) -> None:
        if _says_not_controller(response):
            self._later(now, one)
        else:
            self._answer(one.number, response)

    def _later(self, now: Now, one: _Forwarded) -> None:
        one.retry_at_ms = now.monotonic_ms + RETRY_MS
        self._waiting.append(one)


def _says_not_controller(response: Any) -> bool:
    """The word stands at the top of a response, or in each of its rows."""
    if getattr(response, "error_code", None) is ErrorCode.NOT_CONTROLLER:
        return True
    for name in ("topics", "responses", "results"):
        rows = getattr(response, name, None)
        if rows:
            return any(getattr(r, "error_code", None) is ErrorCode.NOT_CONTROLLER for r in rows)
    return False
