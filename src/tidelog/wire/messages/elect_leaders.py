"""ElectLeaders (43), versions 0-2: make the preferred replica, or any that is left, the leader.

- v1 (KIP-460): the kind of election, and an error of the whole. v2: flexible.
"""

from __future__ import annotations

from tidelog.model.errors import ErrorCode
from tidelog.wire.schema import array, error_code, int8, int32, message, string


@message
class TopicPartitions:
    topic: str = string()
    partitions: list[int] = array("int32", default_factory=list)


@message(api_key=43, versions="0-2", flexible="2+")
class ElectLeadersRequest:
    election_type: int = int8(versions="1+", default=0)
    topic_partitions: list[TopicPartitions] | None = array(TopicPartitions, nullable="0+")
    timeout_ms: int = int32(default=60_000)


@message
class PartitionResult:
    partition_id: int = int32()
    error_code: ErrorCode = error_code(default=ErrorCode.NONE)
    error_message: str | None = string(nullable="0+")


@message
class ReplicaElectionResult:
    topic: str = string()
    partition_result: list[PartitionResult] = array(PartitionResult)


@message(api_key=43, versions="0-2", flexible="2+")
class ElectLeadersResponse:
    throttle_time_ms: int = int32(default=0)
    error_code: ErrorCode = error_code(versions="1+", default=ErrorCode.NONE)
    replica_election_results: list[ReplicaElectionResult] = array(ReplicaElectionResult)
