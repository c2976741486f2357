"""A group of the classic protocol: its states, what of it is recorded, and what is not.

Theory of operation. Members *join*; when all who are known have come (or their time is up), a new
*generation* begins: one of them is told to be the leader and gets the list of all. Members then
*sync*: the leader hands in who gets what, and everybody receives their share. From then on they
send heartbeats. Whenever somebody comes, goes or changes their mind, it starts over; members learn
of it by their heartbeats.

The coordinator never looks into what members say to each other, which is why the same protocol
serves Kafka Connect and others.

Recorded is the `Generation`, at two moments: when it begins (`is_settled` false) and when the
leader has assigned. A node that starts and finds an unsettled generation begins the rebalance anew.
The state is not stored but follows from the recorded generation and from who is waiting.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property

from tidelog.groups.members import NO_EPOCH, Candidate, Member, Protocol, Protocols
from tidelog.groups.records import GroupMetadataValue, MemberMetadata
from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.heartbeat import HeartbeatRequest


class ClassicState(Enum):
    """The values are the names that Kafka's clients know."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


MEANING: Mapping[ClassicState, str] = {
    ClassicState.EMPTY: "no members; offsets may remain until they expire",
    ClassicState.PREPARING_REBALANCE: "members are joining; heartbeats tell the others to",
    ClassicState.COMPLETING_REBALANCE: "the generation has begun; its leader is assigning",
    ClassicState.STABLE: "everybody has their share",
    ClassicState.DEAD: "no members and no offsets: gone",
}

TRANSITIONS: Mapping[tuple[ClassicState, ClassicState], str] = {
    (ClassicState.EMPTY, ClassicState.PREPARING_REBALANCE): "the first member joins",
    (ClassicState.EMPTY, ClassicState.DEAD): "deleted, or its last offset expires",
    (ClassicState.PREPARING_REBALANCE, ClassicState.COMPLETING_REBALANCE): (
        "all have joined, or the rebalance timeout is over"
    ),
    (ClassicState.PREPARING_REBALANCE, ClassicState.EMPTY): "nobody is left",
    (ClassicState.COMPLETING_REBALANCE, ClassicState.STABLE): "the leader hands in the assignments",
    (ClassicState.COMPLETING_REBALANCE, ClassicState.PREPARING_REBALANCE): (
        "a member comes, goes, or does not sync in time"
    ),
    (ClassicState.STABLE, ClassicState.PREPARING_REBALANCE): (
        "a member comes, goes, or subscribes differently; the leader joins again"
    ),
}
"""Every step, and its cause. One request may take several: the last member's leaving begins a
rebalance, which completes at once and leaves the group empty."""


@dataclass(frozen=True)
class Generation:
    """What is recorded of a group. Immutable: `replay` puts another in its place."""

    generation: int = 0
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str | None = None
    members: Mapping[str, Member] = field(default_factory=dict)
    is_settled: bool = True
    state_timestamp: int = -1

    @cached_property
    def statics(self) -> Mapping[str, str]:
        """Member ids by instance id."""
        return {m.instance_id: m.member_id for m in self.members.values() if m.instance_id}

    def recorded(self) -> GroupMetadataValue:
        return GroupMetadataValue(
            protocol_type=self.protocol_type or "",
            generation=self.generation,
            protocol=self.protocol,
            leader=self.leader,
            current_state_timestamp=self.state_timestamp,
            members=[
                MemberMetadata(
                    member_id=member.member_id,
                    group_instance_id=member.instance_id,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    rebalance_timeout=member.rebalance_timeout_ms,
                    session_timeout=member.session_timeout_ms,
                    subscription=member.subscription,
                    assignment=member.assignment,
                    epoch_reached=member.epoch_reached,
                )
                for member in self.members.values()
            ],
            is_unsettled=not self.is_settled,
        )

    @classmethod
    def of_record(cls, value: GroupMetadataValue) -> Generation:
        members = {
            m.member_id: Member(
                member_id=m.member_id,
                instance_id=m.group_instance_id,
                client_id=m.client_id,
                client_host=m.client_host,
                rebalance_timeout_ms=(
                    m.session_timeout if m.rebalance_timeout < 0 else m.rebalance_timeout
                ),
                session_timeout_ms=m.session_timeout,
                subscription=m.subscription,
                assignment=m.assignment,
                epoch_reached=m.epoch_reached,
            )
            for m in value.members
        }
        return cls(
            generation=value.generation,
            protocol_type=value.protocol_type or None,
            protocol=value.protocol,
            leader=value.leader,
            members=members,
            is_settled=not value.is_unsettled,
            state_timestamp=value.current_state_timestamp,
        )


NO_GENERATION = Generation()


@dataclass(slots=True)
class Gathering:
    """The join phase of a rebalance: who has come so far, in the order of coming."""

    candidates: dict[str, Candidate] = field(default_factory=dict)
    statics: dict[str, str] = field(default_factory=dict)
    """Member ids of candidates by instance id."""
    is_initial: bool = False
    """An empty group waits a little for more members to come, so as not to rebalance for each."""
    has_newcomer: bool = False
    """Somebody came during the present stretch of the initial delay: it is prolonged."""
    initial_delay_left_ms: float = 0.0

    def put(self, candidate: Candidate) -> None:
        self.candidates[candidate.member_id] = candidate
        if candidate.instance_id is not None:
            self.statics[candidate.instance_id] = candidate.member_id

    def take(self, member_id: str) -> Candidate | None:
        candidate = self.candidates.pop(member_id, None)
        if candidate and candidate.instance_id is not None:
            self.statics.pop(candidate.instance_id, None)
        return candidate


class ClassicGroup:
    """One group: the recorded generation, and around it the soft state of the moment."""

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.generation = NO_GENERATION
        self.is_recorded = False
        self.pending: dict[str, None] = {}
        """Member ids that were given out (KIP-394) and have not come back yet."""
        self.gathering: Gathering | None = None
        self.sync_tickets: dict[str, int] = {}
        """Members waiting for the leader's assignment."""
        self.unsynced: dict[str, None] = {}
        """Members of this generation that have not asked for their share yet."""
        self.supported: dict[str, Protocols] = {}
        """All protocols of each member; recorded is only the metadata of the chosen one."""

    @property
    def state(self) -> ClassicState:
        return state_of(self, self.generation)

    @property
    def is_void(self) -> bool:
        """Nothing recorded and nobody here: the object may go."""
        return not self.is_recorded and not self.pending and self.gathering is None

    def member(self, member_id: str) -> Member | Candidate:
        """One who is known, as it is on the way into the next generation, or in this one."""
        gathering = self.gathering
        if gathering is not None and member_id in gathering.candidates:
            return gathering.candidates[member_id]
        return self.generation.members[member_id]

    def check_member(self, member_id: str, instance_id: str | None) -> ErrorCode:
        """Is this who they say they are?"""
        gathering = self.gathering
        if instance_id is None:
            is_coming = gathering is not None and member_id in gathering.candidates
            is_known = is_coming or member_id in self.generation.members
            return ErrorCode.NONE if is_known else ErrorCode.UNKNOWN_MEMBER_ID
        joining = None if gathering is None else gathering.statics.get(instance_id)
        owner = joining or self.generation.statics.get(instance_id)
        if owner is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return ErrorCode.NONE if owner == member_id else ErrorCode.FENCED_INSTANCE_ID

    def check_generation(
        self, member_id: str, instance_id: str | None, generation: int
    ) -> ErrorCode:
        """A member, and one of the present generation?"""
        present = self.generation
        member = present.members.get(member_id)
        if member is None or instance_id is not None:
            error = self.check_member(member_id, instance_id)
            if error is not ErrorCode.NONE:
                return error
        if member is None:
            return ErrorCode.ILLEGAL_GENERATION
        is_present = generation == present.generation
        is_behind = generation == member.epoch_reached and generation != NO_EPOCH
        return ErrorCode.NONE if is_present or is_behind else ErrorCode.ILLEGAL_GENERATION

    def answer_heartbeat(self, request: HeartbeatRequest) -> ErrorCode:
        """What a member is to hear. Anything else than NONE and REBALANCE_IN_PROGRESS means that it
        was not heard as one."""
        error = self.check_generation(
            request.member_id, request.group_instance_id, request.generation_id
        )
        if error is ErrorCode.NONE and self.gathering is not None:
            return ErrorCode.REBALANCE_IN_PROGRESS
        return error

    def protocols_of(self, member: Member) -> Protocols:
        known = self.supported.get(member.member_id)
        if known is not None:
            return known
        return (Protocol(self.generation.protocol or "", member.subscription),)


def check_step(before: ClassicState, after: ClassicState) -> None:
    """The table is the law."""
    assert (before, after) in TRANSITIONS, f"a group went from {before.value} to {after.value}"


def state_of(group: ClassicGroup, generation: Generation) -> ClassicState:
    if group.gathering is not None:
        return ClassicState.PREPARING_REBALANCE
    if not generation.members:
        return ClassicState.EMPTY
    return ClassicState.STABLE if generation.is_settled else ClassicState.COMPLETING_REBALANCE
