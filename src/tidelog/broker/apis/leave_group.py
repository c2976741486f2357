"""LeaveGroup: members go, or are sent away by a tool."""

from __future__ import annotations

from typing import Any

from tidelog.broker.group_requests import put_one
from tidelog.broker.questions import Question
from tidelog.broker.state import BrokerState, Call
from tidelog.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse


def handle(state: BrokerState, call: Call, request: LeaveGroupRequest) -> Any:
    question = Question(
        request.group_id,
        lambda coordinator, ticket: coordinator.leave_group(call.now, ticket, request),
        lambda error: LeaveGroupResponse(error_code=error),
    )
    return put_one(state, call, question)
