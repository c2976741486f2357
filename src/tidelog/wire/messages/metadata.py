"""Metadata (3), versions 0-13: nodes, topics, leaders.

- v0: an empty list of topics asks for all; from v1 on null does, and an empty list asks for none.
- v4: the client says whether unknown topics are to be created.
- v7 (KIP-320): leader epochs. v8-10 (KIP-430): authorized operations of the cluster, later moved to
  DescribeCluster.
- v9: flexible. v10 (KIP-516): topic ids; v12 answers questions by id alone, with a null name.
- v13 (KIP-1102): a top-level error code (REBOOTSTRAP_REQUIRED).
"""

from __future__ import annotations

from uuid import UUID

from tidelog.model.errors import ErrorCode
from tidelog.wire.schema import NO_UUID, array, boolean, error_code, int32, message, string, uuid

NOT_ASKED = -0x80000000
"""Authorized operations are told only to those who ask."""


@message
class MetadataRequestTopic:
    topic_id: UUID = uuid(versions="10+", default=NO_UUID)
    name: str | None = string(nullable="10+")


@message(api_key=3, versions="0-13", flexible="9+")
class MetadataRequest:
    topics: list[MetadataRequestTopic] | None = array(MetadataRequestTopic, nullable="1+")
    allow_auto_topic_creation: bool = boolean(versions="4+", default=True)
    include_cluster_authorized_operations: bool = boolean(versions="8-10", default=False)
    include_topic_authorized_operations: bool = boolean(versions="8+", default=False)


@message
class MetadataResponseBroker:
    node_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string(versions="1+", nullable="1+", default=None)


@message
class MetadataResponsePartition:
    error_code: ErrorCode = error_code(default=ErrorCode.NONE)
    partition_index: int = int32()
    leader_id: int = int32()
    leader_epoch: int = int32(versions="7+", default=-1)
    replica_nodes: list[int] = array("int32", default_factory=list)
    isr_nodes: list[int] = array("int32", default_factory=list)
    offline_replicas: list[int] = array("int32", versions="5+", default_factory=list)


@message
class MetadataResponseTopic:
    error_code: ErrorCode = error_code(default=ErrorCode.NONE)
    name: str | None = string(nullable="12+")
    topic_id: UUID = uuid(versions="10+", default=NO_UUID)
    is_internal: bool = boolean(versions="1+", default=False)
    partitions: list[MetadataResponsePartition] = array(MetadataResponsePartition)
    topic_authorized_operations: int = int32(versions="8+", default=NOT_ASKED)


@message(api_key=3, versions="0-13", flexible="9+")
class MetadataResponse:
    throttle_time_ms: int = int32(versions="3+", default=0)
    brokers: list[MetadataResponseBroker] = array(MetadataResponseBroker)
    cluster_id: str | None = string(versions="2+", nullable="2+", default=None)
    controller_id: int = int32(versions="1+", default=-1)
    topics: list[MetadataResponseTopic] = array(MetadataResponseTopic)
    cluster_authorized_operations: int = int32(versions="8-10", default=NOT_ASKED)
    error_code: ErrorCode = error_code(versions="13+", default=ErrorCode.NONE)
