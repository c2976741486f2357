"""UnregisterBroker: a node that will not come back is forgotten.

What it kept is not moved by this: drain it first, or reassign its partitions after.
"""

from __future__ import annotations

from tidelog.broker.controller_calls import active_controller, answer_once_committed
from tidelog.broker.state import BrokerState, Call, Sentinel
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NodeId
from tidelog.wire.messages.unregister_broker import (
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)


def handle(
    state: BrokerState, call: Call, request: UnregisterBrokerRequest
) -> UnregisterBrokerResponse | Sentinel:
    response = UnregisterBrokerResponse(error_message=None)
    controller = active_controller(state)
    if controller is None:
        _fail(response, ErrorCode.NOT_CONTROLLER)
        return response
    decision = controller.unregister(NodeId(request.broker_id))
    if decision.response is not ErrorCode.NONE:
        _fail(response, decision.response)
    return answer_once_committed(state, call, decision, response, fail=_fail)


def _fail(response: UnregisterBrokerResponse, error: ErrorCode) -> None:
    response.error_code, response.error_message = error, error.explanation
