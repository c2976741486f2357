"""ListOffsets (2), versions 1-11: offsets by timestamp, and the log's ends.

- Special timestamps: -1 latest, -2 earliest, -3 (v7, KIP-734) of the largest timestamp, -4 (v8,
  KIP-405) earliest local, -5 (v9, KIP-1005) latest tiered, -6 (v11, KIP-1023) earliest not yet
  tiered.
- v2: isolation level. v4 (KIP-320): leader epochs. v6: flexible. v10 (KIP-1075): timeout.
"""

from __future__ import annotations

from tidelog.model.errors import ErrorCode
from tidelog.wire.schema import array, error_code, int8, int32, int64, message, string

LATEST_TIMESTAMP = -1
DEBUGGING_REPLICA = -2
"""The replica id of those who look into a log; consumers have -1."""


@message
class ListOffsetsPartition:
    partition_index: int = int32()
    current_leader_epoch: int = int32(versions="4+", default=-1)
    timestamp: int = int64()


@message
class ListOffsetsTopic:
    name: str = string()
    partitions: list[ListOffsetsPartition] = array(ListOffsetsPartition)


@message(api_key=2, versions="1-11", flexible="6+")
class ListOffsetsRequest:
    replica_id: int = int32()
    isolation_level: int = int8(versions="2+", default=0)
    topics: list[ListOffsetsTopic] = array(ListOffsetsTopic)
    timeout_ms: int = int32(versions="10+", default=0)


@message
class ListOffsetsPartitionResponse:
    partition_index: int = int32()
    error_code: ErrorCode = error_code(default=ErrorCode.NONE)
    timestamp: int = int64(default=-1)
    offset: int = int64(default=-1)
    leader_epoch: int = int32(versions="4+", default=-1)


@message
class ListOffsetsTopicResponse:
    name: str = string()
    partitions: list[ListOffsetsPartitionResponse] = array(ListOffsetsPartitionResponse)


@message(api_key=2, versions="1-11", flexible="6+")
class ListOffsetsResponse:
    throttle_time_ms: int = int32(versions="2+", default=0)
    topics: list[ListOffsetsTopicResponse] = array(ListOffsetsTopicResponse)
