"""LeaveGroup: a member goes, and says so."""

from __future__ import annotations

from dataclasses import dataclass

from tidelog.model.errors import ErrorCode
from tidelog.sim.workload.world import World
from tidelog.wire.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
)

API_KEY = 13
FIRST_WITH_INSTANCES = 3


@dataclass(slots=True, frozen=True)
class LeavePlan:
    group: str
    member_id: str
    version: int
    instance_id: str | None = None


def build(plan: LeavePlan) -> LeaveGroupRequest:
    """In the form of the plan's version: one member, or a list."""
    if plan.version < 3:
        return LeaveGroupRequest(group_id=plan.group, member_id=plan.member_id)
    member = MemberIdentity(member_id=plan.member_id, group_instance_id=plan.instance_id)
    return LeaveGroupRequest(group_id=plan.group, members=[member])


def classify(response: LeaveGroupResponse) -> ErrorCode:
    if response.error_code is not ErrorCode.NONE or not response.members:
        return response.error_code
    return response.members[0].error_code


def predict(world: World, life: int) -> tuple[ErrorCode, ...]:
    """It may have been given up already."""
    excuses = world.coordinator_excuses(life)
    return (*excuses, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID)
