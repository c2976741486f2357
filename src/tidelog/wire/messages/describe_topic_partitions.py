"""DescribeTopicPartitions (75), version 0: Metadata for tools, a page at a time (KIP-966).

- No topics asks for all. Topics are answered in the order of their names; where the limit cuts the
  answer, `next_cursor` says with what partition the next request is to begin.
- Eligible leaders beyond the in-sync replicas are null where the cluster does not track them.
"""

from __future__ import annotations

from uuid import UUID

from tidelog.model.errors import ErrorCode
from tidelog.wire.schema import (
    NO_UUID,
    array,
    boolean,
    error_code,
    int32,
    message,
    string,
    struct,
    uuid,
)

NOT_ASKED = -0x80000000
"""Authorized operations are told only to those who ask."""


@message
class TopicRequest:
    name: str = string()


@message
class Cursor:
    topic_name: str = string()
    partition_index: int = int32()


@message(api_key=75, versions="0", flexible="0+")
class DescribeTopicPartitionsRequest:
    topics: list[TopicRequest] = array(TopicRequest)
    response_partition_limit: int = int32(default=2000)
    cursor: Cursor | None = struct(Cursor, nullable="0+", default=None)


@message
class DescribeTopicPartitionsResponsePartition:
    error_code: ErrorCode = error_code(default=ErrorCode.NONE)
    partition_index: int = int32()
    leader_id: int = int32()
    leader_epoch: int = int32(default=-1)
    replica_nodes: list[int] = array("int32", default_factory=list)
    isr_nodes: list[int] = array("int32", default_factory=list)
    eligible_leader_replicas: list[int] | None = array("int32", nullable="0+", default=None)
    last_known_elr: list[int] | None = array("int32", nullable="0+", default=None)
    offline_replicas: list[int] = array("int32", default_factory=list)


@message
class DescribeTopicPartitionsResponseTopic:
    error_code: ErrorCode = error_code(default=ErrorCode.NONE)
    name: str | None = string(nullable="0+")
    topic_id: UUID = uuid(default=NO_UUID)
    is_internal: bool = boolean(default=False)
    partitions: list[DescribeTopicPartitionsResponsePartition] = array(
        DescribeTopicPartitionsResponsePartition, default_factory=list
    )
    topic_authorized_operations: int = int32(default=NOT_ASKED)


@message(api_key=75, versions="0", flexible="0+")
class DescribeTopicPartitionsResponse:
    throttle_time_ms: int = int32(default=0)
    topics: list[DescribeTopicPartitionsResponseTopic] = array(DescribeTopicPartitionsResponseTopic)
    next_cursor: Cursor | None = struct(Cursor, nullable="0+", default=None)
