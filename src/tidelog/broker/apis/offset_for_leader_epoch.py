"""OffsetForLeaderEpoch: where an epoch ends, so that a reader can tell that its log was cut.

For an epoch this log never had, the answer is the highest one below it (KIP-279): the reader cuts
its own log and asks again. Both epochs of the question are checked, the asker's first (KIP-320).
"""

from __future__ import annotations

from tidelog.broker.state import BrokerState, Call
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import LeaderEpoch
from tidelog.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)


def handle(
    state: BrokerState, call: Call, request: OffsetForLeaderEpochRequest
) -> OffsetForLeaderEpochResponse:
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=[_answer(state, topic.topic, asked) for asked in topic.partitions],
            )
            for topic in request.topics
        ]
    )


def _answer(state: BrokerState, topic: str, asked: OffsetForLeaderPartition) -> EpochEndOffset:
    leader = state.replicas.find_leader(topic, asked.partition)
    if isinstance(leader, ErrorCode):
        return EpochEndOffset(partition=asked.partition, error_code=leader)
    error = leader.check_epoch(LeaderEpoch(asked.current_leader_epoch))
    if error is not ErrorCode.NONE:
        return EpochEndOffset(partition=asked.partition, error_code=error)
    if asked.leader_epoch == leader.leader_epoch:
        epoch, end_offset = leader.leader_epoch, leader.log.log_end_offset
    else:
        epoch, end_offset = leader.log.epoch_end_offset(LeaderEpoch(asked.leader_epoch))
    return EpochEndOffset(partition=asked.partition, leader_epoch=epoch, end_offset=end_offset)
