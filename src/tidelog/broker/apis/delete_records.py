"""DeleteRecords: let a log begin later. Answered once that is durable with every replica in sync:
it never comes back, whoever leads next. The request's timeout is for the other replicas: what
concerns this node alone is done when its own disk has it, also if the timeout is 0."""

from __future__ import annotations

from tidelog.broker.pending import Wait
from tidelog.broker.state import PARKED, BrokerState, Call, Sentinel
from tidelog.model.clock import Now
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import Offset
from tidelog.partition.leader import Leader
from tidelog.partition.replica import Replica
from tidelog.wire.messages.delete_records import (
    TO_HIGH_WATERMARK,
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

_OWN_DISK_MS = 30_000
"""For a flush of this node's own; one that fails answers the request sooner."""

Moving = tuple[Replica, Leader, Offset, DeleteRecordsPartitionResult]


class DeleteRecordsWait(Wait):
    """The new beginnings are not durable yet."""

    __slots__ = ("_moving", "_response", "_state")

    def __init__(
        self, state: BrokerState, response: DeleteRecordsResponse, moving: list[Moving]
    ) -> None:
        self._state = state
        self._response = response
        self._moving = moving

    def resume(self, now: Now, *, is_expired: bool) -> DeleteRecordsResponse | None:
        left: list[Moving] = []
        for moving in self._moving:
            replica, leader, offset, result = moving
            if leader.ended is not None:
                result.error_code = leader.ended
            elif leader.has_let_go(offset):
                result.low_watermark = leader.low_watermark
            elif self._state.node_is_read_only:
                result.error_code = ErrorCode.KAFKA_STORAGE_ERROR
            elif is_expired:
                result.error_code = ErrorCode.REQUEST_TIMED_OUT
            else:
                left.append(moving)
                if leader.log.log_start_offset < offset:
                    self._state.wants_flush(replica)
        self._moving = left
        return None if left else self._response

    def describe(self) -> str:
        names = ", ".join(
            f"{replica.name} to begin at {offset}" for replica, _, offset, _ in self._moving
        )
        return f"DeleteRecords waits for {names}"


def handle(
    state: BrokerState, call: Call, request: DeleteRecordsRequest
) -> DeleteRecordsResponse | Sentinel:
    moving: list[Moving] = []
    response = DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                name=topic.name,
                partitions=[
                    _advance(state, topic.name, asked, moving) for asked in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
    if not moving:
        return response
    waits_for_others = any(replica.has_followers for replica, _, _, _ in moving)
    least_ms = 0 if waits_for_others else _OWN_DISK_MS
    state.pending.park_on_partitions(
        call.slot,
        DeleteRecordsWait(state, response, moving),
        partitions=[replica.key for replica, _, _, _ in moving],
        deadline_ms=call.now.monotonic_ms + max(least_ms, request.timeout_ms),
    )
    return PARKED


def _advance(
    state: BrokerState, topic: str, asked: DeleteRecordsPartition, moving: list[Moving]
) -> DeleteRecordsPartitionResult:
    result = DeleteRecordsPartitionResult(partition_index=asked.partition_index, low_watermark=-1)
    replica = state.replicas.find(topic, asked.partition_index)
    if isinstance(replica, ErrorCode) or replica.leader is None:
        result.error_code = (
            replica if isinstance(replica, ErrorCode) else ErrorCode.NOT_LEADER_OR_FOLLOWER
        )
        return result
    leader = replica.leader
    watermark = leader.high_watermark
    offset = watermark if asked.offset == TO_HIGH_WATERMARK else Offset(asked.offset)
    if leader.is_internal or (
        leader.log.settings.is_compacted and not leader.log.settings.is_deleted
    ):
        result.error_code = ErrorCode.POLICY_VIOLATION
    elif not leader.may_acknowledge:
        result.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
    elif not leader.is_proven:
        result.error_code = ErrorCode.OFFSET_NOT_AVAILABLE
    elif offset < 0 or offset > watermark:
        result.error_code = ErrorCode.OFFSET_OUT_OF_RANGE
    elif state.node_is_read_only:
        result.error_code = ErrorCode.KAFKA_STORAGE_ERROR
    elif leader.has_let_go(offset):
        result.low_watermark = leader.low_watermark
    else:
        leader.log.advance_start(offset)
        state.wants_flush(replica)
        moving.append((replica, leader, offset, result))
    return result
