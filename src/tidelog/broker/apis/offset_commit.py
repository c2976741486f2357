"""OffsetCommit: how far a group has read, remembered once it is durable."""

from __future__ import annotations

from typing import Any

from tidelog.broker.group_requests import put_one
from tidelog.broker.questions import Question
from tidelog.broker.state import BrokerState, Call
from tidelog.groups.views import refused_commit
from tidelog.wire.messages.offset_commit import OffsetCommitRequest


def handle(state: BrokerState, call: Call, request: OffsetCommitRequest) -> Any:
    question = Question(
        request.group_id,
        lambda coordinator, ticket: coordinator.offset_commit(call.now, ticket, request),
        lambda error: refused_commit(request, error),
    )
    return put_one(state, call, question)
