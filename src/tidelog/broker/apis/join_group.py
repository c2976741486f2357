"""JoinGroup: a member comes; the answer waits until the generation is complete.

From version 4 on a member without an id is given one and must come again with it (KIP-394); from
version 9 on a static leader that comes back may be told not to assign anew (KIP-814).
"""

from __future__ import annotations

from typing import Any

from tidelog.broker.group_requests import client_of, put_one
from tidelog.broker.questions import Question
from tidelog.broker.state import BrokerState, Call
from tidelog.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse

_FIRST_WITH_MEMBER_ID = 4
_FIRST_WITH_SKIP = 9


def handle(state: BrokerState, call: Call, request: JoinGroupRequest) -> Any:
    version = call.slot.header.api_version
    client_id, client_host = client_of(call)
    question = Question(
        request.group_id,
        lambda coordinator, ticket: coordinator.join_group(
            call.now,
            ticket,
            request,
            client_id=client_id,
            client_host=client_host,
            requires_member_id=version >= _FIRST_WITH_MEMBER_ID,
            may_skip_assignment=version >= _FIRST_WITH_SKIP,
        ),
        lambda error: JoinGroupResponse(error_code=error, member_id=request.member_id),
    )
    return put_one(state, call, question)
