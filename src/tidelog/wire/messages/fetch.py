"""Fetch (1), versions 4-18: record batches from partitions.

- v4 (KIP-98): isolation level, aborted transactions. v5: log start offset.
- v7 (KIP-227): fetch sessions. v9 (KIP-320): leader epoch. v10: zstd allowed. v11 (KIP-392): rack,
  preferred read replica.
- v12: flexible; diverging epoch (KIP-595) as a tagged field. v13 (KIP-516): topic ids.
- v15 (KIP-903): the replica's state replaces its id. v16 (KIP-951): endpoints of new leaders.
- v17 (KIP-853): replica directory. v18: the follower's high watermark (KIP-1166).
"""

from __future__ import annotations

from uuid import UUID

from tidelog.model.errors import ErrorCode
from tidelog.wire.parts import Records
from tidelog.wire.schema import (
    NO_UUID,
    array,
    error_code,
    int8,
    int32,
    int64,
    message,
    record_batches,
    string,
    struct,
    uuid,
)

NOT_SUPPORTED = 0x7FFFFFFFFFFFFFFF
"""The high watermark of a follower that does not report it."""


@message(frozen=True)
class ReplicaState:
    replica_id: int = int32(default=-1)
    replica_epoch: int = int64(default=-1)


@message
class FetchPartition:
    partition: int = int32()
    current_leader_epoch: int = int32(versions="9+", default=-1)
    fetch_offset: int = int64()
    last_fetched_epoch: int = int32(versions="12+", default=-1)
    log_start_offset: int = int64(versions="5+", default=-1)
    partition_max_bytes: int = int32()
    replica_directory_id: UUID = uuid(versions="17+", tag=0, default=NO_UUID)
    high_watermark: int = int64(versions="18+", tag=1, default=NOT_SUPPORTED)


@message
class FetchTopic:
    topic: str = string(versions="4-12", default="")
    topic_id: UUID = uuid(versions="13+", default=NO_UUID)
    partitions: list[FetchPartition] = array(FetchPartition)


@message
class ForgottenTopic:
    topic: str = string(versions="7-12", default="")
    topic_id: UUID = uuid(versions="13+", default=NO_UUID)
    partitions: list[int] = array("int32", default_factory=list)


@message(api_key=1, versions="4-18", flexible="12+")
class FetchRequest:
    cluster_id: str | None = string(versions="12+", nullable="12+", tag=0, default=None)
    replica_id: int = int32(versions="4-14", default=-1)
    replica_state: ReplicaState = struct(
        ReplicaState, versions="15+", tag=1, default=ReplicaState()
    )
    max_wait_ms: int = int32()
    min_bytes: int = int32()
    max_bytes: int = int32(default=0x7FFFFFFF)
    isolation_level: int = int8(default=0)
    session_id: int = int32(versions="7+", default=0)
    session_epoch: int = int32(versions="7+", default=-1)
    topics: list[FetchTopic] = array(FetchTopic)
    forgotten_topics_data: list[ForgottenTopic] = array(
        ForgottenTopic, versions="7+", default_factory=list
    )
    rack_id: str = string(versions="11+", default="")


@message(frozen=True)
class EpochEndOffset:
    epoch: int = int32(default=-1)
    end_offset: int = int64(default=-1)


@message(frozen=True)
class LeaderIdAndEpoch:
    leader_id: int = int32(default=-1)
    leader_epoch: int = int32(default=-1)


@message(frozen=True)
class SnapshotId:
    end_offset: int = int64(default=-1)
    epoch: int = int32(default=-1)


@message
class AbortedTransaction:
    producer_id: int = int64()
    first_offset: int = int64()


@message
class PartitionData:
    partition_index: int = int32()
    error_code: ErrorCode = error_code(default=ErrorCode.NONE)
    high_watermark: int = int64()
    last_stable_offset: int = int64(default=-1)
    log_start_offset: int = int64(versions="5+", default=-1)
    diverging_epoch: EpochEndOffset = struct(
        EpochEndOffset, versions="12+", tag=0, default=EpochEndOffset()
    )
    current_leader: LeaderIdAndEpoch = struct(
        LeaderIdAndEpoch, versions="12+", tag=1, default=LeaderIdAndEpoch()
    )
    snapshot_id: SnapshotId = struct(SnapshotId, versions="12+", tag=2, default=SnapshotId())
    aborted_transactions: list[AbortedTransaction] | None = array(AbortedTransaction, nullable="4+")
    preferred_read_replica: int = int32(versions="11+", default=-1)
    records: Records | None = record_batches(nullable="4+")


@message
class FetchableTopicResponse:
    topic: str = string(versions="4-12", default="")
    topic_id: UUID = uuid(versions="13+", default=NO_UUID)
    partitions: list[PartitionData] = array(PartitionData)


@message
class NodeEndpoint:
    node_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string(nullable="16+", default=None)


@message(api_key=1, versions="4-18", flexible="12+")
class FetchResponse:
    throttle_time_ms: int = int32(default=0)
    error_code: ErrorCode = error_code(versions="7+", default=ErrorCode.NONE)
    session_id: int = int32(versions="7+", default=0)
    responses: list[FetchableTopicResponse] = array(FetchableTopicResponse)
    node_endpoints: list[NodeEndpoint] = array(
        NodeEndpoint, versions="16+", tag=0, default_factory=list
    )
