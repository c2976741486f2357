"""JoinGroup: a member comes, or comes back for the next generation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tidelog.model.errors import ErrorCode
from tidelog.sim.workload.world import World
from tidelog.wire.messages.consumer_protocol import (
    ConsumerProtocolSubscription,
    encode_subscription,
)
from tidelog.wire.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)

API_KEY = 11
FIRST_WITH_MEMBER_ID_STEP = 4
FIRST_WITH_INSTANCES = 5
PROTOCOL_TYPE = "consumer"
PROTOCOL = "range"


@dataclass(slots=True, frozen=True)
class JoinPlan:
    """`member_id` is empty for somebody new; `instance_id` is a static member's."""

    group: str
    member_id: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    topics: Sequence[str]
    version: int
    instance_id: str | None = None


@dataclass(slots=True, frozen=True)
class Joined:
    """`members` is known to the leader only. A leader that `keeps_assignment` has come back to a
    generation that has one."""

    member_id: str
    generation: int
    leader: str
    members: tuple[str, ...]
    error: ErrorCode
    keeps_assignment: bool = False


def build(plan: JoinPlan) -> JoinGroupRequest:
    subscription = encode_subscription(ConsumerProtocolSubscription(topics=list(plan.topics)))
    return JoinGroupRequest(
        group_id=plan.group,
        session_timeout_ms=plan.session_timeout_ms,
        rebalance_timeout_ms=plan.rebalance_timeout_ms,
        member_id=plan.member_id,
        group_instance_id=plan.instance_id,
        protocol_type=PROTOCOL_TYPE,
        protocols=[JoinGroupRequestProtocol(name=PROTOCOL, metadata=subscription)],
    )


def classify(response: JoinGroupResponse) -> Joined:
    return Joined(
        response.member_id,
        response.generation_id,
        response.leader,
        tuple(member.member_id for member in response.members),
        response.error_code,
        response.skip_assignment,
    )


def predict(plan: JoinPlan, world: World, life: int) -> tuple[ErrorCode, ...]:
    """Somebody new hears its id first; somebody known may have been given up."""
    excuses = world.coordinator_excuses(life)
    if plan.instance_id is not None:
        excuses = (*excuses, ErrorCode.FENCED_INSTANCE_ID)
    if plan.member_id:
        return (*excuses, ErrorCode.UNKNOWN_MEMBER_ID)
    if plan.instance_id is not None:
        return excuses
    if plan.version >= FIRST_WITH_MEMBER_ID_STEP:
        return (*excuses, ErrorCode.MEMBER_ID_REQUIRED)
    return excuses
