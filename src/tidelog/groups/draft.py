"""A decision on one classic group, while it is being made.

The group's recorded generation must not change before its record is in the log, and yet a decision
often has several steps (three members leave, so the rest has joined, so a generation begins). So
the steps work on `Draft.generation`, and one record of the outcome closes the draft.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from random import Random
from typing import Any
from uuid import UUID

from tidelog.groups.decision import Decision
from tidelog.groups.group import ClassicGroup, ClassicState, state_of
from tidelog.groups.members import Candidate, Member, Protocols
from tidelog.groups.records import GroupMetadataKey, record
from tidelog.groups.settings import GroupSettings
from tidelog.groups.timers import TimerKey, Timers
from tidelog.groups.topics import Topics
from tidelog.model.clock import Now

SESSION = "session"
REBALANCE = "rebalance"
SYNC = "sync"
PENDING = "pending"


@dataclass(frozen=True, slots=True)
class Desk:
    """What every decision has at hand."""

    settings: GroupSettings
    random: Random
    timers: Timers[TimerKey]
    topics: Topics

    def new_member_id(self, prefix: str) -> str:
        return f"{prefix}-{UUID(int=self.random.getrandbits(128), version=4)}"

    def restart_session(self, now: Now, group_id: str, one: Member | Candidate) -> None:
        """It was heard of."""
        key = TimerKey(SESSION, group_id, one.member_id)
        self.timers.arm(key, now.monotonic_ms + one.session_timeout_ms)


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks, and what its version of the request is able to understand."""

    client_id: str
    client_host: str
    requires_member_id: bool = False
    """The two-step join of KIP-394 (JoinGroup v4+)."""
    may_skip_assignment: bool = False
    """A leader that can be told not to assign anew (JoinGroup v9+, KIP-814)."""


class Draft:
    """One decision on `group`. Soft state is changed in place, the generation only here."""

    def __init__(self, desk: Desk, now: Now, group: ClassicGroup) -> None:
        self.desk = desk
        self.now = now
        self.group = group
        self.generation = group.generation
        self.decision = Decision()

    @property
    def state(self) -> ClassicState:
        return state_of(self.group, self.generation)

    def reply(self, ticket: int | None, response: Any) -> None:
        self.decision.reply(ticket, response)

    def change(self, **changes: Any) -> None:
        """The generation with some fields different, as of now."""
        self.generation = dataclasses.replace(
            self.generation, state_timestamp=self.now.wall_ms, **changes
        )

    @property
    def has_changed(self) -> bool:
        return self.generation is not self.group.generation

    def close(self) -> Decision:
        """The decision, with the record of the outcome if the generation has changed."""
        if self.has_changed:
            key = GroupMetadataKey(group=self.group.group_id)
            self.decision.records.insert(0, record(key, self.generation.recorded()))
        return self.decision

    # Members, whether of the generation or on their way into the next.

    def candidate(self, member_id: str) -> Candidate | None:
        gathering = self.group.gathering
        return gathering.candidates.get(member_id) if gathering else None

    def knows(self, member_id: str) -> bool:
        return member_id in self.generation.members or self.candidate(member_id) is not None

    def static_member_id(self, instance_id: str) -> str | None:
        gathering = self.group.gathering
        joining = gathering.statics.get(instance_id) if gathering else None
        return joining or self.generation.statics.get(instance_id)

    def everybody(self) -> list[Member | Candidate]:
        """A candidate stands for the member it was."""
        gathering = self.group.gathering
        candidates = gathering.candidates if gathering else {}
        stayed = [m for m in self.generation.members.values() if m.member_id not in candidates]
        return [*stayed, *candidates.values()]

    @property
    def protocol_type(self) -> str | None:
        """What kind of group this is: its first members say so, for as long as it has any."""
        if self.generation.members or not self.group.gathering:
            return self.generation.protocol_type
        candidates = self.group.gathering.candidates.values()
        return next((candidate.protocol_type for candidate in candidates), None)

    def supported(self) -> list[Protocols]:
        """What every member is able to do."""
        return [
            one.protocols if isinstance(one, Candidate) else self.group.protocols_of(one)
            for one in self.everybody()
        ]

    def max_rebalance_timeout_ms(self) -> int:
        """The slowest member's time is everybody's."""
        return max((one.rebalance_timeout_ms for one in self.everybody()), default=0)

    # Timers.

    def arm(self, kind: str, delay_ms: float, member_id: str = "") -> None:
        key = TimerKey(kind, self.group.group_id, member_id)
        self.desk.timers.arm(key, self.now.monotonic_ms + delay_ms)

    def disarm(self, kind: str, member_id: str = "") -> None:
        self.desk.timers.cancel(TimerKey(kind, self.group.group_id, member_id))

    def heard_of(self, member_id: str) -> None:
        """The member lives: its session starts over."""
        one = self.candidate(member_id) or self.generation.members.get(member_id)
        if one is not None:
            self.desk.restart_session(self.now, self.group.group_id, one)
