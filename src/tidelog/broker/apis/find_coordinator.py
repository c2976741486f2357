"""FindCoordinator: which node looks after a group. The first question creates the offsets topic.

Transactions are not in this release: a transactional id is refused at once, in a way that ends a
producer's attempts. Share groups neither.
"""

from __future__ import annotations

from tidelog.broker.commit_wait import CommitWait
from tidelog.broker.offsets_log import OFFSETS_CONFIGS, OFFSETS_TOPIC
from tidelog.broker.peers import Then
from tidelog.broker.state import PARKED, BrokerState, Call, Sentinel
from tidelog.controller.topics import TopicSpec
from tidelog.model.clock import Now
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NO_NODE, Offset
from tidelog.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from tidelog.wire.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

_GROUP = 0
_TRANSACTION = 1
_LIBRDKAFKAS = 2
_COMMIT_TIMEOUT_MS = 30_000


def handle(
    state: BrokerState, call: Call, request: FindCoordinatorRequest
) -> FindCoordinatorResponse | Sentinel:
    if request.key_type == _TRANSACTION:
        return _refused(request, _no_transactions(call.slot.header.api_version), "transactions")
    if request.key_type != _GROUP:
        return _refused(request, ErrorCode.INVALID_REQUEST, "share groups")
    if state.coordinators.partitions:
        return _found(state, request)
    if state.active_controller is None:
        return _ask_for_creation(state, call, request)
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
        CoordinatorWait(state, request, offset),
        offset=offset,
        deadline_ms=call.now.monotonic_ms + _COMMIT_TIMEOUT_MS,
    )
    return PARKED


class CoordinatorWait(CommitWait):
    """The offsets topic is being created; who leads it is known once it is."""

    __slots__ = ("_asked",)

    def __init__(self, state: BrokerState, request: FindCoordinatorRequest, offset: Offset) -> None:
        missing = _unavailable(request, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        super().__init__(state, offset, missing, _fail)
        self._asked = request

    def resume(self, now: Now, *, is_expired: bool) -> FindCoordinatorResponse:
        if OFFSETS_TOPIC in self._state.image.topics and self._state.coordinators.partitions:
            return _found(self._state, self._asked)
        response: FindCoordinatorResponse = super().resume(now, is_expired=is_expired)
        return response


def _ask_for_creation(
    state: BrokerState, call: Call, request: FindCoordinatorRequest
) -> FindCoordinatorResponse:
    """The client comes back, and the topic will be there."""
    topic = CreatableTopic(
        name=OFFSETS_TOPIC,
        num_partitions=state.config.settings.offsets_topic_num_partitions,
        replication_factor=-1,
        configs=[
            CreatableTopicConfig(name=name, value=value) for name, value in OFFSETS_CONFIGS.items()
        ],
    )
    state.cluster.ask_controller(
        call.now,
        CreateTopicsRequest(topics=[topic], timeout_ms=_COMMIT_TIMEOUT_MS),
        timeout_ms=_COMMIT_TIMEOUT_MS,
        conversation=Then(lambda now, response: None, lambda now, reason: None),
    )
    return _unavailable(request, ErrorCode.COORDINATOR_NOT_AVAILABLE)


def _found(state: BrokerState, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
    rows = [_coordinator(state, key) for key in request.coordinator_keys or [request.key]]
    first = rows[0]
    return FindCoordinatorResponse(
        error_code=first.error_code,
        error_message=first.error_message,
        node_id=first.node_id,
        host=first.host,
        port=first.port,
        coordinators=rows,
    )


def _coordinator(state: BrokerState, group: str) -> Coordinator:
    """Whoever leads the group's partition of the offsets topic."""
    partition = state.coordinators.partition_for(group)
    led = state.image.topics[OFFSETS_TOPIC].partitions[partition]
    node = state.image.nodes.get(led.leader)
    if node is None:
        error = ErrorCode.COORDINATOR_NOT_AVAILABLE
        return Coordinator(
            key=group,
            node_id=NO_NODE,
            host="",
            port=-1,
            error_code=error,
            error_message=error.explanation,
        )
    return Coordinator(
        key=group, node_id=node.node_id, host=node.host, port=node.port, error_message=None
    )


def _no_transactions(version: int) -> ErrorCode:
    """librdkafka, whose newest version is 2, asks again for ever unless the code is that of an ACL;
    it shows the message behind it. All others give up at once, and show the code or the message."""
    if version == _LIBRDKAFKAS:
        return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    return ErrorCode.UNSUPPORTED_VERSION


def _refused(
    request: FindCoordinatorRequest, error: ErrorCode, what: str
) -> FindCoordinatorResponse:
    response = _unavailable(request, error)
    message = f"{what} are not supported yet by this release of Tidelog"
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
