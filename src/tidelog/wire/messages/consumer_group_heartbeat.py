"""ConsumerGroupHeartbeat (68), versions 0-1: the whole of the newer group protocol (KIP-848).

One request joins, subscribes, reports what is owned, lives and leaves; the answer carries the
member's assignment. What has not changed since the last heartbeat is null (or -1) either way.

- Member epoch 0 joins, -1 leaves, -2 leaves for a while (a static member).
- v1 (KIP-1082): the consumer makes its own member id; a subscription may be a regular expression,
  which the coordinator resolves.
"""

from __future__ import annotations

from uuid import UUID

from tidelog.model.errors import ErrorCode
from tidelog.wire.schema import array, error_code, int32, message, string, struct, uuid


@message
class TopicPartitions:
    topic_id: UUID = uuid()
    partitions: list[int] = array("int32", default_factory=list)


@message(api_key=68, versions="0-1", flexible="0+")
class ConsumerGroupHeartbeatRequest:
    group_id: str = string()
    member_id: str = string()
    member_epoch: int = int32()
    instance_id: str | None = string(nullable="0+", default=None)
    rack_id: str | None = string(nullable="0+", default=None)
    rebalance_timeout_ms: int = int32(default=-1)
    subscribed_topic_names: list[str] | None = array("string", nullable="0+", default=None)
    subscribed_topic_regex: str | None = string(versions="1+", nullable="1+", default=None)
    server_assignor: str | None = string(nullable="0+", default=None)
    topic_partitions: list[TopicPartitions] | None = array(
        TopicPartitions, nullable="0+", default=None
    )


@message
class Assignment:
    topic_partitions: list[TopicPartitions] = array(TopicPartitions)


@message(api_key=68, versions="0-1", flexible="0+")
class ConsumerGroupHeartbeatResponse:
    throttle_time_ms: int = int32(default=0)
    error_code: ErrorCode = error_code(default=ErrorCode.NONE)
    error_message: str | None = string(nullable="0+", default=None)
    member_id: str | None = string(nullable="0+", default=None)
    member_epoch: int = int32(default=0)
    heartbeat_interval_ms: int = int32(default=0)
    assignment: Assignment | None = struct(Assignment, nullable="0+", default=None)
