"""ListGroups: all groups of all shards of this node."""

from __future__ import annotations

from typing import Any

from tidelog.broker.group_requests import put_to_all
from tidelog.broker.state import BrokerState, Call
from tidelog.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse


def handle(state: BrokerState, call: Call, request: ListGroupsRequest) -> Any:
    return put_to_all(
        state,
        call,
        lambda coordinator, ticket: coordinator.list_groups(call.now, ticket, request),
        refuse=lambda error: ListGroupsResponse(error_code=error),
        build=_merged,
    )


def _merged(responses: list[ListGroupsResponse]) -> ListGroupsResponse:
    failed = [response for response in responses if response.error_code]
    if failed:
        return failed[0]
    groups = [group for response in responses for group in response.groups]
    return ListGroupsResponse(groups=sorted(groups, key=lambda group: group.group_id))
