"""BrokerHeartbeat: a node is alive, has seen the metadata up to here, and may want to stop.

The controller's own node says this to it without a message: whoever says it in one is an impostor.
"""

from __future__ import annotations

from tidelog.broker.controller_calls import active_controller, answer_once_committed
from tidelog.broker.registration import METADATA_OUT_OF_REACH
from tidelog.broker.state import BrokerState, Call, Sentinel
from tidelog.controller.sessions import Heartbeat
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NodeId, PartitionKey, TopicId
from tidelog.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse


def handle(
    state: BrokerState, call: Call, request: BrokerHeartbeatRequest
) -> BrokerHeartbeatResponse | Sentinel:
    controller = active_controller(state)
    if controller is None:
        return _refused(ErrorCode.NOT_CONTROLLER)
    if request.broker_id == state.config.node_id and not state.config.is_member:
        return _refused(ErrorCode.STALE_BROKER_EPOCH)
    beat = Heartbeat(
        NodeId(request.broker_id),
        request.broker_epoch,
        request.current_metadata_offset,
        wants_fence=request.want_fence,
        wants_shutdown=request.want_shut_down,
        is_cut_off=METADATA_OUT_OF_REACH in request.offline_log_dirs,
        may_lack=tuple(
            PartitionKey(TopicId(topic.topic_id), partition)
            for topic in request.doubtful_topics
            for partition in topic.partitions
        ),
    )
    now_ms = call.now.monotonic_ms
    is_certain = state.cluster.is_certain(now_ms)
    decision = controller.heartbeat(beat, now_ms=now_ms, is_certain=is_certain)
    outcome = decision.response
    if outcome.error is ErrorCode.NONE:
        state.heard_on[call.slot.connection.connection_id] = beat.node_id
    response = BrokerHeartbeatResponse(
        error_code=outcome.error,
        is_caught_up=outcome.is_caught_up,
        is_fenced=outcome.is_fenced,
        should_shut_down=outcome.should_shut_down,
    )
    if not is_certain and not decision.records and _was_let_in(state, beat):
        return response  # what is decided and can't be written takes nothing from the node
    return answer_once_committed(state, call, decision, response, fail=_fail)


def _was_let_in(state: BrokerState, beat: Heartbeat) -> bool:
    node = state.image.nodes.get(beat.node_id)
    return node is not None and node.epoch == beat.epoch and not node.is_fenced


def _refused(error: ErrorCode) -> BrokerHeartbeatResponse:
    return BrokerHeartbeatResponse(error_code=error, should_shut_down=False)


def _fail(response: BrokerHeartbeatResponse, error: ErrorCode) -> None:
    response.error_code = error
    response.is_caught_up, response.is_fenced, response.should_shut_down = False, True, False
