"""A group of the newer protocol (KIP-848): the coordinator assigns, members only follow.

Theory of operation. Three numbers follow each other. The *group epoch* rises whenever something
changes that the assignment depends on: a member comes or goes, a subscription changes, a topic
gets partitions. The *assignment epoch* is the group epoch for which the target assignment was
computed. Each *member epoch* is the assignment epoch that the member has reached. A member gets
there step by step, by its own heartbeats (`reconciliation.py`): it gives up what it must not keep,
says so, and then receives what others have given up. No barrier, no stop of the world.

All of it is recorded; only the timers are soft. `apply` is the one mutator. A decision works on a
copy (`ConsumerDraft`), to which it applies each record it emits, so that a later step of the same
decision sees the earlier ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from typing import Any
from uuid import UUID

from tidelog.groups.members import Protocol, Protocols
from tidelog.groups.records import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerKey,
    RecordedPartitions,
)
from tidelog.model.ids import PartitionKey, TopicId

Partitions = frozenset[PartitionKey]
NOTHING: Partitions = frozenset()

LEAVING = -1
LEAVING_FOR_A_WHILE = -2
"""Member epochs in a heartbeat that say goodbye; the second of a static member that will return."""


class ConsumerState(Enum):
    """The values are the names that Kafka's clients know."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
    DEAD = "Dead"


MEANING: Mapping[ConsumerState, str] = {
    ConsumerState.EMPTY: "no members",
    ConsumerState.ASSIGNING: "the target assignment is older than the group epoch",
    ConsumerState.RECONCILING: "some member has not reached its target yet",
    ConsumerState.STABLE: "every member has what it is to have",
    ConsumerState.DEAD: "deleted",
}

TRANSITIONS: Mapping[tuple[ConsumerState, ConsumerState], str] = {
    (ConsumerState.EMPTY, ConsumerState.STABLE): "the first member joins and gets everything",
    (ConsumerState.EMPTY, ConsumerState.DEAD): "deleted, or its last offset expires",
    (ConsumerState.STABLE, ConsumerState.RECONCILING): (
        "a member joins, or subscriptions or topics change"
    ),
    (ConsumerState.STABLE, ConsumerState.ASSIGNING): "a member leaves or is fenced",
    (ConsumerState.ASSIGNING, ConsumerState.RECONCILING): "the next heartbeat computes the target",
    (ConsumerState.ASSIGNING, ConsumerState.STABLE): "the one member left has all it needs",
    (ConsumerState.ASSIGNING, ConsumerState.EMPTY): "the last member leaves",
    (ConsumerState.RECONCILING, ConsumerState.STABLE): "the last member reaches its target",
    (ConsumerState.RECONCILING, ConsumerState.ASSIGNING): "a member leaves or is fenced",
    (ConsumerState.RECONCILING, ConsumerState.EMPTY): "the last member leaves",
    (ConsumerState.STABLE, ConsumerState.EMPTY): "the last member leaves",
}


class MemberState(IntEnum):
    """How far a member is. The numbers are recorded, and Kafka's."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2


MEMBER_MEANING: Mapping[MemberState, str] = {
    MemberState.STABLE: "has its target, or has not begun to move to the next",
    MemberState.UNREVOKED_PARTITIONS: "must give up partitions, and has not said that it has",
    MemberState.UNRELEASED_PARTITIONS: "waits for partitions that others have not given up",
}

MEMBER_TRANSITIONS: Mapping[tuple[MemberState, MemberState], str] = {
    (MemberState.STABLE, MemberState.UNREVOKED_PARTITIONS): "owns what the new target takes away",
    (MemberState.STABLE, MemberState.UNRELEASED_PARTITIONS): "is to have what others still own",
    (MemberState.UNREVOKED_PARTITIONS, MemberState.STABLE): "has revoked; the rest was free",
    (MemberState.UNREVOKED_PARTITIONS, MemberState.UNRELEASED_PARTITIONS): (
        "has revoked; others have not"
    ),
    (MemberState.UNRELEASED_PARTITIONS, MemberState.STABLE): "the others have revoked",
    (MemberState.UNRELEASED_PARTITIONS, MemberState.UNREVOKED_PARTITIONS): (
        "the target has changed meanwhile"
    ),
}


@dataclass(frozen=True, slots=True)
class ClassicSide:
    """Of a member that speaks the classic protocol to a group that has moved on."""

    session_timeout_ms: int
    protocols: Protocols

    def recorded(self) -> ClassicMemberMetadata:
        return ClassicMemberMetadata(
            session_timeout_ms=self.session_timeout_ms,
            supported_protocols=[
                ClassicProtocol(name=name, metadata=metadata) for name, metadata in self.protocols
            ],
        )

    @classmethod
    def of_record(cls, value: ClassicMemberMetadata) -> ClassicSide:
        return cls(
            value.session_timeout_ms,
            tuple(Protocol(one.name, one.metadata) for one in value.supported_protocols),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerMember:
    """Who a member is and what it wants."""

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topic_names: tuple[str, ...] = ()
    topic_regex: str | None = None
    rebalance_timeout_ms: int = -1
    server_assignor: str | None = None
    classic: ClassicSide | None = None

    def recorded(self) -> ConsumerGroupMemberMetadataValue:
        return ConsumerGroupMemberMetadataValue(
            instance_id=self.instance_id,
            rack_id=self.rack_id,
            client_id=self.client_id,
            client_host=self.client_host,
            subscribed_topic_names=list(self.topic_names),
            subscribed_topic_regex=self.topic_regex,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            server_assignor=self.server_assignor,
            classic_member_metadata=self.classic.recorded() if self.classic else None,
        )

    @classmethod
    def of_record(cls, member_id: str, value: ConsumerGroupMemberMetadataValue) -> ConsumerMember:
        classic = value.classic_member_metadata
        return cls(
            member_id=member_id,
            instance_id=value.instance_id,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            topic_names=tuple(value.subscribed_topic_names),
            topic_regex=value.subscribed_topic_regex,
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            server_assignor=value.server_assignor,
            classic=None if classic is None else ClassicSide.of_record(classic),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Current:
    """What a member has. `revoking` is still its own until it says otherwise."""

    epoch: int = 0
    previous_epoch: int = -1
    state: MemberState = MemberState.STABLE
    assigned: Partitions = NOTHING
    revoking: Partitions = NOTHING

    def recorded(self) -> ConsumerGroupCurrentMemberAssignmentValue:
        return ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=self.epoch,
            previous_member_epoch=self.previous_epoch,
            state=self.state,
            assigned_partitions=by_topic(self.assigned),
            partitions_pending_revocation=by_topic(self.revoking),
        )

    @classmethod
    def of_record(cls, value: ConsumerGroupCurrentMemberAssignmentValue) -> Current:
        return cls(
            epoch=value.member_epoch,
            previous_epoch=value.previous_member_epoch,
            state=MemberState(value.state),
            assigned=partitions_of(value.assigned_partitions),
            revoking=partitions_of(value.partitions_pending_revocation),
        )


NEW = Current()


@dataclass(slots=True)
class ConsumerGroup:
    """One group, as recorded."""

    group_id: str
    epoch: int = 0
    metadata_hash: int = 0
    empty_since: int = -1
    target_epoch: int = 0
    members: dict[str, ConsumerMember] = field(default_factory=dict)
    targets: dict[str, Partitions] = field(default_factory=dict)
    currents: dict[str, Current] = field(default_factory=dict)
    regexes: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """The topics that each regular expression stands for."""
    owners: dict[PartitionKey, str] = field(default_factory=dict)
    """Follows from `currents`: who has (or has not given up) each partition."""
    statics: dict[str, str] = field(default_factory=dict)
    """Follows from `members`: member ids by instance id."""

    @property
    def state(self) -> ConsumerState:
        if not self.members:
            return ConsumerState.EMPTY
        if self.epoch > self.target_epoch:
            return ConsumerState.ASSIGNING
        if all(self.is_reconciled(member_id) for member_id in self.members):
            return ConsumerState.STABLE
        return ConsumerState.RECONCILING

    def is_reconciled(self, member_id: str) -> bool:
        current = self.current(member_id)
        return current.state is MemberState.STABLE and current.epoch == self.target_epoch

    def current(self, member_id: str) -> Current:
        return self.currents.get(member_id, NEW)

    def copy(self) -> ConsumerGroup:
        """Everything inside is immutable, so one level is enough."""
        return ConsumerGroup(
            group_id=self.group_id,
            epoch=self.epoch,
            metadata_hash=self.metadata_hash,
            empty_since=self.empty_since,
            target_epoch=self.target_epoch,
            members=self.members.copy(),
            targets=self.targets.copy(),
            currents=self.currents.copy(),
            regexes=self.regexes.copy(),
            owners=self.owners.copy(),
            statics=self.statics.copy(),
        )

    def apply(self, key: ConsumerKey, value: Any) -> None:
        """One record of this group; the tombstone of the group itself is not for the group."""
        if isinstance(key, ConsumerGroupMetadataKey):
            self.epoch, self.metadata_hash = value.epoch, value.metadata_hash
            self.empty_since = value.empty_since
        elif isinstance(key, ConsumerGroupMemberMetadataKey):
            self._apply_member(key.member_id, value)
        elif isinstance(key, ConsumerGroupTargetAssignmentMetadataKey):
            self.target_epoch = 0 if value is None else value.assignment_epoch
        elif isinstance(key, ConsumerGroupTargetAssignmentMemberKey):
            self._apply_target(key.member_id, value)
        elif isinstance(key, ConsumerGroupCurrentMemberAssignmentKey):
            self._apply_current(key.member_id, None if value is None else Current.of_record(value))
        elif isinstance(key, ConsumerGroupRegularExpressionKey):
            if value is None:
                self.regexes.pop(key.regular_expression, None)
            else:
                self.regexes[key.regular_expression] = tuple(value.topics)

    def _apply_member(self, member_id: str, value: ConsumerGroupMemberMetadataValue | None) -> None:
        old = self.members.pop(member_id, None)
        if old and old.instance_id and self.statics.get(old.instance_id) == member_id:
            del self.statics[old.instance_id]
        if value is not None:
            member = self.members[member_id] = ConsumerMember.of_record(member_id, value)
            if member.instance_id:
                self.statics[member.instance_id] = member_id

    def _apply_target(
        self, member_id: str, value: ConsumerGroupTargetAssignmentMemberValue | None
    ) -> None:
        if value is None:
            self.targets.pop(member_id, None)
        else:
            self.targets[member_id] = partitions_of(value.topic_partitions)

    def _apply_current(self, member_id: str, current: Current | None) -> None:
        old = self.currents.pop(member_id, NEW)
        for partition in sorted(old.assigned | old.revoking):
            if self.owners.get(partition) == member_id:
                del self.owners[partition]
        if current is not None:
            self.currents[member_id] = current
            for partition in sorted(current.assigned | current.revoking):
                self.owners[partition] = member_id


def by_topic(partitions: Partitions) -> list[RecordedPartitions]:
    topics: dict[UUID, list[int]] = {}
    for topic_id, partition in sorted(partitions):
        topics.setdefault(topic_id, []).append(partition)
    return [RecordedPartitions(topic_id=t, partitions=found) for t, found in topics.items()]


def partitions_of(recorded: Iterable[RecordedPartitions]) -> Partitions:
    return frozenset(
        PartitionKey(TopicId(topic.topic_id), partition)
        for topic in recorded
        for partition in topic.partitions
    )
