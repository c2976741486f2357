"""ListOffsets: the ends of a log, and the first record at or after a time.

Never past the high watermark: a record that may still vanish has no offset yet. A leader that
does not know how far that is (`Leader.knows_end`) answers OFFSET_NOT_AVAILABLE, and one that may
have been replaced answers nothing: an end once told never falls. A follower may ask for the end of
the log itself. With no tiered storage, "earliest local" is the log's start and nothing is tiered. A
partition named twice is refused, as Kafka does: a look-up by time opens a batch, and must not be
had by the thousand.

A request with Kafka's replica id for looking into a log (-2) is answered by any replica, for its
own log: where it ends and the leader epoch of its last record, or, read committed, how far it
knows the log to be committed. So a controller learns what the replicas of a partition without a
leader have. One that has not heard of the leader epoch that is asked for may still be following
another leader, and says UNKNOWN_LEADER_EPOCH.
"""

from __future__ import annotations

from collections import Counter

from tidelog.broker.state import BrokerState, Call
from tidelog.log.disk import DiskError
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import LeaderEpoch
from tidelog.partition.leader import Leader
from tidelog.wire.messages.list_offsets import (
    DEBUGGING_REPLICA,
    LATEST_TIMESTAMP,
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

_EARLIEST = -2
_MAX_TIMESTAMP = -3
_EARLIEST_LOCAL = -4
_LATEST_TIERED = -5
_EARLIEST_PENDING_UPLOAD = -6
_READ_COMMITTED = 1


def handle(state: BrokerState, call: Call, request: ListOffsetsRequest) -> ListOffsetsResponse:
    times_named = Counter(
        (topic.name, asked.partition_index)
        for topic in request.topics
        for asked in topic.partitions
    )
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(
                name=topic.name,
                partitions=[
                    _answer(state, topic.name, asked, request)
                    if times_named[topic.name, asked.partition_index] == 1
                    else _refused(asked)
                    for asked in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _refused(asked: ListOffsetsPartition) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(
        partition_index=asked.partition_index, error_code=ErrorCode.INVALID_REQUEST
    )


def _answer(
    state: BrokerState, topic: str, asked: ListOffsetsPartition, request: ListOffsetsRequest
) -> ListOffsetsPartitionResponse:
    answer = ListOffsetsPartitionResponse(partition_index=asked.partition_index)
    if request.replica_id == DEBUGGING_REPLICA and asked.timestamp == LATEST_TIMESTAMP:
        is_committed = request.isolation_level == _READ_COMMITTED
        _look_into_log(state, topic, asked, answer, is_committed=is_committed)
        return answer
    leader = state.replicas.find_leader(topic, asked.partition_index)
    if isinstance(leader, ErrorCode):
        answer.error_code = leader
        return answer
    answer.error_code = leader.check_epoch(LeaderEpoch(asked.current_leader_epoch))
    if answer.error_code is not ErrorCode.NONE:
        return answer
    if not leader.may_acknowledge:
        answer.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        return answer
    try:
        if request.replica_id >= 0 and asked.timestamp == LATEST_TIMESTAMP:
            answer.offset, answer.leader_epoch = leader.log.log_end_offset, leader.leader_epoch
        else:
            _look_up(leader, asked.timestamp, answer)
    except DiskError:
        answer.error_code = ErrorCode.KAFKA_STORAGE_ERROR
    return answer


def _look_into_log(
    state: BrokerState,
    topic: str,
    asked: ListOffsetsPartition,
    answer: ListOffsetsPartitionResponse,
    *,
    is_committed: bool,
) -> None:
    """Whatever role the replica has."""
    replica = state.replicas.find(topic, asked.partition_index)
    if isinstance(replica, ErrorCode):
        answer.error_code = replica
    elif replica.state.leader_epoch < asked.current_leader_epoch:
        answer.error_code = ErrorCode.UNKNOWN_LEADER_EPOCH
    else:
        log = replica.log
        answer.offset = replica.high_watermark if is_committed else log.log_end_offset
        answer.leader_epoch = log.epochs.latest


def _look_up(leader: Leader, timestamp: int, answer: ListOffsetsPartitionResponse) -> None:
    is_known = leader.knows_end
    if timestamp == LATEST_TIMESTAMP and not is_known:
        answer.error_code = ErrorCode.OFFSET_NOT_AVAILABLE
    elif timestamp == LATEST_TIMESTAMP:
        answer.offset, answer.leader_epoch = leader.high_watermark, leader.leader_epoch
    elif timestamp in (_EARLIEST, _EARLIEST_LOCAL, _EARLIEST_PENDING_UPLOAD):
        answer.offset, answer.leader_epoch = leader.log.log_start_offset, leader.leader_epoch
    elif timestamp == _LATEST_TIERED:
        answer.leader_epoch = leader.leader_epoch
    elif timestamp < _EARLIEST_PENDING_UPLOAD:
        answer.error_code = ErrorCode.INVALID_REQUEST
    else:
        is_by_time = timestamp != _MAX_TIMESTAMP
        found = (
            leader.log.offset_for_timestamp(timestamp) if is_by_time else leader.log.max_timestamp()
        )
        if found is not None and found.offset < leader.high_watermark:
            answer.offset = found.offset
            answer.timestamp = found.timestamp
            answer.leader_epoch = found.leader_epoch
        elif not is_known:
            answer.error_code = ErrorCode.OFFSET_NOT_AVAILABLE
