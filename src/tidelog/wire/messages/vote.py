"""Vote (52), versions 0-2: a replica asks for a vote (KIP-595).

- v1 (KIP-853): directory ids of both sides, and where the leader is. v2 (KIP-996): the pre-vote,
  which asks without binding anybody; the fields lose the word *candidate*.
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
    int64,
    message,
    string,
    uint16,
    uuid,
)


@message
class PartitionData:
    partition_index: int = int32()
    replica_epoch: int = int32()
    replica_id: int = int32()
    replica_directory_id: UUID = uuid(versions="1+", default=NO_UUID)
    voter_directory_id: UUID = uuid(versions="1+", default=NO_UUID)
    last_offset_epoch: int = int32()
    last_offset: int = int64()
    pre_vote: bool = boolean(versions="2+", default=False)


@message
class TopicData:
    topic_name: str = string()
    partitions: list[PartitionData] = array(PartitionData)


@message(api_key=52, versions="0-2", flexible="0+")
class VoteRequest:
    cluster_id: str | None = string(nullable="0+", default=None)
    voter_id: int = int32(versions="1+", default=-1)
    topics: list[TopicData] = array(TopicData)


@message
class VotedPartitionData:
    partition_index: int = int32()
    error_code: ErrorCode = error_code(default=ErrorCode.NONE)
    leader_id: int = int32()
    leader_epoch: int = int32()
    vote_granted: bool = boolean()


@message
class VotedTopicData:
    topic_name: str = string()
    partitions: list[VotedPartitionData] = array(VotedPartitionData)


@message
class NodeEndpoint:
    node_id: int = int32()
    host: str = string()
    port: int = uint16()


@message(api_key=52, versions="0-2", flexible="0+")
class VoteResponse:
    error_code: ErrorCode = error_code(default=ErrorCode.NONE)
    topics: list[VotedTopicData] = array(VotedTopicData)
    node_endpoints: list[NodeEndpoint] = array(
        NodeEndpoint, versions="1+", tag=0, default_factory=list
    )
