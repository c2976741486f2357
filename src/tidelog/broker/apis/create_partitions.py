"""CreatePartitions: more partitions for topics; never fewer, since records would be lost."""

from __future__ import annotations

from tidelog.broker.commit_wait import CommitWait
from tidelog.broker.state import PARKED, BrokerState, Call, Sentinel
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import Offset
from tidelog.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)


def handle(
    state: BrokerState, call: Call, request: CreatePartitionsRequest
) -> CreatePartitionsResponse | Sentinel:
    results: list[CreatePartitionsTopicResult] = []
    last: Offset | None = None
    for topic in request.topics:
        result, offset = _grow(state, call, topic, validate_only=request.validate_only)
        results.append(result)
        last = offset if offset is not None else last
    response = CreatePartitionsResponse(results=results)
    if last is None:
        return response
    state.pending.park_on_metadata(
        call.slot,
        CommitWait(state, last, response, _fail),
        offset=last,
        deadline_ms=call.now.monotonic_ms + max(0, request.timeout_ms),
    )
    return PARKED


def _grow(
    state: BrokerState, call: Call, topic: CreatePartitionsTopic, *, validate_only: bool
) -> tuple[CreatePartitionsTopicResult, Offset | None]:
    assignments = None
    if topic.assignments is not None:
        assignments = [assignment.broker_ids for assignment in topic.assignments]
    decision = state.controller.create_partitions(
        topic.name, count=topic.count, assignments=assignments
    )
    outcome = decision.response
    result = CreatePartitionsTopicResult(
        name=topic.name, error_code=outcome.error, error_message=outcome.message
    )
    if validate_only or not decision.records:
        return result, None
    offset = state.commit(decision, call.now)
    if isinstance(offset, ErrorCode):
        result.error_code, result.error_message = offset, offset.explanation
        return result, None
    return result, offset


def _fail(response: CreatePartitionsResponse, error: ErrorCode) -> None:
    for result in response.results:
        if result.error_code is ErrorCode.NONE:
            result.error_code, result.error_message = error, error.explanation
