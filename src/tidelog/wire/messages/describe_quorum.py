"""DescribeQuorum (55), versions 0-2: the metadata log's leader and replicas (KIP-595).

- v1 (KIP-836): when a replica last fetched and last was caught up. v2 (KIP-853): directories,
  endpoints and messages.
"""

from __future__ import annotations

from uuid import UUID

from tidelog.model.errors import ErrorCode
from tidelog.wire.schema import (
    NO_UUID,
    array,
    error_code,
    int32,
    int64,
    message,
    string,
    uint16,
    uuid,
)


@message
class PartitionData:
    partition_index: int = int32()


@message
class TopicData:
    topic_name: str = string()
    partitions: list[PartitionData] = array(PartitionData)


@message(api_key=55, versions="0-2", flexible="0+")
class DescribeQuorumRequest:
    topics: list[TopicData] = array(TopicData)


@message
class ReplicaState:
    replica_id: int = int32()
    replica_directory_id: UUID = uuid(versions="2+", default=NO_UUID)
    log_end_offset: int = int64()
    last_fetch_timestamp: int = int64(versions="1+", default=-1)
    last_caught_up_timestamp: int = int64(versions="1+", default=-1)


@message
class DescribedPartitionData:
    partition_index: int = int32()
    error_code: ErrorCode = error_code(default=ErrorCode.NONE)
    error_message: str | None = string(versions="2+", nullable="2+", default=None)
    leader_id: int = int32()
    leader_epoch: int = int32()
    high_watermark: int = int64()
    current_voters: list[ReplicaState] = array(ReplicaState)
    observers: list[ReplicaState] = array(ReplicaState)


@message
class DescribedTopicData:
    topic_name: str = string()
    partitions: list[DescribedPartitionData] = array(DescribedPartitionData)


@message
class Listener:
    name: str = string()
    host: str = string()
    port: int = uint16()


@message
class Node:
    node_id: int = int32()
    listeners: list[Listener] = array(Listener)


@message(api_key=55, versions="0-2", flexible="0+")
class DescribeQuorumResponse:
    error_code: ErrorCode = error_code(default=ErrorCode.NONE)
    error_message: str | None = string(versions="2+", nullable="2+", default=None)
    topics: list[DescribedTopicData] = array(DescribedTopicData)
    nodes: list[Node] = array(Node, versions="2+", default_factory=list)
