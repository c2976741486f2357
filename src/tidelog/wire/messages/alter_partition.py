"""AlterPartition (56), versions 2-3: a leader proposes another in-sync set (KIP-497).

- v2 (KIP-841): topics by id. v3 (KIP-903): the members of the set with their broker epochs, so that
  one that restarted meanwhile is refused. Versions 0-1 named topics and are gone from Kafka 4.
"""

from __future__ import annotations

from uuid import UUID

from tidelog.model.errors import ErrorCode
from tidelog.wire.schema import array, error_code, int8, int32, int64, message, uuid


@message
class BrokerState:
    broker_id: int = int32()
    broker_epoch: int = int64(default=-1)


@message
class PartitionData:
    partition_index: int = int32()
    leader_epoch: int = int32()
    new_isr: list[int] = array("int32", versions="2", default_factory=list)
    new_isr_with_epochs: list[BrokerState] = array(BrokerState, versions="3+", default_factory=list)
    leader_recovery_state: int = int8(default=0)
    partition_epoch: int = int32()


@message
class TopicData:
    topic_id: UUID = uuid()
    partitions: list[PartitionData] = array(PartitionData)


@message(api_key=56, versions="2-3", flexible="2+")
class AlterPartitionRequest:
    broker_id: int = int32()
    broker_epoch: int = int64(default=-1)
    topics: list[TopicData] = array(TopicData)


@message
class AlteredPartitionData:
    partition_index: int = int32()
    error_code: ErrorCode = error_code(default=ErrorCode.NONE)
    leader_id: int = int32()
    leader_epoch: int = int32()
    isr: list[int] = array("int32", default_factory=list)
    leader_recovery_state: int = int8(default=0)
    partition_epoch: int = int32()


@message
class AlteredTopicData:
    topic_id: UUID = uuid()
    partitions: list[AlteredPartitionData] = array(AlteredPartitionData)


@message(api_key=56, versions="2-3", flexible="2+")
class AlterPartitionResponse:
    throttle_time_ms: int = int32(default=0)
    error_code: ErrorCode = error_code(default=ErrorCode.NONE)
    topics: list[AlteredTopicData] = array(AlteredTopicData)
