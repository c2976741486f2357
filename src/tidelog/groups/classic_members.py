"""Members of the classic protocol in a group that has moved to the newer one (KIP-848, migration).

They keep speaking JoinGroup, SyncGroup and Heartbeat, and the coordinator plays a group for them in
which they are never the leader. A join is their heartbeat: it tells what they own and moves them a
step towards their target; a sync hands them what they have by then. When there is more to do, their
heartbeat is answered with REBALANCE_IN_PROGRESS, and they join again. Member epochs serve as
generations.
"""

from __future__ import annotations

from tidelog.groups.consumer_draft import CLASSIC_JOIN, CLASSIC_SYNC, ConsumerDraft
from tidelog.groups.consumer_group import (
    NOTHING,
    ClassicSide,
    ConsumerGroup,
    ConsumerMember,
    MemberState,
    Partitions,
    by_topic,
)
from tidelog.groups.consumer_heartbeat import replace_member
from tidelog.groups.draft import Caller
from tidelog.groups.members import Protocol, shared_protocols
from tidelog.groups.reconciliation import may_progress
from tidelog.groups.timers import TimerKey
from tidelog.groups.topics import Topics
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import PartitionKey, TopicId
from tidelog.wire.errors import DecodeError
from tidelog.wire.messages.consumer_protocol import (
    LAST_VERSION,
    PROTOCOL_TYPE,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
    decode_subscription,
    encode_assignment,
    version_of,
)
from tidelog.wire.messages.heartbeat import HeartbeatRequest
from tidelog.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from tidelog.wire.messages.leave_group import MemberIdentity
from tidelog.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse


def join(draft: ConsumerDraft, request: JoinGroupRequest, caller: Caller) -> JoinGroupResponse:
    subscription = _subscription(request)
    error = _join_refusal(draft, request, subscription)
    if error is not ErrorCode.NONE or subscription is None:
        return JoinGroupResponse(error_code=error, member_id=request.member_id)
    member_id = request.member_id
    if not member_id:
        member_id = draft.desk.new_member_id(request.group_instance_id or caller.client_id)
        if request.group_instance_id is None and caller.requires_member_id:
            return JoinGroupResponse(error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id=member_id)
        former = draft.group.statics.get(request.group_instance_id or "")
        if former is not None:
            replace_member(draft, former, member_id)
    known = draft.group.members.get(member_id)
    member = _member(request, subscription, caller, member_id=member_id)
    wants_other = known is None or known.topic_names != member.topic_names
    draft.put_member(member)
    if wants_other:
        draft.refresh_subscriptions(has_changed=True)
    draft.update_target()
    owned = _partitions(subscription.owned_partitions, draft.desk.topics)
    current = draft.reconcile(member_id, owned)
    draft.heard_of(member)
    draft.disarm(CLASSIC_JOIN, member_id)
    draft.arm(CLASSIC_SYNC, member.rebalance_timeout_ms, member_id)
    return JoinGroupResponse(
        generation_id=current.epoch,
        protocol_type=PROTOCOL_TYPE,
        protocol_name=request.protocols[0].name,
        member_id=member_id,
    )


def _subscription(request: JoinGroupRequest) -> ConsumerProtocolSubscription | None:
    """Of the protocol that the member likes best; they all ask for the same topics."""
    if request.protocol_type != PROTOCOL_TYPE or not request.protocols:
        return None
    try:
        return decode_subscription(request.protocols[0].metadata)
    except DecodeError:
        return None


def _join_refusal(
    draft: ConsumerDraft,
    request: JoinGroupRequest,
    subscription: ConsumerProtocolSubscription | None,
) -> ErrorCode:
    group, settings = draft.group, draft.desk.settings
    lowest, highest = settings.group_min_session_timeout_ms, settings.group_max_session_timeout_ms
    if not lowest <= request.session_timeout_ms <= highest:
        return ErrorCode.INVALID_SESSION_TIMEOUT
    if subscription is None:
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    is_static = request.group_instance_id is not None
    if request.member_id and is_static:
        error = _check_member(group, request.member_id, request.group_instance_id)
        if error is not ErrorCode.NONE:
            return error
    is_known = request.member_id in group.members or request.group_instance_id in group.statics
    if not is_known and len(group.members) >= settings.group_consumer_max_size:
        return ErrorCode.GROUP_MAX_SIZE_REACHED
    others = [
        member.classic.protocols
        for member in group.members.values()
        if member.classic is not None and member.member_id != request.member_id
    ]
    if not shared_protocols([_protocols(request), *others]):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    return ErrorCode.NONE


def _protocols(request: JoinGroupRequest) -> tuple[Protocol, ...]:
    return tuple(Protocol(protocol.name, protocol.metadata) for protocol in request.protocols)


def _member(
    request: JoinGroupRequest,
    subscription: ConsumerProtocolSubscription,
    caller: Caller,
    *,
    member_id: str,
) -> ConsumerMember:
    timeout_ms = request.rebalance_timeout_ms
    return ConsumerMember(
        member_id=member_id,
        instance_id=request.group_instance_id,
        rack_id=subscription.rack_id,
        client_id=caller.client_id,
        client_host=caller.client_host,
        topic_names=tuple(sorted(set(subscription.topics))),
        rebalance_timeout_ms=request.session_timeout_ms if timeout_ms < 0 else timeout_ms,
        classic=ClassicSide(request.session_timeout_ms, _protocols(request)),
    )


def _partitions(named: list[TopicPartition], topics: Topics) -> Partitions:
    """Of topics that (still) exist."""
    found = []
    for topic in named:
        topic_id = topics.topic_id(topic.topic)
        if topic_id is not None:
            found += [PartitionKey(TopicId(topic_id), number) for number in topic.partitions]
    return frozenset(found)


def _check_member(group: ConsumerGroup, member_id: str, instance_id: str | None) -> ErrorCode:
    """Is this who they say they are, and do they speak the classic protocol?"""
    if instance_id is not None:
        owner = group.statics.get(instance_id)
        if owner is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if owner != member_id:
            return ErrorCode.FENCED_INSTANCE_ID
    member = group.members.get(member_id)
    if member is None or member.classic is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    return ErrorCode.NONE


def sync(draft: ConsumerDraft, request: SyncGroupRequest) -> SyncGroupResponse:
    group = draft.group
    error = _sync_refusal(group, request)
    if error is not ErrorCode.NONE:
        return SyncGroupResponse(error_code=error)
    member = group.members[request.member_id]
    assert member.classic is not None
    draft.heard_of(member)
    draft.disarm(CLASSIC_SYNC, member.member_id)
    return SyncGroupResponse(
        protocol_type=PROTOCOL_TYPE,
        protocol_name=request.protocol_name or member.classic.protocols[0].name,
        assignment=encoded_assignment(group, member, draft.desk.topics),
    )


def _sync_refusal(group: ConsumerGroup, request: SyncGroupRequest) -> ErrorCode:
    error = _check_member(group, request.member_id, request.group_instance_id)
    if error is not ErrorCode.NONE:
        return error
    current = group.current(request.member_id)
    member = group.members[request.member_id]
    if current.epoch != request.generation_id:
        return ErrorCode.ILLEGAL_GENERATION
    if request.protocol_type not in (None, PROTOCOL_TYPE):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    names = [protocol.name for protocol in member.classic.protocols] if member.classic else []
    if request.protocol_name is not None and request.protocol_name not in names:
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    must_first_revoke = current.state is MemberState.UNREVOKED_PARTITIONS
    if current.epoch < group.epoch and not must_first_revoke:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def encoded_assignment(group: ConsumerGroup, member: ConsumerMember, topics: Topics) -> bytes:
    """In the version of the consumer protocol that the member speaks."""
    version = 0
    if member.classic is not None:
        version = min(version_of(member.classic.protocols[0].metadata), LAST_VERSION)
    named = [
        TopicPartition(topic=name, partitions=topic.partitions)
        for topic in by_topic(group.current(member.member_id).assigned)
        if (name := topics.name(topic.topic_id)) is not None
    ]
    return encode_assignment(ConsumerProtocolAssignment(assigned_partitions=named), version)


def heartbeat(draft: ConsumerDraft, request: HeartbeatRequest) -> ErrorCode:
    group = draft.group
    error = _check_member(group, request.member_id, request.group_instance_id)
    if error is not ErrorCode.NONE:
        return error
    current, member = group.current(request.member_id), group.members[request.member_id]
    if current.epoch != request.generation_id:
        return ErrorCode.ILLEGAL_GENERATION
    draft.heard_of(member)
    target = group.targets.get(request.member_id, NOTHING)
    if current.epoch >= group.epoch and not may_progress(
        current, target=target, owners=group.owners
    ):
        return ErrorCode.NONE
    if TimerKey(CLASSIC_JOIN, draft.group_id, member.member_id) not in draft.desk.timers:
        draft.arm(CLASSIC_JOIN, member.rebalance_timeout_ms, member.member_id)
    return ErrorCode.REBALANCE_IN_PROGRESS


def leave(
    group: ConsumerGroup, identities: list[MemberIdentity]
) -> tuple[list[ErrorCode], list[str]]:
    """What to tell each, and who goes."""
    found = [_who_leaves(group, identity) for identity in identities]
    leaving = [member_id for error, member_id in found if error is ErrorCode.NONE]
    return [error for error, _ in found], list(dict.fromkeys(leaving))


def _who_leaves(group: ConsumerGroup, identity: MemberIdentity) -> tuple[ErrorCode, str]:
    """A tool that sends a static member away knows only its instance id."""
    if identity.group_instance_id is not None and not identity.member_id:
        owner = group.statics.get(identity.group_instance_id)
        return (ErrorCode.NONE, owner) if owner else (ErrorCode.UNKNOWN_MEMBER_ID, "")
    if identity.group_instance_id is not None:
        owner = group.statics.get(identity.group_instance_id)
        if owner is not None and owner != identity.member_id:
            return ErrorCode.FENCED_INSTANCE_ID, ""
    is_known = identity.member_id in group.members
    return (ErrorCode.NONE if is_known else ErrorCode.UNKNOWN_MEMBER_ID), identity.member_id
