"""ConsumerGroupHeartbeat: the whole of the newer protocol, KIP-848, in one request."""

from __future__ import annotations

from typing import Any

from tidelog.broker.coordinators import Question
from tidelog.broker.group_requests import client_of, put_one
from tidelog.broker.state import BrokerState, Call
from tidelog.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)


def handle(state: BrokerState, call: Call, request: ConsumerGroupHeartbeatRequest) -> Any:
    client_id, client_host = client_of(call)
    question = Question(
        request.group_id,
        lambda coordinator, ticket: coordinator.consumer_group_heartbeat(
            call.now, ticket, request, client_id=client_id, client_host=client_host
        ),
        lambda error: ConsumerGroupHeartbeatResponse(error_code=error),
    )
    return put_one(state, call, question)
