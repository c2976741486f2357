"""OffsetDelete: a group forgets how far it has read some partitions."""

from __future__ import annotations

from typing import Any

from tidelog.broker.group_requests import put_one
from tidelog.broker.questions import Question
from tidelog.broker.state import BrokerState, Call
from tidelog.wire.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse


def handle(state: BrokerState, call: Call, request: OffsetDeleteRequest) -> Any:
    question = Question(
        request.group_id,
        lambda coordinator, ticket: coordinator.offset_delete(call.now, ticket, request),
        lambda error: OffsetDeleteResponse(error_code=error),
    )
    return put_one(state, call, question)
