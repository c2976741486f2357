"""BrokerRegistration: a node has started, and gets the broker epoch of this life.

The directories a node announces are not used: every node has one. Of the features only one is ours:
a node that is back from a crash says so (`RECOVERED`). A node that is alone registers without a
message: one that does so in a message has taken its id.
"""

from __future__ import annotations

from tidelog.broker.controller_calls import active_controller, answer_once_committed
from tidelog.broker.registration import RECOVERED
from tidelog.broker.state import BrokerState, Call, Sentinel
from tidelog.controller.registry import Registration
from tidelog.metadata.image import Listener
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NO_BROKER_EPOCH, BrokerEpoch, NodeId
from tidelog.wire.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
)


def handle(
    state: BrokerState, call: Call, request: BrokerRegistrationRequest
) -> BrokerRegistrationResponse | Sentinel:
    controller = active_controller(state)
    if controller is None:
        return BrokerRegistrationResponse(error_code=ErrorCode.NOT_CONTROLLER)
    if request.broker_id == state.config.node_id and not state.config.is_member:
        return BrokerRegistrationResponse(error_code=ErrorCode.DUPLICATE_BROKER_REGISTRATION)
    asked = Registration(
        NodeId(request.broker_id),
        listeners=tuple(
            Listener(each.name, each.host, each.port, each.security_protocol)
            for each in request.listeners
        ),
        rack=request.rack,
        incarnation_id=request.incarnation_id,
        previous_epoch=BrokerEpoch(request.previous_broker_epoch),
        has_crashed=any(feature.name == RECOVERED for feature in request.features),
        cluster_id=request.cluster_id,
    )
    decision = controller.register(asked, now_ms=call.now.monotonic_ms)
    outcome = decision.response
    response = BrokerRegistrationResponse(error_code=outcome.error, broker_epoch=outcome.epoch)
    return answer_once_committed(state, call, decision, response, fail=_fail)


def _fail(response: BrokerRegistrationResponse, error: ErrorCode) -> None:
    response.error_code, response.broker_epoch = error, NO_BROKER_EPOCH
