"""A group moves from one protocol to the other while it runs (KIP-848).

*Up*: the first member of the newer protocol joins a classic group of consumers. The group becomes a
newer one at the epoch of its generation, its members keep what they have, and who still speaks the
classic protocol is served by `classic_members.py`. Whoever waits for a join or a sync is told to
come again.

*Down*: the last member of the newer protocol goes. The group becomes a classic one at the
generation of its epoch, and a rebalance begins, in which the members choose a leader again.

An empty group has no protocol: the first who joins decides.
"""

from __future__ import annotations

from tidelog.groups.classic_members import encoded_assignment
from tidelog.groups.consumer_draft import ConsumerDraft
from tidelog.groups.consumer_group import (
    NOTHING,
    ClassicSide,
    ConsumerGroup,
    ConsumerMember,
    Current,
    Partitions,
)
from tidelog.groups.decision import GroupRecord
from tidelog.groups.draft import PENDING, REBALANCE, SESSION, SYNC, Desk, Draft
from tidelog.groups.group import ClassicGroup, Generation
from tidelog.groups.members import NO_EPOCH, Member, choose_protocol, metadata_for
from tidelog.groups.rebalance import begin_without_candidate, refuse_join, refuse_sync
from tidelog.groups.records import (
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    GroupMetadataKey,
    record,
)
from tidelog.groups.subscriptions import fingerprint
from tidelog.groups.topics import Topics
from tidelog.model.clock import Now
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import PartitionKey, TopicId
from tidelog.wire.errors import DecodeError
from tidelog.wire.messages.consumer_protocol import (
    PROTOCOL_TYPE,
    TopicPartition,
    decode_assignment,
    decode_subscription,
)


def may_upgrade(desk: Desk, group: ClassicGroup) -> bool:
    """Consumers only, and all of them understood."""
    generation = group.generation
    if not desk.settings.may_upgrade or generation.protocol_type != PROTOCOL_TYPE:
        return False
    if len(generation.members) >= desk.settings.group_consumer_max_size:
        return False
    try:
        for member in generation.members.values():
            decode_subscription(member.subscription)
            if member.assignment:
                decode_assignment(member.assignment)
    except DecodeError:
        return False
    return True


def is_undecided(group: ClassicGroup) -> bool:
    """Nobody is in the group yet, or any more; consumers may be on their way in."""
    coming = group.gathering.candidates.values() if group.gathering else ()
    return not group.generation.members and all(
        candidate.protocol_type == PROTOCOL_TYPE for candidate in coming
    )


def dissolve_classic(draft: ConsumerDraft, group: ClassicGroup) -> None:
    """Nobody waits at the classic group any more, and it is recorded no more."""
    classic = Draft(draft.desk, draft.now, group)
    if group.gathering is not None:
        for candidate in group.gathering.candidates.values():
            error = ErrorCode.REBALANCE_IN_PROGRESS
            refuse_join(classic, candidate.ticket, candidate.member_id, error)
            classic.disarm(SESSION, candidate.member_id)
    for member_id in list(group.sync_tickets):
        refuse_sync(classic, member_id, ErrorCode.REBALANCE_IN_PROGRESS)
    for member_id in group.generation.members:
        classic.disarm(SESSION, member_id)
    for member_id in group.pending:
        classic.disarm(PENDING, member_id)
    classic.disarm(REBALANCE)
    classic.disarm(SYNC)
    group.gathering = None
    group.pending.clear()
    group.unsynced.clear()
    group.supported.clear()
    draft.decision.replies += classic.decision.replies
    if group.is_recorded:
        draft.decision.records.append(record(GroupMetadataKey(group=group.group_id)))


def take_over(draft: ConsumerDraft, group: ClassicGroup) -> None:
    """Of a group without members only the number of its last generation lives on: epochs go on
    from there, so that no number is ever given out twice."""
    last = group.generation.generation
    dissolve_classic(draft, group)
    if last:
        draft.emit(
            ConsumerGroupMetadataKey(group_id=group.group_id),
            ConsumerGroupMetadataValue(epoch=last),
        )


def upgrade(draft: ConsumerDraft, group: ClassicGroup) -> None:
    """`draft` is of a group that is not there yet; afterwards it has the classic one's members."""
    topics = draft.desk.topics
    supported = dict(group.supported)
    generation = group.generation
    dissolve_classic(draft, group)
    shares = _shares(generation, topics)
    for member in generation.members.values():
        subscription = decode_subscription(member.subscription)
        protocols = supported.get(member.member_id, group.protocols_of(member))
        draft.put_member(
            ConsumerMember(
                member_id=member.member_id,
                instance_id=member.instance_id,
                rack_id=subscription.rack_id,
                client_id=member.client_id,
                client_host=member.client_host,
                topic_names=tuple(sorted(set(subscription.topics))),
                rebalance_timeout_ms=member.rebalance_timeout_ms,
                classic=ClassicSide(member.session_timeout_ms, protocols),
            )
        )
        draft.heard_of(draft.group.members[member.member_id])
    epoch = max(generation.generation, 1)
    draft.emit(
        ConsumerGroupMetadataKey(group_id=group.group_id),
        ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=fingerprint(draft.group, topics)),
    )
    for member_id, share in shares.items():
        draft.put_target(member_id, share)
        draft.put_current(member_id, Current(epoch=epoch, previous_epoch=epoch, assigned=share))
    draft.emit(
        ConsumerGroupTargetAssignmentMetadataKey(group_id=group.group_id),
        ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=epoch),
    )


def _shares(generation: Generation, topics: Topics) -> dict[str, Partitions]:
    """What each member has: its assignment, and, while the leader has not assigned, what it said
    that it still owns. Of two who claim the same, one has it."""
    shares: dict[str, set[PartitionKey]] = {member_id: set() for member_id in generation.members}
    taken: set[PartitionKey] = set()
    claims: list[tuple[str, list[TopicPartition]]] = []
    for member_id, member in generation.members.items():
        if member.assignment:
            assignment = decode_assignment(member.assignment)
            claims.append((member_id, assignment.assigned_partitions))
    for member_id, member in generation.members.items():
        claims.append((member_id, decode_subscription(member.subscription).owned_partitions))
    for member_id, named in claims:
        for topic in named:
            topic_id = topics.topic_id(topic.topic)
            for number in topic.partitions if topic_id is not None else ():
                partition = PartitionKey(TopicId(topic_id), number)  # type: ignore[arg-type]
                if partition not in taken:
                    taken.add(partition)
                    shares[member_id].add(partition)
    return {member_id: frozenset(share) or NOTHING for member_id, share in shares.items()}


def may_downgrade(desk: Desk, group: ConsumerGroup, leaving: list[str]) -> bool:
    """Somebody stays when these have left, and none of them speaks the newer protocol."""
    staying = [member for member in group.members.values() if member.member_id not in leaving]
    return (
        desk.settings.may_downgrade
        and 0 < len(staying) <= desk.settings.group_max_size
        and all(member.classic is not None for member in staying)
    )


def erase(draft: ConsumerDraft) -> None:
    """Tombstones for all that is recorded of the group, but its offsets."""
    group_id = draft.group_id
    for member_id in list(draft.group.members):
        draft.erase_member(member_id)
    for regex in sorted(draft.group.regexes):
        draft.emit(ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex))
    if draft.group.target_epoch:
        draft.emit(ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id))
    draft.decision.records.append(record(ConsumerGroupMetadataKey(group_id=group_id)))


def erased(desk: Desk, now: Now, group: ConsumerGroup) -> list[GroupRecord]:
    draft = ConsumerDraft(desk, now, group)
    erase(draft)
    return draft.decision.records


def _epoch_reached(group: ConsumerGroup, member_id: str) -> int:
    epoch = group.current(member_id).epoch
    return NO_EPOCH if epoch == group.epoch else epoch


def downgrade(draft: ConsumerDraft, leaving: list[str]) -> ClassicGroup:
    """The group as a classic one, in a rebalance. Its generation is the group's epoch. Members are
    asked to join again, and lose nothing, not even those who had not reached that epoch: what they
    have is nobody else's, and until the next generation they may commit as of the epoch they are
    at. (Else they would hear ILLEGAL_GENERATION, and what they have read would be read again.)"""
    before = draft.group
    sides = {
        member_id: member.classic
        for member_id, member in before.members.items()
        if member_id not in leaving and member.classic is not None
    }
    staying = {member_id: before.members[member_id] for member_id in sides}
    protocol = choose_protocol([side.protocols for side in sides.values()])
    members = {
        member_id: Member(
            member_id=member_id,
            instance_id=member.instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            session_timeout_ms=sides[member_id].session_timeout_ms,
            subscription=metadata_for(protocol, sides[member_id].protocols),
            assignment=encoded_assignment(before, member, draft.desk.topics),
            epoch_reached=_epoch_reached(before, member_id),
        )
        for member_id, member in staying.items()
    }
    erase(draft)
    group = ClassicGroup(before.group_id)
    group.supported.update({member_id: side.protocols for member_id, side in sides.items()})
    classic = Draft(draft.desk, draft.now, group)
    classic.change(
        generation=before.epoch,
        protocol_type=PROTOCOL_TYPE,
        protocol=protocol,
        leader=next(iter(members)),
        members=members,
        is_settled=False,
    )
    for member_id in members:
        classic.heard_of(member_id)
    begin_without_candidate(classic)
    draft.decision.records += classic.close().records
    return group
