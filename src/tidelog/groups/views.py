"""Groups as people and tools see them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tidelog.groups.group import ClassicGroup, ClassicState
from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.describe_groups import DescribedGroup, DescribedGroupMember
from tidelog.wire.messages.list_groups import ListedGroup

CLASSIC = "classic"
CONSUMER = "consumer"


def list_classic(groups: Iterable[ClassicGroup], with_offsets: Iterable[str]) -> list[ListedGroup]:
    """Groups, and those of which only offsets are left (or ever were: simple consumers)."""
    listed = {
        group.group_id: ListedGroup(
            group_id=group.group_id,
            protocol_type=protocol_type(group),
            group_state=group.state.value,
            group_type=CLASSIC,
        )
        for group in groups
    }
    for group_id in with_offsets:
        if group_id not in listed:
            listed[group_id] = ListedGroup(
                group_id=group_id,
                protocol_type="",
                group_state=ClassicState.EMPTY.value,
                group_type=CLASSIC,
            )
    return list(listed.values())


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
        "members": dict(generation.members),
    }
