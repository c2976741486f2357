"""DeleteTopics: by name or by id; answered when committed, and then the files go."""

from __future__ import annotations

from tidelog.broker.commit_wait import CommitWait
from tidelog.broker.state import PARKED, BrokerState, Call, Sentinel
from tidelog.controller.topics import TopicOutcome
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NO_TOPIC_ID, TopicId
from tidelog.wire.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)


def handle(
    state: BrokerState, call: Call, request: DeleteTopicsRequest
) -> DeleteTopicsResponse | Sentinel:
    targets: list[tuple[str | None, TopicId]] = [
        (name, NO_TOPIC_ID) for name in request.topic_names
    ]
    targets += [(topic.name, TopicId(topic.topic_id)) for topic in request.topics]
    decision = state.controller.delete_topics(targets)
    response = DeleteTopicsResponse(responses=[_result(outcome) for outcome in decision.response])
    offset = state.commit(decision, call.now)
    if isinstance(offset, ErrorCode):
        _fail_deleted(response, offset)
        return response
    if offset < state.journal.committed_offset:
        return response
    state.pending.park_on_metadata(
        call.slot,
        CommitWait(state, offset, response, _fail_deleted),
        offset=offset,
        deadline_ms=call.now.monotonic_ms + max(0, request.timeout_ms),
    )
    return PARKED


def _result(outcome: TopicOutcome) -> DeletableTopicResult:
    return DeletableTopicResult(
        name=outcome.name,
        topic_id=outcome.topic_id,
        error_code=outcome.error,
        error_message=outcome.message,
    )


def _fail_deleted(response: DeleteTopicsResponse, error: ErrorCode) -> None:
    """Refusals too: they may rest on facts that did not come about."""
    for topic in response.responses:
        topic.error_code = error
        topic.error_message = error.explanation
