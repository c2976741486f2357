"""ConsumerGroupHeartbeat: the whole of the newer protocol in one request (KIP-848).

The steps, in `heartbeat`: is the request sane; does somebody leave; who is it; what do they want;
has that raised the group epoch; if so, a new target assignment; then this member's own next step
towards its part of it; and the answer.
"""

from __future__ import annotations

import dataclasses

from tidelog.groups.consumer_draft import ConsumerDraft
from tidelog.groups.consumer_group import (
    LEAVING_FOR_A_WHILE,
    ConsumerGroup,
    ConsumerMember,
    Current,
    MemberState,
    Partitions,
    by_topic,
    partitions_of,
)
from tidelog.groups.draft import Caller
from tidelog.groups.records import RecordedPartitions
from tidelog.groups.regexes import is_acceptable
from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

_UNCHANGED = -1


class Refused(Exception):
    """The heartbeat is answered with an error, and nothing changes."""

    def __init__(self, error: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.error = error
        self.message = message


def check_request(request: ConsumerGroupHeartbeatRequest, assignors: tuple[str, ...]) -> None:
    """What can be said of the request without knowing the group."""
    if not request.group_id:
        raise Refused(ErrorCode.INVALID_REQUEST, "GroupId can't be empty.")
    if request.member_epoch < LEAVING_FOR_A_WHILE:
        raise Refused(ErrorCode.INVALID_REQUEST, "MemberEpoch is invalid.")
    if request.member_epoch != 0 and not request.member_id:
        raise Refused(ErrorCode.INVALID_REQUEST, "MemberId can't be empty.")
    if request.instance_id == "":
        raise Refused(ErrorCode.INVALID_REQUEST, "InstanceId can't be empty.")
    if request.rack_id == "":
        raise Refused(ErrorCode.INVALID_REQUEST, "RackId can't be empty.")
    if request.member_epoch == LEAVING_FOR_A_WHILE and request.instance_id is None:
        raise Refused(ErrorCode.INVALID_REQUEST, "InstanceId can't be null.")
    if request.member_epoch == 0:
        _check_join(request)
    if request.server_assignor is not None and request.server_assignor not in assignors:
        raise Refused(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"ServerAssignor {request.server_assignor} is not supported. "
            f"Supported assignors: {', '.join(assignors)}.",
        )
    if request.subscribed_topic_regex and not is_acceptable(request.subscribed_topic_regex):
        raise Refused(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"SubscribedTopicRegex {request.subscribed_topic_regex!r} is not a regular expression, "
            "or takes too long to match.",
        )


def _check_join(request: ConsumerGroupHeartbeatRequest) -> None:
    if request.rebalance_timeout_ms == _UNCHANGED:
        raise Refused(ErrorCode.INVALID_REQUEST, "RebalanceTimeoutMs must be given on joining.")
    if request.topic_partitions is None or request.topic_partitions:
        raise Refused(ErrorCode.INVALID_REQUEST, "TopicPartitions must be empty on joining.")
    if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
        raise Refused(ErrorCode.INVALID_REQUEST, "A subscription must be given on joining.")


def heartbeat(
    draft: ConsumerDraft,
    request: ConsumerGroupHeartbeatRequest,
    caller: Caller,
    *,
    is_refresh_due: bool,
) -> ConsumerGroupHeartbeatResponse:
    """Of a member that comes or stays. `is_refresh_due`: topics have changed since the last one."""
    member_id = request.member_id or draft.desk.new_member_id(caller.client_id)
    known = _find_member(draft, request, member_id)
    is_new = known is None
    before = draft.group.current(member_id)
    if is_new:
        _check_size(draft)
    member = _updated(known or ConsumerMember(member_id=member_id), request, caller)
    wants_other = known is None or _interest(known) != _interest(member)
    draft.put_member(member)
    if wants_other or is_refresh_due:
        draft.refresh_subscriptions(has_changed=wants_other)
    draft.update_target()
    current = draft.reconcile(member_id, _owned(request))
    draft.heard_of(member)
    return _answer(draft, request, member_id, before=before, current=current)


def says_nothing_new(
    group: ConsumerGroup,
    request: ConsumerGroupHeartbeatRequest,
    *,
    client_id: str,
    client_host: str,
) -> bool:
    """Would `heartbeat` leave all as it is, and tell the member nothing but that? It has reached
    its target, the target is that of the group's epoch, and the request changes nothing about the
    member. (What it says it owns matters only to one that has not reached its target.)"""
    member_id, epoch = request.member_id, request.member_epoch
    member, current = group.members.get(member_id), group.currents.get(member_id)
    return (
        member is not None
        and current is not None
        and 0 < epoch == current.epoch == group.target_epoch >= group.epoch
        and current.state is MemberState.STABLE
        and request.instance_id in (None, member.instance_id)
        and member.classic is None
        and member.client_id == client_id
        and member.client_host == client_host
        and request.subscribed_topic_names is None
        and request.subscribed_topic_regex is None
        and request.rebalance_timeout_ms == _UNCHANGED
        and request.rack_id is None
        and request.server_assignor is None
    )


def _find_member(
    draft: ConsumerDraft, request: ConsumerGroupHeartbeatRequest, member_id: str
) -> ConsumerMember | None:
    """The member as recorded; nobody, if it is new; `Refused` if it is not who it says."""
    group = draft.group
    if request.instance_id is not None:
        owner = group.statics.get(request.instance_id)
        if owner is not None and owner != member_id:
            return _take_the_place(draft, request, owner, member_id)
        if owner is None and request.member_epoch > 0:
            raise Refused(
                ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {request.instance_id} is unknown."
            )
    member = group.members.get(member_id)
    if member is None:
        if request.member_epoch == 0:
            return None
        raise Refused(
            ErrorCode.UNKNOWN_MEMBER_ID,
            f"Member {member_id} is not a member of group {draft.group_id}.",
        )
    _check_epoch(group.current(member_id), request)
    return member


def _check_epoch(current: Current, request: ConsumerGroupHeartbeatRequest) -> None:
    """The present epoch, or the one before if our answer was lost and the member has not got
    anything that we have not given it. Epoch 0 starts over and is always welcome."""
    epoch = request.member_epoch
    if epoch in (0, current.epoch):
        return
    owned = _owned(request)
    lost_our_answer = (
        epoch == current.previous_epoch and owned is not None and owned <= current.assigned
    )
    if not lost_our_answer:
        raise Refused(
            ErrorCode.FENCED_MEMBER_EPOCH,
            f"Member epoch {epoch} is fenced: the group coordinator has {current.epoch}.",
        )


def _take_the_place(
    draft: ConsumerDraft, request: ConsumerGroupHeartbeatRequest, old_id: str, new_id: str
) -> ConsumerMember:
    """A static member is back, under a new id, and gets what it had. (One that spoke the classic
    protocol before had no way to say that it goes for a while.)"""
    group = draft.group
    if request.member_epoch != 0:
        raise Refused(
            ErrorCode.FENCED_INSTANCE_ID,
            f"Instance id {request.instance_id} belongs to member {old_id}.",
        )
    speaks_classic = group.members[old_id].classic is not None
    if group.current(old_id).epoch != LEAVING_FOR_A_WHILE and not speaks_classic:
        raise Refused(
            ErrorCode.UNRELEASED_INSTANCE_ID,
            f"Instance id {request.instance_id} is still used by member {old_id}.",
        )
    replace_member(draft, old_id, new_id)
    return draft.group.members[new_id]


def replace_member(draft: ConsumerDraft, old_id: str, new_id: str) -> None:
    """The new id stands where the old one stood, with its target and its partitions."""
    old = draft.group.members[old_id]
    target = draft.group.targets.get(old_id)
    current = draft.group.current(old_id)
    draft.erase_member(old_id)
    draft.put_member(dataclasses.replace(old, member_id=new_id))
    if target is not None:
        draft.put_target(new_id, target)
    draft.put_current(new_id, dataclasses.replace(current, epoch=0, previous_epoch=-1))


def _check_size(draft: ConsumerDraft) -> None:
    if len(draft.group.members) >= draft.desk.settings.group_consumer_max_size:
        raise Refused(ErrorCode.GROUP_MAX_SIZE_REACHED, "The group is full.")


def _updated(
    member: ConsumerMember, request: ConsumerGroupHeartbeatRequest, caller: Caller
) -> ConsumerMember:
    """What the request does not say stays as it was."""
    names, regex = request.subscribed_topic_names, request.subscribed_topic_regex
    timeout_ms = request.rebalance_timeout_ms
    return ConsumerMember(
        member_id=member.member_id,
        instance_id=member.instance_id if request.instance_id is None else request.instance_id,
        rack_id=member.rack_id if request.rack_id is None else request.rack_id,
        client_id=caller.client_id,
        client_host=caller.client_host,
        topic_names=member.topic_names if names is None else tuple(sorted(set(names))),
        topic_regex=member.topic_regex if regex is None else (regex or None),
        rebalance_timeout_ms=(
            member.rebalance_timeout_ms if timeout_ms == _UNCHANGED else timeout_ms
        ),
        server_assignor=request.server_assignor or member.server_assignor,
        classic=None,
    )


def _interest(member: ConsumerMember) -> tuple[tuple[str, ...], str | None]:
    return member.topic_names, member.topic_regex


def _owned(request: ConsumerGroupHeartbeatRequest) -> Partitions | None:
    if request.topic_partitions is None:
        return None
    return partitions_of(
        RecordedPartitions(topic_id=topic.topic_id, partitions=topic.partitions)
        for topic in request.topic_partitions
    )


def _answer(
    draft: ConsumerDraft,
    request: ConsumerGroupHeartbeatRequest,
    member_id: str,
    *,
    before: Current,
    current: Current,
) -> ConsumerGroupHeartbeatResponse:
    """With the assignment if it is new, or if the member asks by telling everything about itself
    (as it does on joining, and after it has lost its connection)."""
    is_full_request = (
        request.rebalance_timeout_ms != _UNCHANGED
        and request.topic_partitions is not None
        and (
            request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None
        )
    )
    is_news = request.member_epoch == 0 or is_full_request or before.assigned != current.assigned
    return ConsumerGroupHeartbeatResponse(
        member_id=member_id,
        member_epoch=current.epoch,
        heartbeat_interval_ms=draft.heartbeat_interval_ms(current),
        assignment=_assignment(current.assigned) if is_news else None,
    )


def _assignment(partitions: Partitions) -> Assignment:
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic.topic_id, partitions=topic.partitions)
            for topic in by_topic(partitions)
        ]
    )


def check_leaving(group: ConsumerGroup, request: ConsumerGroupHeartbeatRequest) -> None:
    """`Refused` unless this is a member, and who it says it is."""
    if request.member_id not in group.members:
        raise Refused(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {request.member_id} is unknown.")
    if request.instance_id is None:
        return
    owner = group.statics.get(request.instance_id)
    if owner is None:
        raise Refused(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {request.instance_id} is unknown.")
    if owner != request.member_id:
        raise Refused(
            ErrorCode.FENCED_INSTANCE_ID,
            f"Instance id {request.instance_id} belongs to member {owner}.",
        )


def leave_for_a_while(draft: ConsumerDraft, member_id: str) -> None:
    """A static member: it keeps its partitions until its session is over."""
    current = draft.group.current(member_id)
    draft.put_current(member_id, dataclasses.replace(current, epoch=LEAVING_FOR_A_WHILE))
    draft.heard_of(draft.group.members[member_id])


def remove_members(draft: ConsumerDraft, member_ids: list[str]) -> None:
    """They have left, or are thrown out. The next heartbeat of any other computes a new target."""
    for member_id in member_ids:
        draft.erase_member(member_id)
    draft.refresh_subscriptions(has_changed=True)
