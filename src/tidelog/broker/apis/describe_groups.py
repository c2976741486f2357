"""DescribeGroups: classic groups with their members.

Before version 6 a group that does not exist is described as dead, without an error (KIP-1043).
"""

from __future__ import annotations

from typing import Any

from tidelog.broker.authorized_operations import ON_GROUP
from tidelog.broker.group_requests import put
from tidelog.broker.questions import Question
from tidelog.broker.state import BrokerState, Call
from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.describe_groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)

_FIRST_WITH_NOT_FOUND = 6


def handle(state: BrokerState, call: Call, request: DescribeGroupsRequest) -> Any:
    hears_not_found = call.slot.header.api_version >= _FIRST_WITH_NOT_FOUND

    def build(groups: list[DescribedGroup]) -> DescribeGroupsResponse:
        for group in groups:
            if group.error_code is ErrorCode.GROUP_ID_NOT_FOUND and not hears_not_found:
                group.error_code = ErrorCode.NONE
            if request.include_authorized_operations and group.error_code is ErrorCode.NONE:
                group.authorized_operations = ON_GROUP
        return DescribeGroupsResponse(groups=groups)

    return put(state, call, [_question(call, group_id) for group_id in request.groups], build)


def _question(call: Call, group_id: str) -> Question:
    return Question(
        group_id,
        lambda coordinator, ticket: coordinator.describe_group(call.now, ticket, group_id),
        lambda error: DescribedGroup(group_id=group_id, error_code=error),
    )
