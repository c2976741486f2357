"""EndQuorumEpoch (54), versions 0-1: a leader resigns and names who may follow it (KIP-595).

- v1 (KIP-853): flexible; the successors are named with their directories.
"""

from __future__ import annotations

from uuid import UUID

from tidelog.model.errors import ErrorCode
from tidelog.wire.schema import array, error_code, int32, message, string, uint16, uuid


@message
class ReplicaInfo:
    candidate_id: int = int32()
    candidate_directory_id: UUID = uuid()


@message
class PartitionData:
    partition_index: int = int32()
    leader_id: int = int32()
    leader_epoch: int = int32()
    preferred_successors: list[int] = array("int32", versions="0", default_factory=list)
    preferred_candidates: list[ReplicaInfo] = array(
        ReplicaInfo, versions="1+", default_factory=list
    )


@message
class TopicData:
    topic_name: str = string()
    partitions: list[PartitionData] = array(PartitionData)


@message
class LeaderEndpoint:
    name: str = string()
    host: str = string()
    port: int = uint16()


@message(api_key=54, versions="0-1", flexible="1+")
class EndQuorumEpochRequest:
    cluster_id: str | None = string(nullable="0+", default=None)
    topics: list[TopicData] = array(TopicData)
    leader_endpoints: list[LeaderEndpoint] = array(
        LeaderEndpoint, versions="1+", default_factory=list
    )


@message
class EndedPartitionData:
    partition_index: int = int32()
    error_code: ErrorCode = error_code(default=ErrorCode.NONE)
    leader_id: int = int32()
    leader_epoch: int = int32()


@message
class EndedTopicData:
    topic_name: str = string()
    partitions: list[EndedPartitionData] = array(EndedPartitionData)


@message
class NodeEndpoint:
    node_id: int = int32()
    host: str = string()
    port: int = uint16()


@message(api_key=54, versions="0-1", flexible="1+")
class EndQuorumEpochResponse:
    error_code: ErrorCode = error_code(default=ErrorCode.NONE)
    topics: list[EndedTopicData] = array(EndedTopicData)
    node_endpoints: list[NodeEndpoint] = array(
        NodeEndpoint, versions="1+", tag=0, default_factory=list
    )
