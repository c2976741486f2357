"""CreateTopics: decided one by one, committed together, answered when committed.

`validate_only` answers what would happen. From version 5 on the answer tells the settings the topic
really has.
"""

from __future__ import annotations

from tidelog.broker.commit_wait import CommitWait
from tidelog.broker.effective_settings import topic_effective
from tidelog.broker.state import PARKED, BrokerState, Call, Sentinel
from tidelog.controller.topics import TopicOutcome, TopicSpec
from tidelog.model.errors import ErrorCode
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
    decision = state.controller.create_topics(specs)
    response = CreateTopicsResponse(
        topics=[
            _result(state, spec, outcome)
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


def _result(state: BrokerState, spec: TopicSpec, outcome: TopicOutcome) -> CreatableTopicResult:
    is_created = outcome.error is ErrorCode.NONE
    return CreatableTopicResult(
        name=spec.name,
        topic_id=outcome.topic_id,
        error_code=outcome.error,
        error_message=outcome.message,
        num_partitions=outcome.partitions,
        replication_factor=outcome.replication_factor,
        configs=_configs(state, spec) if is_created else [],
    )


def _configs(state: BrokerState, spec: TopicSpec) -> list[CreatableTopicConfigs]:
    return [
        CreatableTopicConfigs(
            name=row.setting.name,
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
