"""OffsetForLeaderEpoch (23), versions 2-4: where a leader epoch ends (KIP-101, KIP-320).

- v2: the asker's current leader epoch, for fencing. v3: replica id (-2: a consumer). v4: flexible.
- Versions 0-1 can't be fenced and are gone from Kafka 4 (KIP-896).
"""

from __future__ import annotations

from tidelog.model.errors import ErrorCode
from tidelog.wire.schema import array, error_code, int32, int64, message, string


@message
class OffsetForLeaderPartition:
    partition: int = int32()
    current_leader_epoch: int = int32(default=-1)
    leader_epoch: int = int32()


@message
class OffsetForLeaderTopic:
    topic: str = string()
    partitions: list[OffsetForLeaderPartition] = array(OffsetForLeaderPartition)


@message(api_key=23, versions="2-4", flexible="4+")
class OffsetForLeaderEpochRequest:
    replica_id: int = int32(versions="3+", default=-2)
    topics: list[OffsetForLeaderTopic] = array(OffsetForLeaderTopic)


@message
class EpochEndOffset:
    error_code: ErrorCode = error_code(default=ErrorCode.NONE)
    partition: int = int32()
    leader_epoch: int = int32(default=-1)
    end_offset: int = int64(default=-1)


@message
class OffsetForLeaderTopicResult:
    topic: str = string()
    partitions: list[EpochEndOffset] = array(EpochEndOffset)


@message(api_key=23, versions="2-4", flexible="4+")
class OffsetForLeaderEpochResponse:
    throttle_time_ms: int = int32(default=0)
    topics: list[OffsetForLeaderTopicResult] = array(OffsetForLeaderTopicResult)
