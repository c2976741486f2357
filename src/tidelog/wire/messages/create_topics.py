"""CreateTopics (19), versions 2-7.

- v4 (KIP-464): -1 partitions or replicas ask for the node's default.
- v5 (KIP-525): flexible; the answer tells the topic's settings. v6 (KIP-599): quota errors. v7
  (KIP-516): topic id.
"""

from __future__ import annotations

from uuid import UUID

from tidelog.model.errors import ErrorCode
from tidelog.wire.schema import (
    NO_UUID,
    array,
    boolean,
    error_code,
    int8,
    int16,
    int32,
    message,
    string,
    uuid,
)


@message
class CreatableReplicaAssignment:
    partition_index: int = int32()
    broker_ids: list[int] = array("int32", default_factory=list)


@message
class CreatableTopicConfig:
    name: str = string()
    value: str | None = string(nullable="2+")


@message
class CreatableTopic:
    name: str = string()
    num_partitions: int = int32()
    replication_factor: int = int16()
    assignments: list[CreatableReplicaAssignment] = array(
        CreatableReplicaAssignment, default_factory=list
    )
    configs: list[CreatableTopicConfig] = array(CreatableTopicConfig, default_factory=list)


@message(api_key=19, versions="2-7", flexible="5+")
class CreateTopicsRequest:
    topics: list[CreatableTopic] = array(CreatableTopic)
    timeout_ms: int = int32(default=60_000)
    validate_only: bool = boolean(default=False)


@message
class CreatableTopicConfigs:
    name: str = string()
    value: str | None = string(nullable="5+")
    read_only: bool = boolean()
    config_source: int = int8(default=-1)
    is_sensitive: bool = boolean()


@message
class CreatableTopicResult:
    name: str = string()
    topic_id: UUID = uuid(versions="7+", default=NO_UUID)
    error_code: ErrorCode = error_code(default=ErrorCode.NONE)
    error_message: str | None = string(nullable="2+")
    topic_config_error_code: int = int16(versions="5+", tag=0, default=0)
    num_partitions: int = int32(versions="5+", default=-1)
    replication_factor: int = int16(versions="5+", default=-1)
    configs: list[CreatableTopicConfigs] | None = array(
        CreatableTopicConfigs, versions="5+", nullable="5+", default_factory=list
    )


@message(api_key=19, versions="2-7", flexible="5+")
class CreateTopicsResponse:
    throttle_time_ms: int = int32(default=0)
    topics: list[CreatableTopicResult] = array(CreatableTopicResult)
