"""ConsumerGroupDescribe: groups of the newer protocol, with their members."""

from __future__ import annotations

from typing import Any

from tidelog.broker.authorized_operations import ON_GROUP
from tidelog.broker.group_requests import put
from tidelog.broker.questions import Question
from tidelog.broker.state import BrokerState, Call
from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)


def handle(state: BrokerState, call: Call, request: ConsumerGroupDescribeRequest) -> Any:
    questions = [_question(call, group_id) for group_id in request.group_ids]

    def build(groups: list[DescribedGroup]) -> ConsumerGroupDescribeResponse:
        for group in groups:
            if request.include_authorized_operations and group.error_code is ErrorCode.NONE:
                group.authorized_operations = ON_GROUP
        return ConsumerGroupDescribeResponse(groups=groups)

    return put(state, call, questions, build)


def _question(call: Call, group_id: str) -> Question:
    return Question(
        group_id,
        lambda coordinator, ticket: coordinator.consumer_group_describe(call.now, ticket, group_id),
        lambda error: DescribedGroup(group_id=group_id, error_code=error),
    )
