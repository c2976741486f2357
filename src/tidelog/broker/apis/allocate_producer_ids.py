"""AllocateProducerIds: a block of producer ids for a node to give out, never given to another."""

from __future__ import annotations

from tidelog.broker.controller_calls import active_controller, answer_once_committed
from tidelog.broker.state import BrokerState, Call, Sentinel
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NO_PRODUCER, NodeId
from tidelog.wire.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)


def handle(
    state: BrokerState, call: Call, request: AllocateProducerIdsRequest
) -> AllocateProducerIdsResponse | Sentinel:
    response = AllocateProducerIdsResponse(producer_id_start=NO_PRODUCER, producer_id_len=0)
    controller = active_controller(state)
    if controller is None:
        _fail(response, ErrorCode.NOT_CONTROLLER)
        return response
    decision = controller.allocate_producer_ids_for(NodeId(request.broker_id), request.broker_epoch)
    ids = decision.response
    if isinstance(ids, ErrorCode):
        _fail(response, ids)
        return response
    response.producer_id_start, response.producer_id_len = ids.start, len(ids)
    return answer_once_committed(state, call, decision, response, fail=_fail)


def _fail(response: AllocateProducerIdsResponse, error: ErrorCode) -> None:
    response.error_code = error
    response.producer_id_start, response.producer_id_len = NO_PRODUCER, 0
