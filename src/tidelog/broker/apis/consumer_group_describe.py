"""ConsumerGroupDescribe: groups of the newer protocol, with their members."""

from __future__ import annotations

from typing import Any

from tidelog.broker.coordinators import Question
from tidelog.broker.group_requests import put
from tidelog.broker.state import BrokerState, Call
from tidelog.wire.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)


def handle(state: BrokerState, call: Call, request: ConsumerGroupDescribeRequest) -> Any:
    questions = [_question(call, group_id) for group_id in request.group_ids]
    return put(state, call, questions, lambda groups: ConsumerGroupDescribeResponse(groups=groups))


def _question(call: Call, group_id: str) -> Question:
    return Question(
        group_id,
        lambda coordinator, ticket: coordinator.consumer_group_describe(call.now, ticket, group_id),
        lambda error: DescribedGroup(group_id=group_id, error_code=error),
    )
