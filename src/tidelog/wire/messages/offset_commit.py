"""OffsetCommit (8), versions 2-10: how far a group has read, to be remembered.

- v2-4: the client says how long the offsets are to be kept; from v5 on (KIP-211) the node decides.
- v3: throttle time. v6 (KIP-320): the leader epoch of the last record read. v7 (KIP-345): static
  members. v8: flexible.
- v9 (KIP-848): members of the newer protocol commit too, with their member epoch in the place of
  the generation; STALE_MEMBER_EPOCH may be answered. v10 (KIP-848): topic ids instead of names.
- A generation below 0 and no member id: the commit of somebody who is not a member, such as a tool
  or a consumer that chooses its own partitions.
"""

from __future__ import annotations

from uuid import UUID

from tidelog.model.errors import ErrorCode
from tidelog.wire.schema import NO_UUID, array, error_code, int32, int64, message, string, uuid


@message
class OffsetCommitRequestPartition:
    partition_index: int = int32()
    committed_offset: int = int64()
    committed_leader_epoch: int = int32(versions="6+", default=-1)
    committed_metadata: str | None = string(nullable="0+", default="")


@message
class OffsetCommitRequestTopic:
    name: str = string(versions="0-9", default="")
    topic_id: UUID = uuid(versions="10+", default=NO_UUID)
    partitions: list[OffsetCommitRequestPartition] = array(OffsetCommitRequestPartition)


@message(api_key=8, versions="2-10", flexible="8+")
class OffsetCommitRequest:
    group_id: str = string()
    generation_id_or_member_epoch: int = int32(default=-1)
    member_id: str = string(default="")
    group_instance_id: str | None = string(versions="7+", nullable="7+", default=None)
    retention_time_ms: int = int64(versions="2-4", default=-1)
    topics: list[OffsetCommitRequestTopic] = array(OffsetCommitRequestTopic)


@message
class OffsetCommitResponsePartition:
    partition_index: int = int32()
    error_code: ErrorCode = error_code(default=ErrorCode.NONE)


@message
class OffsetCommitResponseTopic:
    name: str = string(versions="0-9", default="")
    topic_id: UUID = uuid(versions="10+", default=NO_UUID)
    partitions: list[OffsetCommitResponsePartition] = array(OffsetCommitResponsePartition)


@message(api_key=8, versions="2-10", flexible="8+")
class OffsetCommitResponse:
    throttle_time_ms: int = int32(versions="3+", default=0)
    topics: list[OffsetCommitResponseTopic] = array(OffsetCommitResponseTopic)
