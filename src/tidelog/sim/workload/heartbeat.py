"""Heartbeat: a member lives, and hears whether the group is rebalancing."""

from __future__ import annotations

from dataclasses import dataclass

from tidelog.model.errors import ErrorCode
from tidelog.sim.workload.world import World
from tidelog.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse

API_KEY = 12
FIRST_WITH_INSTANCES = 3


@dataclass(slots=True, frozen=True)
class HeartbeatPlan:
    group: str
    generation: int
    member_id: str
    instance_id: str | None = None


def build(plan: HeartbeatPlan) -> HeartbeatRequest:
    return HeartbeatRequest(
        group_id=plan.group,
        generation_id=plan.generation,
        member_id=plan.member_id,
        group_instance_id=plan.instance_id,
    )


def classify(response: HeartbeatResponse) -> ErrorCode:
    return response.error_code


def predict(world: World, life: int) -> tuple[ErrorCode, ...]:
    """The group may have gone on without the member, or be about to."""
    return (
        *world.coordinator_excuses(life),
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.REBALANCE_IN_PROGRESS,
    )
