"""DescribeProducers (61), version 0: what a partition's leader remembers of producers (KIP-664).

For those who look for a hanging transaction: `current_txn_start_offset` is where it began, or -1.
"""

from __future__ import annotations

from tidelog.model.errors import ErrorCode
from tidelog.wire.schema import array, error_code, int32, int64, message, string


@message
class TopicRequest:
    name: str = string()
    partition_indexes: list[int] = array("int32")


@message(api_key=61, versions="0", flexible="0+")
class DescribeProducersRequest:
    topics: list[TopicRequest] = array(TopicRequest)


@message
class ProducerState:
    producer_id: int = int64()
    producer_epoch: int = int32()
    last_sequence: int = int32(default=-1)
    last_timestamp: int = int64(default=-1)
    coordinator_epoch: int = int32()
    current_txn_start_offset: int = int64(default=-1)


@message
class PartitionResponse:
    partition_index: int = int32()
    error_code: ErrorCode = error_code(default=ErrorCode.NONE)
    error_message: str | None = string(nullable="0+", default=None)
    active_producers: list[ProducerState] = array(ProducerState, default_factory=list)


@message
class TopicResponse:
    name: str = string()
    partitions: list[PartitionResponse] = array(PartitionResponse)


@message(api_key=61, versions="0", flexible="0+")
class DescribeProducersResponse:
    throttle_time_ms: int = int32(default=0)
    topics: list[TopicResponse] = array(TopicResponse)
