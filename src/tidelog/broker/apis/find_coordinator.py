"""FindCoordinator: which node looks after a group. The first question creates the offsets topic.

Transactions are not in this release: a transactional id is refused at once, with the one error
that ends a producer's attempts. Share groups neither.
"""

from __future__ import annotations

from tidelog.broker.commit_wait import CommitWait
from tidelog.broker.offsets_log import OFFSETS_CONFIGS, OFFSETS_TOPIC
from tidelog.broker.state import PARKED, BrokerState, Call, Sentinel
from tidelog.controller.topics import TopicSpec
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NO_NODE
from tidelog.wire.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

_GROUP = 0
_TRANSACTION = 1
_COMMIT_TIMEOUT_MS = 30_000


def handle(
    state: BrokerState, call: Call, request: FindCoordinatorRequest
) -> FindCoordinatorResponse | Sentinel:
    if request.key_type == _TRANSACTION:
        return _refused(request, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "transactions")
    if request.key_type != _GROUP:
        return _refused(request, ErrorCode.INVALID_REQUEST, "share groups")
    if state.coordinators.partitions:
        return _found(state, request)
    spec = TopicSpec(
        OFFSETS_TOPIC,
        partitions=state.config.settings.offsets_topic_num_partitions,
        configs=OFFSETS_CONFIGS,
    )
    offset = state.commit(state.controller.create_topics([spec]), call.now)
    if isinstance(offset, ErrorCode):
        return _unavailable(request, offset)
    state.pending.park_on_metadata(
        call.slot,
        CommitWait(state, offset, _found(state, request), _fail),
        offset=offset,
        deadline_ms=call.now.monotonic_ms + _COMMIT_TIMEOUT_MS,
    )
    return PARKED


def _found(state: BrokerState, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
    node = state.image.nodes[state.config.node_id]
    return FindCoordinatorResponse(
        error_message=None,
        node_id=node.node_id,
        host=node.host,
        port=node.port,
        coordinators=[
            Coordinator(
                key=key, node_id=node.node_id, host=node.host, port=node.port, error_message=None
            )
            for key in request.coordinator_keys
        ],
    )


def _refused(
    request: FindCoordinatorRequest, error: ErrorCode, what: str
) -> FindCoordinatorResponse:
    response = _unavailable(request, error)
    message = f"{what} are not in this release of Tidelog"
    response.error_message = message
    for coordinator in response.coordinators:
        coordinator.error_message = message
    return response


def _unavailable(request: FindCoordinatorRequest, error: ErrorCode) -> FindCoordinatorResponse:
    keys = request.coordinator_keys
    response = FindCoordinatorResponse(
        coordinators=[
            Coordinator(key=key, node_id=0, host="", port=0, error_message="") for key in keys
        ]
    )
    _fail(response, error)
    return response


def _fail(response: FindCoordinatorResponse, error: ErrorCode) -> None:
    """Whatever went wrong, a client tries again; but a refusal for good stays one."""
    if error in (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.REQUEST_TIMED_OUT):
        error = ErrorCode.COORDINATOR_NOT_AVAILABLE
    response.error_code, response.error_message = error, error.explanation
    response.node_id, response.host, response.port = NO_NODE, "", -1
    for coordinator in response.coordinators:
        coordinator.error_code, coordinator.error_message = error, error.explanation
        coordinator.node_id, coordinator.host, coordinator.port = NO_NODE, "", -1
