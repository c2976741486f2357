"""Heartbeat: a member lives, and hears whether the group is rebalancing."""

from __future__ import annotations

from typing import Any

from tidelog.broker.group_requests import put_one
from tidelog.broker.questions import Question
from tidelog.broker.state import BrokerState, Call
from tidelog.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse


def handle(state: BrokerState, call: Call, request: HeartbeatRequest) -> Any:
    response = state.coordinators.answer(
        request.group_id, lambda coordinator: coordinator.answer_heartbeat(call.now, request)
    )
    if response is not None:
        return response
    question = Question(
        request.group_id,
        lambda coordinator, ticket: coordinator.heartbeat(call.now, ticket, request),
        lambda error: HeartbeatResponse(error_code=error),
    )
    return put_one(state, call, question)
