"""CreateTopics: decided one by one, committed together, answered when committed.

A request for very many partitions is decided on in slices (`broker/topic_creations.py`), also where
`validate_only` asks what would happen. From version 5 on the answer tells the settings the topic
really has.
"""

from __future__ import annotations

from tidelog.broker.commit_wait import CommitWait
from tidelog.broker.effective_settings import topic_effective
from tidelog.broker.state import PARKED, BrokerState, Call, Sentinel
from tidelog.broker.topic_creations import SlicedCreation, is_for_slices
from tidelog.controller.topics import TopicOutcome, TopicSpec
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import Offset
from tidelog.wire.messages.create_topics import (
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)


def handle(
    state: BrokerState, call: Call, request: CreateTopicsRequest
) -> CreateTopicsResponse | Sentinel:
    specs = [
        TopicSpec(
            name=topic.name,
            partitions=topic.num_partitions,
            replication_factor=topic.replication_factor,
            assignments={a.partition_index: a.broker_ids for a in topic.assignments},
            configs={config.name: config.value for config in topic.configs},
        )
        for topic in request.topics
    ]
    defaults = state.config.settings.num_partitions
    if is_for_slices(specs, defaults):
        return state.begin_slices(call, _sliced(state, call, specs, request))
    decision = state.controller.create_topics(specs)
    response = CreateTopicsResponse(
        topics=[
            _result(spec, outcome, _configs(state, spec) if outcome.error is ErrorCode.NONE else [])
            for spec, outcome in zip(specs, decision.response, strict=True)
        ]
    )
    if request.validate_only:
        return response
    offset = state.commit(decision, call.now)
    if isinstance(offset, ErrorCode):
        _fail_created(response, offset)
        return response
    if offset < state.journal.committed_offset:
        return response
    state.pending.park_on_metadata(
        call.slot,
        CommitWait(state, offset, response, _fail_created),
        offset=offset,
        deadline_ms=call.now.monotonic_ms + max(0, request.timeout_ms),
    )
    return PARKED


def _sliced(
    state: BrokerState, call: Call, specs: list[TopicSpec], request: CreateTopicsRequest
) -> SlicedCreation:
    configs: dict[frozenset[tuple[str, str | None]], list[CreatableTopicConfigs]] = {}

    def result(spec: TopicSpec, outcome: TopicOutcome) -> CreatableTopicResult:
        """Topics with the same settings, as most of very many have, share the description."""
        key = frozenset(spec.configs.items())
        if key not in configs and outcome.error is ErrorCode.NONE:
            configs[key] = _configs(state, spec)
        return _result(spec, outcome, configs.get(key, []))

    def wait(results: list[CreatableTopicResult], offset: Offset) -> CommitWait:
        return CommitWait(state, offset, CreateTopicsResponse(topics=results), _fail_created)

    def refuse(error: ErrorCode) -> CreateTopicsResponse:
        refused = [TopicOutcome(spec.name, error=error) for spec in specs]
        pairs = zip(specs, refused, strict=True)
        response = CreateTopicsResponse(topics=[_result(spec, each, []) for spec, each in pairs])
        _fail_created(response, error)
        return response

    return SlicedCreation(
        state,
        specs,
        deadline_ms=call.now.monotonic_ms + max(0, request.timeout_ms),
        result=result,
        wait=wait,
        refuse=refuse,
        to_be_made=not request.validate_only,
    )


def _result(
    spec: TopicSpec, outcome: TopicOutcome, configs: list[CreatableTopicConfigs]
) -> CreatableTopicResult:
    return CreatableTopicResult(
        name=spec.name,
        topic_id=outcome.topic_id,
        error_code=outcome.error,
        error_message=outcome.message,
        num_partitions=outcome.partitions,
        replication_factor=outcome.replication_factor,
        configs=configs if outcome.error is ErrorCode.NONE else [],
    )


def _configs(state: BrokerState, spec: TopicSpec) -> list[CreatableTopicConfigs]:
    return [
        CreatableTopicConfigs(
            name=row.name,
            value=row.value,
            read_only=False,
            config_source=row.source,
            is_sensitive=False,
        )
        for row in topic_effective(state.config, spec.configs)
    ]


def _fail_created(response: CreateTopicsResponse, error: ErrorCode) -> None:
    """Refusals too: they may rest on facts that did not come about."""
    for topic in response.topics:
        topic.error_code = error
        topic.error_message = error.explanation
