"""OffsetFetch (9), versions 1-10: how far a group has read, as it was committed.

- v2: null asks for all topics of the group, and errors of the whole group have their own field.
- v3: throttle time. v5 (KIP-320): leader epochs. v6: flexible.
- v7 (KIP-447): `require_stable` refuses offsets that a transaction may still change.
- v8 (KIP-709): several groups, answered one by one; the single group's fields end at v7, so the
  structs come in two kinds, singular (`OffsetFetchRequestTopic`) and plural (`...Topics`).
- v9 (KIP-848): member id and epoch, so that a member that has been fenced hears of it.
  v10 (KIP-848): topic ids instead of names.
- A partition without a commit is answered with offset -1 and no error.
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
    uuid,
)


@message
class OffsetFetchRequestTopic:
    name: str = string()
    partition_indexes: list[int] = array("int32", default_factory=list)


@message
class OffsetFetchRequestTopics:
    name: str = string(versions="8-9", default="")
    topic_id: UUID = uuid(versions="10+", default=NO_UUID)
    partition_indexes: list[int] = array("int32", default_factory=list)


@message
class OffsetFetchRequestGroup:
    group_id: str = string()
    member_id: str | None = string(versions="9+", nullable="9+", default=None)
    member_epoch: int = int32(versions="9+", default=-1)
    topics: list[OffsetFetchRequestTopics] | None = array(OffsetFetchRequestTopics, nullable="8+")


@message(api_key=9, versions="1-10", flexible="6+")
class OffsetFetchRequest:
    group_id: str = string(versions="0-7", default="")
    topics: list[OffsetFetchRequestTopic] | None = array(
        OffsetFetchRequestTopic, versions="0-7", nullable="2-7", default_factory=list
    )
    groups: list[OffsetFetchRequestGroup] = array(
        OffsetFetchRequestGroup, versions="8+", default_factory=list
    )
    require_stable: bool = boolean(versions="7+", default=False)


@message
class OffsetFetchResponsePartition:
    partition_index: int = int32()
    committed_offset: int = int64()
    committed_leader_epoch: int = int32(versions="5-7", default=-1)
    metadata: str | None = string(nullable="0-7", default="")
    error_code: ErrorCode = error_code(default=ErrorCode.NONE)


@message
class OffsetFetchResponseTopic:
    name: str = string()
    partitions: list[OffsetFetchResponsePartition] = array(OffsetFetchResponsePartition)


@message
class OffsetFetchResponsePartitions:
    partition_index: int = int32()
    committed_offset: int = int64()
    committed_leader_epoch: int = int32(default=-1)
    metadata: str | None = string(nullable="8+", default="")
    error_code: ErrorCode = error_code(default=ErrorCode.NONE)


@message
class OffsetFetchResponseTopics:
    name: str = string(versions="8-9", default="")
    topic_id: UUID = uuid(versions="10+", default=NO_UUID)
    partitions: list[OffsetFetchResponsePartitions] = array(OffsetFetchResponsePartitions)


@message
class OffsetFetchResponseGroup:
    group_id: str = string()
    topics: list[OffsetFetchResponseTopics] = array(OffsetFetchResponseTopics, default_factory=list)
    error_code: ErrorCode = error_code(default=ErrorCode.NONE)


@message(api_key=9, versions="1-10", flexible="6+")
class OffsetFetchResponse:
    throttle_time_ms: int = int32(versions="3+", default=0)
    topics: list[OffsetFetchResponseTopic] = array(
        OffsetFetchResponseTopic, versions="0-7", default_factory=list
    )
    error_code: ErrorCode = error_code(versions="2-7", default=ErrorCode.NONE)
    groups: list[OffsetFetchResponseGroup] = array(
        OffsetFetchResponseGroup, versions="8+", default_factory=list
    )
