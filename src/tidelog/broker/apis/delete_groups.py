"""DeleteGroups: groups without members, with all their offsets."""

from __future__ import annotations

from typing import Any

from tidelog.broker.group_requests import put
from tidelog.broker.questions import Question
from tidelog.broker.state import BrokerState, Call
from tidelog.wire.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)


def handle(state: BrokerState, call: Call, request: DeleteGroupsRequest) -> Any:
    questions = [_question(call, group_id) for group_id in request.groups_names]
    return put(state, call, questions, lambda results: DeleteGroupsResponse(results=results))


def _question(call: Call, group_id: str) -> Question:
    return Question(
        group_id,
        lambda coordinator, ticket: coordinator.delete_group(call.now, ticket, group_id),
        lambda error: DeletableGroupResult(group_id=group_id, error_code=error),
    )
