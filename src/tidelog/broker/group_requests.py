"""What the group APIs share: putting questions to coordinators, and waiting for their replies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tidelog.broker.coordinators import Ask, Coordinators, Question, Refuse
from tidelog.broker.pending import Wait
from tidelog.broker.state import PARKED, BrokerState, Call, Sentinel
from tidelog.model.clock import Now
from tidelog.model.errors import ErrorCode


class GroupWait(Wait):
    """A coordinator keeps the time, and gives the response by the row's number."""

    __slots__ = ("_coordinators", "_group_ids", "_refuse")

    def __init__(
        self,
        coordinators: Coordinators,
        group_ids: list[str],
        refuse: Callable[[ErrorCode], Any],
    ) -> None:
        self._coordinators = coordinators
        self._group_ids = group_ids
        self._refuse = refuse

    def resume(self, now: Now, *, is_expired: bool) -> Any | None:
        """Woken by something else than the coordinator: the node stops, or its disk failed."""
        return self._refuse(ErrorCode.COORDINATOR_NOT_AVAILABLE) if is_expired else None

    def abandoned(self, number: int) -> None:
        self._coordinators.abandon(number)

    def describe(self) -> str:
        return f"waits for the coordinator of {', '.join(self._group_ids)}"


def put(
    state: BrokerState,
    call: Call,
    questions: Sequence[Question],
    build: Callable[[list[Any]], Any],
) -> Any | Sentinel:
    """Ask, and let the request wait for the replies."""
    if not questions:
        return build([])

    def refuse(error: ErrorCode) -> Any:
        return build([question.refuse(error) for question in questions])

    group_ids = [question.group_id for question in questions]
    number = state.pending.park_on_reply(
        call.slot, GroupWait(state.coordinators, group_ids, refuse)
    )
    state.coordinators.put(questions, number=number, now=call.now, build=build)
    return PARKED


def put_one(state: BrokerState, call: Call, question: Question) -> Any | Sentinel:
    """A question whose reply is the response."""
    return put(state, call, [question], _only)


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
        Question("", ask, refuse, partition) for partition in state.coordinators.loaded_partitions()
    ]
    return put(state, call, questions, build)


def _only(replies: list[Any]) -> Any:
    return replies[0]


def client_of(call: Call) -> tuple[str, str]:
    """Client id and host, as Kafka's tools show them."""
    host = call.slot.connection.peer.rpartition(":")[0]
    return call.slot.header.client_id or "", f"/{host}"
