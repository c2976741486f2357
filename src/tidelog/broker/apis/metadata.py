"""Metadata: nodes, topics and leaders, from the committed image; unknown topics made if allowed.

Auto-creation is decided once per request, and the answer waits until the topics are real: a client
never has to come back for a leader. A topic asked for by id is never created.
"""

from __future__ import annotations

from tidelog.broker.pending import Wait
from tidelog.broker.state import PARKED, BrokerState, Call, Sentinel
from tidelog.controller.topics import TopicSpec
from tidelog.metadata.image import Image, PartitionState, TopicState
from tidelog.model.clock import Now
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NO_LEADER, NO_TOPIC_ID, TopicId
from tidelog.wire.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from tidelog.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

_COMMIT_TIMEOUT_MS = 30_000


class MetadataWait(Wait):
    """Topics are being created; `refused` are those that could not be."""

    __slots__ = ("_refused", "_request", "_state")

    def __init__(
        self, state: BrokerState, request: MetadataRequest, refused: dict[str, ErrorCode]
    ) -> None:
        self._state = state
        self._request = request
        self._refused = refused

    def resume(self, now: Now, *, is_expired: bool) -> MetadataResponse:
        return _respond(self._state, self._request, self._refused)

    def describe(self) -> str:
        names = [topic.name for topic in self._request.topics or []]
        return f"Metadata waits for the creation of some of {names}"


def handle(state: BrokerState, call: Call, request: MetadataRequest) -> MetadataResponse | Sentinel:
    missing = _missing_topics(state, request)
    if not missing:
        return _respond(state, request, {})
    if state.active_controller is None:
        return _ask_for_creation(state, call, request, missing)
    decision = state.controller.create_topics([TopicSpec(name) for name in missing])
    refused: dict[str, ErrorCode] = {
        outcome.name or "": outcome.error
        for outcome in decision.response
        if outcome.error not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)
    }
    if decision.records:
        offset = state.commit(decision, call.now)
        if isinstance(offset, ErrorCode):
            return _respond(state, request, dict.fromkeys(missing, offset))
    elif len(refused) == len(missing):
        return _respond(state, request, refused)
    else:
        # The rest exists in the log already, by an earlier request that is not committed yet.
        offset = state.journal.last_offset
    state.pending.park_on_metadata(
        call.slot,
        MetadataWait(state, request, refused),
        offset=offset,
        deadline_ms=call.now.monotonic_ms + _COMMIT_TIMEOUT_MS,
    )
    return PARKED


def _ask_for_creation(
    state: BrokerState, call: Call, request: MetadataRequest, missing: list[str]
) -> MetadataResponse | Sentinel:
    """The controller creates them; the client that asks again finds them, or waits here until this
    node knows of them."""
    wait = CreationWait(state, request, missing)
    asked = CreateTopicsRequest(
        topics=[
            CreatableTopic(name=name, num_partitions=-1, replication_factor=-1) for name in missing
        ],
        timeout_ms=_COMMIT_TIMEOUT_MS,
    )
    is_asked = state.cluster.ask_controller(
        call.now, asked, timeout_ms=_COMMIT_TIMEOUT_MS, conversation=wait
    )
    if not is_asked:
        return _respond(state, request, dict.fromkeys(missing, ErrorCode.LEADER_NOT_AVAILABLE))
    state.pending.park_on_image(
        call.slot, wait, deadline_ms=call.now.monotonic_ms + _COMMIT_TIMEOUT_MS
    )
    return PARKED


class CreationWait(Wait):
    """Another node has been asked to create topics: until the image has them, or they were refused.
    It is the conversation with the controller, too."""

    __slots__ = ("_missing", "_refused", "_request", "_state")

    def __init__(self, state: BrokerState, request: MetadataRequest, missing: list[str]) -> None:
        self._state = state
        self._request = request
        self._missing = missing
        self._refused: dict[str, ErrorCode] = {}

    def resume(self, now: Now, *, is_expired: bool) -> MetadataResponse | None:
        known = self._state.image.topics
        is_done = all(name in known or name in self._refused for name in self._missing)
        if not (is_done or is_expired):
            return None
        return _respond(self._state, self._request, self._refused)

    def answered(self, now: Now, response: CreateTopicsResponse) -> None:
        for topic in response.topics:
            if topic.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                is_late = topic.error_code is ErrorCode.NOT_CONTROLLER
                error = ErrorCode.LEADER_NOT_AVAILABLE if is_late else topic.error_code
                self._refused[topic.name] = error
        self._state.image_waits_due = True

    def failed(self, now: Now, reason: str) -> None:
        self._refused = dict.fromkeys(self._missing, ErrorCode.LEADER_NOT_AVAILABLE)
        self._state.image_waits_due = True

    def describe(self) -> str:
        return f"Metadata waits for the controller to create {self._missing}"


def _missing_topics(state: BrokerState, request: MetadataRequest) -> list[str]:
    may_create = (
        request.allow_auto_topic_creation and state.config.settings.auto_create_topics_enable
    )
    if not may_create or request.topics is None:
        return []
    names = {topic.name: None for topic in request.topics if topic.name is not None}
    return [name for name in names if name not in state.image.topics]


def _respond(
    state: BrokerState, request: MetadataRequest, refused: dict[str, ErrorCode]
) -> MetadataResponse:
    image = state.image
    if request.topics is None:
        topics = [_describe(image, topic) for topic in image.topics.values()]
    else:
        # Each topic once: answering repeats would let a small request ask for gigabytes.
        asked_once = {(asked.name, asked.topic_id): asked for asked in request.topics}
        topics = [_answer(state, asked, refused) for asked in asked_once.values()]
    return MetadataResponse(
        brokers=[
            MetadataResponseBroker(
                node_id=node.node_id, host=node.host, port=node.port, rack=node.rack
            )
            for node in image.nodes.values()
            if not node.is_fenced
        ],
        cluster_id=image.cluster_id,
        controller_id=state.cluster.told_controller_id,
        topics=topics,
    )


def _answer(
    state: BrokerState, asked: MetadataRequestTopic, refused: dict[str, ErrorCode]
) -> MetadataResponseTopic:
    topic_id = TopicId(asked.topic_id)
    if asked.name is not None:
        topic = state.image.topics.get(asked.name)
        unknown = refused.get(asked.name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    else:
        topic = state.image.topic_by_id(topic_id)
        unknown = ErrorCode.UNKNOWN_TOPIC_ID
    if topic is not None:
        return _describe(state.image, topic)
    return MetadataResponseTopic(
        error_code=unknown,
        name=asked.name,
        topic_id=NO_TOPIC_ID if asked.name is not None else topic_id,
        partitions=[],
    )


def _describe(image: Image, topic: TopicState) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=[_partition(image, state) for state in topic.partitions],
    )


def _partition(image: Image, state: PartitionState) -> MetadataResponsePartition:
    has_leader = state.leader != NO_LEADER
    return MetadataResponsePartition(
        error_code=ErrorCode.NONE if has_leader else ErrorCode.LEADER_NOT_AVAILABLE,
        partition_index=state.key.partition,
        leader_id=state.leader,
        leader_epoch=state.leader_epoch,
        replica_nodes=list(state.replicas),
        isr_nodes=list(state.isr),
        offline_replicas=list(image.offline_replicas(state)),
    )
