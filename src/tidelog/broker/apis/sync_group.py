"""SyncGroup: the leader hands in the assignments; every member waits for its own."""

from __future__ import annotations

from typing import Any

from tidelog.broker.group_requests import put_one
from tidelog.broker.questions import Question
from tidelog.broker.state import BrokerState, Call
from tidelog.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse


def handle(state: BrokerState, call: Call, request: SyncGroupRequest) -> Any:
    question = Question(
        request.group_id,
        lambda coordinator, ticket: coordinator.sync_group(call.now, ticket, request),
        lambda error: SyncGroupResponse(error_code=error),
    )
    return put_one(state, call, question)
