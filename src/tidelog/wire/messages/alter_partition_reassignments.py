"""AlterPartitionReassignments (45), versions 0-1: put partitions elsewhere.

- v0 (KIP-455): or stop doing so. v1 (KIP-860): the number of replicas may be held as it is.
"""

from __future__ import annotations

from tidelog.model.errors import ErrorCode
from tidelog.wire.schema import array, boolean, error_code, int32, message, string


@message
class ReassignablePartition:
    partition_index: int = int32()
    replicas: list[int] | None = array("int32", nullable="0+", default=None)


@message
class ReassignableTopic:
    name: str = string()
    partitions: list[ReassignablePartition] = array(ReassignablePartition)


@message(api_key=45, versions="0-1", flexible="0+")
class AlterPartitionReassignmentsRequest:
    timeout_ms: int = int32(default=60_000)
    allow_replication_factor_change: bool = boolean(versions="1+", default=True)
    topics: list[ReassignableTopic] = array(ReassignableTopic)


@message
class ReassignablePartitionResponse:
    partition_index: int = int32()
    error_code: ErrorCode = error_code(default=ErrorCode.NONE)
    error_message: str | None = string(nullable="0+")


@message
class ReassignableTopicResponse:
    name: str = string()
    partitions: list[ReassignablePartitionResponse] = array(ReassignablePartitionResponse)


@message(api_key=45, versions="0-1", flexible="0+")
class AlterPartitionReassignmentsResponse:
    throttle_time_ms: int = int32(default=0)
    allow_replication_factor_change: bool = boolean(versions="1+", default=True)
    error_code: ErrorCode = error_code(default=ErrorCode.NONE)
    error_message: str | None = string(nullable="0+")
    responses: list[ReassignableTopicResponse] = array(ReassignableTopicResponse)
