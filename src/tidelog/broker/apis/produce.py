"""Produce: append batches, answer when they count.

Each partition is appended at once, on its own; the response waits until all of it is committed
(with one replica: flushed, under `flush.policy=ack`). A duplicate of a remembered batch is answered
with that batch's offset, and waits for it like the original. An error carries offset -1.

Versions 0 to 2 are advertised because old librdkafka needs to see them (KAFKA-18659), and refused:
they carry message formats that have no place in a v2 log.
"""

from __future__ import annotations

from tidelog.broker.pending import Wait
from tidelog.broker.state import CLOSE, NO_RESPONSE, PARKED, BrokerState, Call, Sentinel
from tidelog.log.disk import DiskError, DiskFull
from tidelog.model.clock import Now
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import Offset, TopicId
from tidelog.partition.leader import Leader
from tidelog.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)

_ACKS_NONE = 0
_ACKS_LEADER = 1
_ACKS_ALL = -1

Uncommitted = tuple[Leader, Offset, PartitionProduceResponse]


class ProduceWait(Wait):
    """Appended, not yet committed. `uncommitted`: what still has to be, up to which offset."""

    __slots__ = ("_response", "_state", "_uncommitted")

    def __init__(
        self, state: BrokerState, response: ProduceResponse, uncommitted: list[Uncommitted]
    ) -> None:
        self._state = state
        self._response = response
        self._uncommitted = uncommitted

    def resume(self, now: Now, *, is_expired: bool) -> ProduceResponse | None:
        left: list[Uncommitted] = []
        for waiting in self._uncommitted:
            leader, last_offset, answer = waiting
            if leader.high_watermark > last_offset:
                continue
            if leader.is_gone:
                _refuse(answer, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            elif self._state.node_is_read_only:
                _refuse(answer, ErrorCode.KAFKA_STORAGE_ERROR)
            elif is_expired:
                _refuse(answer, ErrorCode.REQUEST_TIMED_OUT)
            else:
                left.append(waiting)
        self._uncommitted = left
        return None if left else self._response

    def describe(self) -> str:
        names = ", ".join(f"{leader.name} past {last}" for leader, last, _ in self._uncommitted)
        return f"Produce waits for {names}"


def handle(state: BrokerState, call: Call, request: ProduceRequest) -> ProduceResponse | Sentinel:
    production = _Production(state, call.now, request.acks)
    response = ProduceResponse(
        responses=[
            TopicProduceResponse(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=[
                    production.append(topic, data) for data in topic.partition_data
                ],
            )
            for topic in request.topic_data
        ]
    )
    if request.acks == _ACKS_NONE:
        return CLOSE if production.has_error else NO_RESPONSE
    if not production.uncommitted:
        return response
    state.pending.park_on_partitions(
        call.slot,
        ProduceWait(state, response, production.uncommitted),
        partitions=[leader.key for leader, _, _ in production.uncommitted],
        deadline_ms=call.now.monotonic_ms + max(0, request.timeout_ms),
    )
    return PARKED


class _Production:
    """One request's appends: what they left uncommitted, and whether any failed."""

    __slots__ = ("_acks", "_now", "_state", "has_error", "uncommitted")

    def __init__(self, state: BrokerState, now: Now, acks: int) -> None:
        self._state = state
        self._now = now
        self._acks = acks
        self.uncommitted: list[Uncommitted] = []
        self.has_error = False

    def append(
        self, topic: TopicProduceData, data: PartitionProduceData
    ) -> PartitionProduceResponse:
        answer = PartitionProduceResponse(index=data.index, base_offset=-1)
        leader = self._state.replicas.find(topic.name, data.index, topic_id=TopicId(topic.topic_id))
        if isinstance(leader, ErrorCode):
            return self._refuse(answer, leader)
        if leader.is_internal:
            return self._refuse(answer, ErrorCode.INVALID_TOPIC_EXCEPTION, "it is the node's own")
        if self._acks not in (_ACKS_NONE, _ACKS_LEADER, _ACKS_ALL):
            return self._refuse(answer, ErrorCode.INVALID_REQUIRED_ACKS)
        if not isinstance(data.records, memoryview) or not data.records:
            return self._refuse(answer, ErrorCode.INVALID_RECORD, "there are no records")
        return self._append(leader, data.records, answer)

    def _append(
        self, leader: Leader, records: memoryview, answer: PartitionProduceResponse
    ) -> PartitionProduceResponse:
        state = self._state
        if state.node_is_read_only:
            return self._refuse(answer, ErrorCode.KAFKA_STORAGE_ERROR, state.storage_error)
        try:
            appended = leader.append(records, self._now.wall_ms)
        except DiskFull as full:
            return self._refuse(answer, ErrorCode.KAFKA_STORAGE_ERROR, str(full))
        except DiskError as error:
            state.fail_storage(error)
            return self._refuse(answer, ErrorCode.KAFKA_STORAGE_ERROR, str(error))
        if appended.error is not ErrorCode.NONE:
            return self._refuse(answer, appended.error)
        state.appended(leader)
        answer.base_offset = appended.base_offset
        answer.log_start_offset = leader.log.log_start_offset
        if leader.log.dates_appends:
            answer.log_append_time_ms = self._now.wall_ms
        if leader.high_watermark <= appended.last_offset:
            self.uncommitted.append((leader, appended.last_offset, answer))
        return answer

    def _refuse(
        self, answer: PartitionProduceResponse, error: ErrorCode, message: str | None = None
    ) -> PartitionProduceResponse:
        self.has_error = True
        return _refuse(answer, error, message)


def _refuse(
    answer: PartitionProduceResponse, error: ErrorCode, message: str | None = None
) -> PartitionProduceResponse:
    answer.error_code = error
    answer.error_message = message or error.explanation
    answer.base_offset = -1
    answer.log_start_offset = -1
    return answer
