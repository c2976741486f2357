"""OffsetDelete (47), version 0: a group forgets how far it has read some partitions (KIP-496).

Refused, partition by partition, for topics that the group is subscribed to. Never made flexible.
"""

from __future__ import annotations

from tidelog.model.errors import ErrorCode
from tidelog.wire.schema import array, error_code, int32, message, string


@message
class OffsetDeleteRequestPartition:
    partition_index: int = int32()


@message
class OffsetDeleteRequestTopic:
    name: str = string()
    partitions: list[OffsetDeleteRequestPartition] = array(OffsetDeleteRequestPartition)


@message(api_key=47, versions="0")
class OffsetDeleteRequest:
    group_id: str = string()
    topics: list[OffsetDeleteRequestTopic] = array(OffsetDeleteRequestTopic)


@message
class OffsetDeleteResponsePartition:
    partition_index: int = int32()
    error_code: ErrorCode = error_code(default=ErrorCode.NONE)


@message
class OffsetDeleteResponseTopic:
    name: str = string()
    partitions: list[OffsetDeleteResponsePartition] = array(OffsetDeleteResponsePartition)


@message(api_key=47, versions="0")
class OffsetDeleteResponse:
    error_code: ErrorCode = error_code(default=ErrorCode.NONE)
    throttle_time_ms: int = int32(default=0)
    topics: list[OffsetDeleteResponseTopic] = array(OffsetDeleteResponseTopic, default_factory=list)
