"""Produce (0), versions 0-13: record batches to partitions.

- v0-2: other message formats than v2 batches. The shapes are described so that the request can be
  decoded and refused; Kafka does the same (KIP-896, and KAFKA-18659 for why it advertises them).
- v3 (KIP-98): transactional id. v5: log start offset. v7: zstd allowed. v8 (KIP-467): errors by
  record. v9: flexible.
- v10 (KIP-951): the new leader in the answer, as tagged fields. v11-12 (KIP-890): transaction
  verification; the same bytes. v13 (KIP-516): topic ids instead of names.
"""

from __future__ import annotations

from uuid import UUID

from tidelog.model.errors import ErrorCode
from tidelog.wire.parts import Records
from tidelog.wire.schema import (
    NO_UUID,
    array,
    error_code,
    int16,
    int32,
    int64,
    message,
    record_batches,
    string,
    struct,
    uuid,
)


@message
class PartitionProduceData:
    index: int = int32()
    records: Records | None = record_batches(nullable="0+")


@message
class TopicProduceData:
    name: str = string(versions="0-12", default="")
    topic_id: UUID = uuid(versions="13+", default=NO_UUID)
    partition_data: list[PartitionProduceData] = array(PartitionProduceData)


@message(api_key=0, versions="0-13", flexible="9+")
class ProduceRequest:
    transactional_id: str | None = string(versions="3+", nullable="3+", default=None)
    acks: int = int16()
    timeout_ms: int = int32()
    topic_data: list[TopicProduceData] = array(TopicProduceData)


@message
class BatchIndexAndErrorMessage:
    batch_index: int = int32()
    batch_index_error_message: str | None = string(nullable="8+", default=None)


@message(frozen=True)
class LeaderIdAndEpoch:
    leader_id: int = int32(default=-1)
    leader_epoch: int = int32(default=-1)


@message
class PartitionProduceResponse:
    index: int = int32()
    error_code: ErrorCode = error_code(default=ErrorCode.NONE)
    base_offset: int = int64()
    log_append_time_ms: int = int64(versions="2+", default=-1)
    log_start_offset: int = int64(versions="5+", default=-1)
    record_errors: list[BatchIndexAndErrorMessage] = array(
        BatchIndexAndErrorMessage, versions="8+", default_factory=list
    )
    error_message: str | None = string(versions="8+", nullable="8+", default=None)
    current_leader: LeaderIdAndEpoch = struct(
        LeaderIdAndEpoch, versions="10+", tag=0, default=LeaderIdAndEpoch()
    )


@message
class TopicProduceResponse:
    name: str = string(versions="0-12", default="")
    topic_id: UUID = uuid(versions="13+", default=NO_UUID)
    partition_responses: list[PartitionProduceResponse] = array(PartitionProduceResponse)


@message
class NodeEndpoint:
    node_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string(nullable="10+", default=None)


@message(api_key=0, versions="0-13", flexible="9+")
class ProduceResponse:
    responses: list[TopicProduceResponse] = array(TopicProduceResponse)
    throttle_time_ms: int = int32(versions="1+", default=0)
    node_endpoints: list[NodeEndpoint] = array(
        NodeEndpoint, versions="10+", tag=0, default_factory=list
    )
