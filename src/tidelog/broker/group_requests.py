"""What the group APIs share: putting questions to coordinators, and waiting for their replies."""

from __future__ import annotations

from collections.abc import Callable
from operator import itemgetter
from typing import Any

from tidelog.broker.coordinators import Coordinators
from tidelog.broker.pending import Wait
from tidelog.broker.questions import Ask, Gathering, Question, Refuse
from tidelog.broker.state import PARKED, BrokerState, Call, Sentinel
from tidelog.model.clock import Now
from tidelog.model.errors import ErrorCode

_ONLY = itemgetter(0)


class GroupWait(Wait):
    """A coordinator keeps the time, and gives the response by the row's number."""

    __slots__ = ("_build", "_coordinators", "_gathering")

    def __init__(
        self, coordinators: Coordinators, gathering: Gathering, build: Callable[[list[Any]], Any]
    ) -> None:
        self._coordinators = coordinators
        self._gathering = gathering
        self._build = build

    def resume(self, now: Now, *, is_expired: bool) -> Any | None:
        """Woken by something else than the coordinator: the node stops, or its disk failed."""
        if not is_expired:
            return None
        error = ErrorCode.COORDINATOR_NOT_AVAILABLE
        return self._build([question.refuse(error) for question in self._gathering.questions])

    def abandoned(self, number: int) -> None:
        self._coordinators.forget(self._gathering)

    def describe(self) -> str:
        group_ids = [question.group_id for question in self._gathering.questions]
        return f"waits for the coordinator of {', '.join(group_ids)}"


def put(
    state: BrokerState,
    call: Call,
    questions: list[Question],
    build: Callable[[list[Any]], Any],
) -> Any | Sentinel:
    """Ask, and let the request wait for the replies that do not come at once."""
    gathering = state.coordinators.put(questions, call.now, build)
    if gathering.is_complete:
        return gathering.response()
    wait = GroupWait(state.coordinators, gathering, build)
    gathering.number = state.pending.park_on_reply(call.slot, wait)
    return PARKED


def put_one(state: BrokerState, call: Call, question: Question) -> Any | Sentinel:
    """A question whose reply is the response."""
    return put(state, call, [question], _ONLY)


def put_to_all(
    state: BrokerState,
    call: Call,
    ask: Ask,
    *,
    refuse: Refuse,
    build: Callable[[list[Any]], Any],
) -> Any | Sentinel:
    """A question to every shard of the node."""
    questions = [
        Question("", ask, refuse, partition) for partition in state.coordinators.partitions_led()
    ]
    return put(state, call, questions, build)


def client_of(call: Call) -> tuple[str, str]:
    """Client id and host, as Kafka's tools show them."""
    host = call.slot.connection.peer.rpartition(":")[0]
    return call.slot.header.client_id or "", f"/{host}"
