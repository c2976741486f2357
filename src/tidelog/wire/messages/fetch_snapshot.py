"""FetchSnapshot (59), versions 0-1: a piece of a snapshot, by its position (KIP-630).

- v1 (KIP-853): the fetching replica's directory; where the leader is.
"""

from __future__ import annotations

from uuid import UUID

from tidelog.model.errors import ErrorCode
from tidelog.wire.parts import Records
from tidelog.wire.schema import (
    NO_UUID,
    array,
    error_code,
    int32,
    int64,
    message,
    record_batches,
    string,
    struct,
    uint16,
    uuid,
)


@message
class SnapshotId:
    end_offset: int = int64()
    epoch: int = int32()


@message
class PartitionSnapshot:
    partition: int = int32()
    current_leader_epoch: int = int32()
    snapshot_id: SnapshotId = struct(SnapshotId)
    position: int = int64()
    replica_directory_id: UUID = uuid(versions="1+", tag=0, default=NO_UUID)


@message
class TopicSnapshot:
    name: str = string()
    partitions: list[PartitionSnapshot] = array(PartitionSnapshot)


@message(api_key=59, versions="0-1", flexible="0+")
class FetchSnapshotRequest:
    cluster_id: str | None = string(nullable="0+", tag=0, default=None)
    replica_id: int = int32(default=-1)
    max_bytes: int = int32(default=0x7FFFFFFF)
    topics: list[TopicSnapshot] = array(TopicSnapshot)


@message(frozen=True)
class LeaderIdAndEpoch:
    leader_id: int = int32(default=0)
    leader_epoch: int = int32(default=0)


@message
class FetchedPartitionSnapshot:
    index: int = int32()
    error_code: ErrorCode = error_code(default=ErrorCode.NONE)
    snapshot_id: SnapshotId = struct(SnapshotId)
    current_leader: LeaderIdAndEpoch = struct(LeaderIdAndEpoch, tag=0, default=LeaderIdAndEpoch())
    size: int = int64()
    position: int = int64()
    unaligned_records: Records = record_batches()


@message
class FetchedTopicSnapshot:
    name: str = string()
    partitions: list[FetchedPartitionSnapshot] = array(FetchedPartitionSnapshot)


@message
class NodeEndpoint:
    node_id: int = int32()
    host: str = string()
    port: int = uint16()


@message(api_key=59, versions="0-1", flexible="0+")
class FetchSnapshotResponse:
    throttle_time_ms: int = int32(default=0)
    error_code: ErrorCode = error_code(default=ErrorCode.NONE)
    topics: list[FetchedTopicSnapshot] = array(FetchedTopicSnapshot)
    node_endpoints: list[NodeEndpoint] = array(
        NodeEndpoint, versions="1+", tag=0, default_factory=list
    )
