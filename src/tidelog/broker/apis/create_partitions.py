"""CreatePartitions: more partitions for topics; never fewer, since records would be lost.

Each topic is a decision of its own. A request for very many partitions is decided on in slices
(`broker/topic_creations.py`), also where `validate_only` asks what would happen.
"""

from __future__ import annotations

from collections.abc import Iterable

from tidelog.broker.commit_wait import CommitWait
from tidelog.broker.pending import Wait
from tidelog.broker.state import PARKED, BrokerState, Call, Sentinel
from tidelog.broker.topic_creations import SlicedTopics, divided, is_too_much
from tidelog.model.clock import Now
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NO_OFFSET, Offset
from tidelog.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)


def handle(
    state: BrokerState, call: Call, request: CreatePartitionsRequest
) -> CreatePartitionsResponse | Sentinel:
    deadline_ms = call.now.monotonic_ms + max(0, request.timeout_ms)
    sizes = [_size(state, topic) for topic in request.topics]
    if is_too_much(sizes):
        growth = SlicedGrowth(state, request, sizes, deadline_ms=deadline_ms)
        return state.begin_slices(call, growth)
    growing = _Growing(state, is_dry_run=request.validate_only)
    growing.add(request.topics, call.now)
    response = CreatePartitionsResponse(results=growing.results)
    if growing.offset == NO_OFFSET:
        return response
    state.pending.park_on_metadata(
        call.slot,
        CommitWait(state, growing.offset, response, _fail),
        offset=growing.offset,
        deadline_ms=deadline_ms,
    )
    return PARKED


class SlicedGrowth(SlicedTopics):
    """Topics that are to grow by very many partitions."""

    def __init__(
        self,
        state: BrokerState,
        request: CreatePartitionsRequest,
        sizes: list[int],
        *,
        deadline_ms: float,
    ) -> None:
        names = (topic.name for topic in request.topics)
        slices = divided(zip(names, sizes, strict=True))
        super().__init__(state, slices, deadline_ms=deadline_ms, label="CreatePartitions")
        self._request = request
        self._growing = _Growing(state, is_dry_run=request.validate_only)
        self._order: list[int] = []

    def decide(self, indexes: list[int], now: Now) -> ErrorCode:
        self._growing.add([self._request.topics[index] for index in indexes], now)
        self._order += indexes
        return ErrorCode.NONE

    def conclude(self) -> tuple[Wait, Offset]:
        results = dict(zip(self._order, self._growing.results, strict=True))
        response = CreatePartitionsResponse(results=[results[each] for each in range(len(results))])
        offset = self._growing.offset
        return CommitWait(self._state, offset, response, _fail), offset

    def refused(self, error: ErrorCode) -> CreatePartitionsResponse:
        return CreatePartitionsResponse(
            results=[
                CreatePartitionsTopicResult(
                    name=topic.name, error_code=error, error_message=error.explanation
                )
                for topic in self._request.topics
            ]
        )


class _Growing:
    """Topics decided on so far: the results, and the metadata offset that makes them true, if there
    is any. On a dry run nothing is recorded."""

    def __init__(self, state: BrokerState, *, is_dry_run: bool) -> None:
        self.results: list[CreatePartitionsTopicResult] = []
        self.offset = NO_OFFSET
        self._state = state
        self._is_dry_run = is_dry_run
        self._planned = 0

    def add(self, topics: Iterable[CreatePartitionsTopic], now: Now) -> None:
        state = self._state
        load = state.controller.load()
        for topic in topics:
            assignments = None
            if topic.assignments is not None:
                assignments = [assignment.broker_ids for assignment in topic.assignments]
            decision = state.controller.create_partitions(
                topic.name,
                count=topic.count,
                assignments=assignments,
                load=load,
                planned=self._planned,
            )
            outcome = decision.response
            result = CreatePartitionsTopicResult(
                name=topic.name, error_code=outcome.error, error_message=outcome.message
            )
            self.results.append(result)
            if self._is_dry_run:
                self._planned += len(decision.records)
            elif decision.records:
                offset = state.commit(decision, now)
                if isinstance(offset, ErrorCode):
                    result.error_code, result.error_message = offset, offset.explanation
                else:
                    self.offset = offset


def _size(state: BrokerState, topic: CreatePartitionsTopic) -> int:
    """How many partitions are to be added, at least one: a refusal is work too."""
    known = state.controller.image.topics.get(topic.name)
    return max(1, topic.count - (0 if known is None else len(known.partitions)))


def _fail(response: CreatePartitionsResponse, error: ErrorCode) -> None:
    for result in response.results:
        if result.error_code is ErrorCode.NONE:
            result.error_code, result.error_message = error, error.explanation
