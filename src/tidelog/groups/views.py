"""Groups as people and tools see them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from tidelog.groups.consumer_group import (
    NOTHING,
    ConsumerGroup,
    ConsumerMember,
    ConsumerState,
    Partitions,
    by_topic,
)
from tidelog.groups.group import ClassicGroup, ClassicState
from tidelog.groups.offsets import CommittedOffset
from tidelog.groups.topics import Topics
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import TopicPartition
from tidelog.wire.messages import consumer_group_describe as newer
from tidelog.wire.messages.describe_groups import DescribedGroup, DescribedGroupMember
from tidelog.wire.messages.list_groups import ListedGroup
from tidelog.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

CLASSIC = "classic"
CONSUMER = "consumer"


def list_classic(group_id: str, group: ClassicGroup | None) -> ListedGroup:
    """None is one of which only offsets are left (or ever were: simple consumers)."""
    return ListedGroup(
        group_id=group_id,
        protocol_type="" if group is None else protocol_type(group),
        group_state=(ClassicState.EMPTY if group is None else group.state).value,
        group_type=CLASSIC,
    )


def protocol_type(group: ClassicGroup) -> str:
    if group.generation.protocol_type is not None or group.gathering is None:
        return group.generation.protocol_type or ""
    candidates = group.gathering.candidates.values()
    return next((candidate.protocol_type for candidate in candidates), "")


def describe_classic(group_id: str, group: ClassicGroup | None, is_known: bool) -> DescribedGroup:
    """A simple consumer's group has no more to it than that it is there."""
    if not is_known:
        return DescribedGroup(
            error_code=ErrorCode.GROUP_ID_NOT_FOUND,
            error_message=f"Group {group_id} not found.",
            group_id=group_id,
            group_state=ClassicState.DEAD.value,
        )
    if group is None:
        return DescribedGroup(group_id=group_id, group_state=ClassicState.EMPTY.value)
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state.value,
        protocol_type=protocol_type(group),
        protocol_data=(group.generation.protocol or "") if _is_stable(group) else "",
        members=_members(group),
    )


def _is_stable(group: ClassicGroup) -> bool:
    return group.state is ClassicState.STABLE


def _members(group: ClassicGroup) -> list[DescribedGroupMember]:
    """Those of the generation, then those who are coming. What they said and what they got is told
    of a stable group only: before, it is of the past or not decided yet."""
    is_stable = _is_stable(group)
    described = [
        DescribedGroupMember(
            member_id=member.member_id,
            group_instance_id=member.instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            member_metadata=member.subscription if is_stable else b"",
            member_assignment=member.assignment if is_stable else b"",
        )
        for member in group.generation.members.values()
    ]
    coming = group.gathering.candidates.values() if group.gathering else ()
    described += [
        DescribedGroupMember(
            member_id=candidate.member_id,
            group_instance_id=candidate.instance_id,
            client_id=candidate.client_id,
            client_host=candidate.client_host,
        )
        for candidate in coming
        if candidate.member_id not in group.generation.members
    ]
    return described


def recorded_classic(group: ClassicGroup) -> dict[str, Any]:
    generation = group.generation
    return {
        "type": CLASSIC,
        "generation": generation.generation,
        "protocol_type": generation.protocol_type,
        "protocol": generation.protocol,
        "leader": generation.leader,
        "is_settled": generation.is_settled,
        "state_timestamp": generation.state_timestamp,
        "members": {member_id: _shown(one) for member_id, one in generation.members.items()},
    }


def list_consumer(group: ConsumerGroup) -> ListedGroup:
    return ListedGroup(
        group_id=group.group_id,
        protocol_type=CONSUMER,
        group_state=group.state.value,
        group_type=CONSUMER,
    )


def describe_consumer(
    group_id: str, group: ConsumerGroup | None, topics: Topics, *, assignor: str
) -> newer.DescribedGroup:
    if group is None:
        return newer.DescribedGroup(
            error_code=ErrorCode.GROUP_ID_NOT_FOUND,
            error_message=f"Group {group_id} not found.",
            group_id=group_id,
            group_state=ConsumerState.DEAD.value,
        )
    return newer.DescribedGroup(
        group_id=group_id,
        group_state=group.state.value,
        group_epoch=group.epoch,
        assignment_epoch=group.target_epoch,
        assignor_name=assignor,
        members=[_consumer_member(group, member, topics) for member in group.members.values()],
    )


def _consumer_member(group: ConsumerGroup, member: ConsumerMember, topics: Topics) -> newer.Member:
    current = group.current(member.member_id)
    target = group.targets.get(member.member_id, NOTHING)
    return newer.Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=current.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=list(member.topic_names),
        subscribed_topic_regex=member.topic_regex,
        assignment=_assignment(current.assigned, topics),
        target_assignment=_assignment(target, topics),
        member_type=0 if member.classic is not None else 1,
    )


def _assignment(partitions: Partitions, topics: Topics) -> newer.Assignment:
    """Without topics that are gone: they have no name any more."""
    return newer.Assignment(
        topic_partitions=[
            newer.TopicPartitions(
                topic_id=topic.topic_id, topic_name=name, partitions=topic.partitions
            )
            for topic in by_topic(partitions)
            if (name := topics.name(topic.topic_id)) is not None
        ]
    )


def recorded_consumer(group: ConsumerGroup) -> dict[str, Any]:
    return {
        "type": CONSUMER,
        "epoch": group.epoch,
        "metadata_hash": group.metadata_hash,
        "empty_since": group.empty_since,
        "target_epoch": group.target_epoch,
        "regexes": {regex: list(group.regexes[regex]) for regex in sorted(group.regexes)},
        "members": {
            member_id: {
                **_shown(group.members[member_id]),
                "epoch": group.current(member_id).epoch,
                "previous_epoch": group.current(member_id).previous_epoch,
                "state": group.current(member_id).state.name,
                "assigned": _names(group.current(member_id).assigned),
                "revoking": _names(group.current(member_id).revoking),
                "target": _names(group.targets.get(member_id, NOTHING)),
            }
            for member_id in sorted(group.members)
        },
    }


def _names(partitions: Partitions) -> list[str]:
    return [f"{topic_id}-{number}" for topic_id, number in sorted(partitions)]


def _shown(value: Any) -> dict[str, Any]:
    """As `asdict`, without its deep copies: what is in such a value never changes."""
    parts = ((field.name, getattr(value, field.name)) for field in fields(value))
    return {name: _shown(part) if is_dataclass(part) else part for name, part in parts}


def recorded_offsets(offsets: Mapping[TopicPartition, CommittedOffset]) -> dict[str, Any]:
    return {str(partition): _shown(offsets[partition]) for partition in sorted(offsets)}


def refused_commit(request: OffsetCommitRequest, error: ErrorCode) -> OffsetCommitResponse:
    """A refusal of the whole is told partition by partition: the answer has no other place."""
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    OffsetCommitResponsePartition(
                        partition_index=partition.partition_index, error_code=error
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
