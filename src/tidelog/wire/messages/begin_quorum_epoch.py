"""BeginQuorumEpoch (53), versions 0-1: a new leader makes itself known (KIP-595).

- v1 (KIP-853): flexible; the voter is named with its directory, the leader with its endpoints.
"""

from __future__ import annotations

from uuid import UUID

from tidelog.model.errors import ErrorCode
from tidelog.wire.schema import NO_UUID, array, error_code, int32, message, string, uint16, uuid


@message
class PartitionData:
    partition_index: int = int32()
    voter_directory_id: UUID = uuid(versions="1+", default=NO_UUID)
    leader_id: int = int32()
    leader_epoch: int = int32()


@message
class TopicData:
    topic_name: str = string()
    partitions: list[PartitionData] = array(PartitionData)


@message
class LeaderEndpoint:
    name: str = string()
    host: str = string()
    port: int = uint16()


@message(api_key=53, versions="0-1", flexible="1+")
class BeginQuorumEpochRequest:
    cluster_id: str | None = string(nullable="0+", default=None)
    voter_id: int = int32(versions="1+", default=-1)
    topics: list[TopicData] = array(TopicData)
    leader_endpoints: list[LeaderEndpoint] = array(
        LeaderEndpoint, versions="1+", default_factory=list
    )


@message
class BegunPartitionData:
    partition_index: int = int32()
    error_code: ErrorCode = error_code(default=ErrorCode.NONE)
    leader_id: int = int32()
    leader_epoch: int = int32()


@message
class BegunTopicData:
    topic_name: str = string()
    partitions: list[BegunPartitionData] = array(BegunPartitionData)


@message
class NodeEndpoint:
    node_id: int = int32()
    host: str = string()
    port: int = uint16()


@message(api_key=53, versions="0-1", flexible="1+")
class BeginQuorumEpochResponse:
    error_code: ErrorCode = error_code(default=ErrorCode.NONE)
    topics: list[BegunTopicData] = array(BegunTopicData)
    node_endpoints: list[NodeEndpoint] = array(
        NodeEndpoint, versions="1+", tag=0, default_factory=list
    )
