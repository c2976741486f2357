"""ConsumerGroupHeartbeat: the whole of the newer protocol, KIP-848, in one request."""

from __future__ import annotations

from typing import Any

from tidelog.broker.group_requests import client_of, put_one
from tidelog.broker.questions import Question
from tidelog.broker.state import BrokerState, Call
from tidelog.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)


def handle(state: BrokerState, call: Call, request: ConsumerGroupHeartbeatRequest) -> Any:
    client_id, client_host = client_of(call)
    response = state.coordinators.answer(
        request.group_id,
        lambda coordinator: coordinator.answer_consumer_heartbeat(
            call.now, request, client_id=client_id, client_host=client_host
        ),
    )
    if response is not None:
        return response
    question = Question(
        request.group_id,
        lambda coordinator, ticket: coordinator.consumer_group_heartbeat(
            call.now, ticket, request, client_id=client_id, client_host=client_host
        ),
        lambda error: ConsumerGroupHeartbeatResponse(error_code=error),
    )
    return put_one(state, call, question)
