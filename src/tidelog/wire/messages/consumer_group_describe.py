"""ConsumerGroupDescribe (69), versions 0-1: groups of the newer protocol, with their members.

- The counterpart of DescribeGroups for KIP-848: epochs instead of a generation, and of each member
  both what it has and what it is to have.
- v1 (KIP-1099): the protocol of each member, since a group that is moving from one protocol to the
  other has both.
"""

from __future__ import annotations

from uuid import UUID

from tidelog.model.errors import ErrorCode
from tidelog.wire.schema import (
    array,
    boolean,
    error_code,
    int8,
    int32,
    message,
    string,
    struct,
    uuid,
)

NOT_ASKED = -0x80000000
"""Authorized operations are told only to those who ask."""


@message(api_key=69, versions="0-1", flexible="0+")
class ConsumerGroupDescribeRequest:
    group_ids: list[str] = array("string")
    include_authorized_operations: bool = boolean(default=False)


@message
class TopicPartitions:
    topic_id: UUID = uuid()
    topic_name: str = string()
    partitions: list[int] = array("int32", default_factory=list)


@message
class Assignment:
    topic_partitions: list[TopicPartitions] = array(TopicPartitions)


@message
class Member:
    """`member_type`: 0 classic, 1 consumer, -1 unknown."""

    member_id: str = string()
    instance_id: str | None = string(nullable="0+", default=None)
    rack_id: str | None = string(nullable="0+", default=None)
    member_epoch: int = int32()
    client_id: str = string()
    client_host: str = string()
    subscribed_topic_names: list[str] = array("string", default_factory=list)
    subscribed_topic_regex: str | None = string(nullable="0+", default=None)
    assignment: Assignment = struct(Assignment)
    target_assignment: Assignment = struct(Assignment)
    member_type: int = int8(versions="1+", default=-1)


@message
class DescribedGroup:
    error_code: ErrorCode = error_code(default=ErrorCode.NONE)
    error_message: str | None = string(nullable="0+", default=None)
    group_id: str = string()
    group_state: str = string(default="")
    group_epoch: int = int32(default=0)
    assignment_epoch: int = int32(default=0)
    assignor_name: str = string(default="")
    members: list[Member] = array(Member, default_factory=list)
    authorized_operations: int = int32(default=NOT_ASKED)


@message(api_key=69, versions="0-1", flexible="0+")
class ConsumerGroupDescribeResponse:
    throttle_time_ms: int = int32(default=0)
    groups: list[DescribedGroup] = array(DescribedGroup)
