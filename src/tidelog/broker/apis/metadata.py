"""Metadata: nodes, topics and leaders, from the committed image; unknown topics made if allowed.

Auto-creation is decided once per request, and the answer waits until the topics are real: a client
never has to come back for a leader. Very many are decided on in slices
(`broker/topic_creations.py`). A topic asked for by id is never created.

The answer with all topics is encoded once per image, and kept (`broker/encoded_answers.py`). Where
there are very many partitions, it is made in slices.
"""

from __future__ import annotations

from collections.abc import Iterable

from tidelog.broker.pending import Wait
from tidelog.broker.state import PARKED, BrokerState, Call, Sentinel
from tidelog.broker.topic_creations import SlicedCreation, is_for_slices
from tidelog.broker.topic_descriptions import (
    MOST_AT_ONCE,
    SlicedDescription,
    depends_on,
    describe_all,
    describe_topic,
    response_with,
)
from tidelog.controller.topics import TopicOutcome, TopicSpec
from tidelog.model.clock import Now
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NO_TOPIC_ID, Offset, TopicId
from tidelog.wire.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from tidelog.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from tidelog.wire.requests import EncodedBody

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


def handle(
    state: BrokerState, call: Call, request: MetadataRequest
) -> MetadataResponse | EncodedBody | Sentinel:
    if request.topics is None:
        return _answer_all(state, call, request)
    missing = _missing_topics(state, request)
    if not missing:
        return _respond(state, request, {})
    if state.active_controller is None:
        return _ask_for_creation(state, call, request, missing)
    specs = [TopicSpec(name) for name in missing]
    if is_for_slices(specs, state.config.settings.num_partitions):
        return state.begin_slices(call, _sliced(state, call, request, specs))
    decision = state.controller.create_topics(specs)
    refused = _refused(decision.response)
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


def _answer_all(state: BrokerState, call: Call, request: MetadataRequest) -> EncodedBody | Sentinel:
    image, header, what = state.image, call.slot.header, depends_on(state, request)
    found = state.encoded_answers.find(image, header, what)
    if found is None and image.partition_count > MOST_AT_ONCE:
        return state.begin_slices(call, SlicedDescription(state, call, request))
    return found or state.encoded_answers.answer(
        image, header, what, lambda: describe_all(state, request)
    )


def _refused(outcomes: Iterable[TopicOutcome]) -> dict[str, ErrorCode]:
    return {
        outcome.name or "": outcome.error
        for outcome in outcomes
        if outcome.error not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)
    }


def _sliced(
    state: BrokerState, call: Call, request: MetadataRequest, specs: list[TopicSpec]
) -> SlicedCreation:
    def wait(outcomes: list[TopicOutcome], offset: Offset) -> MetadataWait:
        return MetadataWait(state, request, _refused(outcomes))

    def refuse(error: ErrorCode) -> MetadataResponse:
        """Another node is the controller by now, or time is up: to be asked again."""
        is_late = error in (ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT)
        told = ErrorCode.LEADER_NOT_AVAILABLE if is_late else error
        return _respond(state, request, {spec.name: told for spec in specs})

    return SlicedCreation(
        state,
        specs,
        deadline_ms=call.now.monotonic_ms + _COMMIT_TIMEOUT_MS,
        result=lambda spec, outcome: outcome,
        wait=wait,
        refuse=refuse,
        label="Metadata",
    )


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
    if request.topics is None:
        return describe_all(state, request)
    # Each topic once: answering repeats would let a small request ask for gigabytes.
    asked_once = {(asked.name, asked.topic_id): asked for asked in request.topics}
    topics = [_answer(state, asked, refused) for asked in asked_once.values()]
    return response_with(state, request, topics)


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
        return describe_topic(state.image, topic)
    return MetadataResponseTopic(
        error_code=unknown,
        name=asked.name,
        topic_id=NO_TOPIC_ID if asked.name is not None else topic_id,
        partitions=[],
    )
