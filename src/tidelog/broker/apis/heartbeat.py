"""Heartbeat: a member lives, and hears whether the group is rebalancing."""

from __future__ import annotations

from typing import Any

from tidelog.broker.coordinators import Question
from tidelog.broker.group_requests import put_one
from tidelog.broker.state import BrokerState, Call
from tidelog.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse


def handle(state: BrokerState, call: Call, request: HeartbeatRequest) -> Any:
    question = Question(
        request.group_id,
        lambda coordinator, ticket: coordinator.heartbeat(call.now, ticket, request),
        lambda error: HeartbeatResponse(error_code=error),
    )
    return put_one(state, call, question)
