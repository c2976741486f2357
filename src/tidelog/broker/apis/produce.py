"""Produce: append batches, answer when they count.

Each partition is appended at once, on its own; the response waits until all of it is committed
(with one replica: flushed, under `flush.policy=ack`). A duplicate of a remembered batch is answered
with that batch's offset, and waits for it like the original. An error carries offset -1.

Versions 0 to 2 are advertised because old librdkafka needs to see them (KAFKA-18659), and refused:
they carry message formats that have no place in a v2 log.
"""

from __future__ import annotations

from uuid import UUID

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
    topics: list[TopicProduceResponse] = []
    uncommitted: list[Uncommitted] = []
    has_error = False
    for topic in request.topic_data:
        answers: list[PartitionProduceResponse] = []
        for data in topic.partition_data:
            answer = _append(
                state, call.now, request.acks, (topic.name, topic.topic_id), data, uncommitted
            )
            has_error = has_error or answer.error_code is not ErrorCode.NONE
            answers.append(answer)
        topics.append(
            TopicProduceResponse(
                name=topic.name, topic_id=topic.topic_id, partition_responses=answers
            )
        )
    if request.acks == _ACKS_NONE:
        return CLOSE if has_error else NO_RESPONSE
    response = ProduceResponse(responses=topics)
    if not uncommitted:
        return response
    state.pending.park_on_partitions(
        call.slot,
        ProduceWait(state, response, uncommitted),
        partitions=[leader.key for leader, _, _ in uncommitted],
        deadline_ms=call.now.monotonic_ms + max(0, request.timeout_ms),
    )
    return PARKED


def _append(
    state: BrokerState,
    now: Now,
    acks: int,
    topic: tuple[str, UUID],
    data: PartitionProduceData,
    uncommitted: list[Uncommitted],
) -> PartitionProduceResponse:
    answer = PartitionProduceResponse(index=data.index, base_offset=-1)
    leader = state.replicas.find(topic[0], data.index, topic_id=TopicId(topic[1]))
    if isinstance(leader, ErrorCode):
        return _refuse(answer, leader)
    if leader.is_internal:
        return _refuse(answer, ErrorCode.INVALID_TOPIC_EXCEPTION, "the topic is the node's own")
    if acks not in (_ACKS_NONE, _ACKS_LEADER, _ACKS_ALL):
        return _refuse(answer, ErrorCode.INVALID_REQUIRED_ACKS)
    if state.node_is_read_only:
        return _refuse(answer, ErrorCode.KAFKA_STORAGE_ERROR, state.storage_error)
    if not isinstance(data.records, memoryview) or not data.records:
        return _refuse(answer, ErrorCode.INVALID_RECORD, "there are no records")
    try:
        appended = leader.append(data.records, now.wall_ms)
    except DiskFull as full:
        return _refuse(answer, ErrorCode.KAFKA_STORAGE_ERROR, str(full))
    except DiskError as error:
        state.fail_storage(error)
        return _refuse(answer, ErrorCode.KAFKA_STORAGE_ERROR, str(error))
    if appended.error is not ErrorCode.NONE:
        return _refuse(answer, appended.error)
    state.appended(leader)
    answer.base_offset = appended.base_offset
    answer.log_start_offset = leader.log.log_start_offset
    if leader.high_watermark <= appended.last_offset:
        uncommitted.append((leader, appended.last_offset, answer))
    return answer


def _refuse(
    answer: PartitionProduceResponse, error: ErrorCode, message: str | None = None
) -> PartitionProduceResponse:
    answer.error_code = error
    answer.error_message = message or error.explanation
    answer.base_offset = -1
    answer.log_start_offset = -1
    return answer
