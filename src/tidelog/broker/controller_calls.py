"""What the controller's APIs share: whether this node decides, and answering once it counts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from tidelog.broker.commit_wait import CommitWait
from tidelog.broker.state import PARKED, BrokerState, Call, Sentinel
from tidelog.controller.controller import Controller
from tidelog.controller.decision import Decision
from tidelog.model.errors import ErrorCode

Response = TypeVar("Response")

COMMIT_TIMEOUT_MS = 30_000


def active_controller(state: BrokerState) -> Controller | None:
    """The cluster's controller, if it is this node; else the answer is NOT_CONTROLLER."""
    return state.active_controller


def answer_once_committed(
    state: BrokerState,
    call: Call,
    decision: Decision[Any],
    response: Response,
    *,
    fail: Callable[[Response, ErrorCode], None],
    timeout_ms: float = COMMIT_TIMEOUT_MS,
) -> Response | Sentinel:
    """Record the decision; the response leaves when everything it rests on is committed. `fail`
    makes it say that this did not come about."""
    offset = state.commit(decision, call.now)
    if isinstance(offset, ErrorCode):
        fail(response, offset)
        return response
    if offset < state.journal.committed_offset:
        return response
    state.pending.park_on_metadata(
        call.slot,
        CommitWait(state, offset, response, fail),
        offset=offset,
        deadline_ms=call.now.monotonic_ms + max(0, timeout_ms),
    )
    return PARKED
