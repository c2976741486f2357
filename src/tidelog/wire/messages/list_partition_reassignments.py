"""ListPartitionReassignments (46), version 0: what is being put elsewhere (KIP-455)."""

from __future__ import annotations

from tidelog.model.errors import ErrorCode
from tidelog.wire.schema import array, error_code, int32, message, string


@message
class ListPartitionReassignmentsTopics:
    name: str = string()
    partition_indexes: list[int] = array("int32", default_factory=list)


@message(api_key=46, versions="0", flexible="0+")
class ListPartitionReassignmentsRequest:
    timeout_ms: int = int32(default=60_000)
    topics: list[ListPartitionReassignmentsTopics] | None = array(
        ListPartitionReassignmentsTopics, nullable="0+", default=None
    )


@message
class OngoingPartitionReassignment:
    partition_index: int = int32()
    replicas: list[int] = array("int32", default_factory=list)
    adding_replicas: list[int] = array("int32", default_factory=list)
    removing_replicas: list[int] = array("int32", default_factory=list)


@message
class OngoingTopicReassignment:
    name: str = string()
    partitions: list[OngoingPartitionReassignment] = array(OngoingPartitionReassignment)


@message(api_key=46, versions="0", flexible="0+")
class ListPartitionReassignmentsResponse:
    throttle_time_ms: int = int32(default=0)
    error_code: ErrorCode = error_code(default=ErrorCode.NONE)
    error_message: str | None = string(nullable="0+")
    topics: list[OngoingTopicReassignment] = array(OngoingTopicReassignment)
