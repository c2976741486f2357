"""DeleteRecords (21), versions 0-2: the records before an offset (KIP-107).

- Offset -1 means the high watermark: everything that can be read now.
- v1 (KIP-219): the same bytes. v2: flexible.
"""

from __future__ import annotations

from tidelog.model.errors import ErrorCode
from tidelog.wire.schema import array, error_code, int32, int64, message, string

TO_HIGH_WATERMARK = -1
"""The offset that asks for all there is."""


@message
class DeleteRecordsPartition:
    partition_index: int = int32()
    offset: int = int64()


@message
class DeleteRecordsTopic:
    name: str = string()
    partitions: list[DeleteRecordsPartition] = array(DeleteRecordsPartition)


@message(api_key=21, versions="0-2", flexible="2+")
class DeleteRecordsRequest:
    topics: list[DeleteRecordsTopic] = array(DeleteRecordsTopic)
    timeout_ms: int = int32()


@message
class DeleteRecordsPartitionResult:
    partition_index: int = int32()
    low_watermark: int = int64()
    error_code: ErrorCode = error_code(default=ErrorCode.NONE)


@message
class DeleteRecordsTopicResult:
    name: str = string()
    partitions: list[DeleteRecordsPartitionResult] = array(DeleteRecordsPartitionResult)


@message(api_key=21, versions="0-2", flexible="2+")
class DeleteRecordsResponse:
    throttle_time_ms: int = int32(default=0)
    topics: list[DeleteRecordsTopicResult] = array(DeleteRecordsTopicResult)
