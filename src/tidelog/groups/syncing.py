"""SyncGroup and LeaveGroup: the life of a member between two joins."""

from __future__ import annotations

import dataclasses

from tidelog.groups.draft import SYNC, Draft
from tidelog.groups.group import ClassicState, check_step
from tidelog.groups.rebalance import forget_pending, remove_members
from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.leave_group import MemberIdentity
from tidelog.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse


def sync(draft: Draft, ticket: int, request: SyncGroupRequest) -> None:
    """The leader brings the assignments; every member waits for them, or gets its own."""
    error = _sync_refusal(draft, request)
    if error is not ErrorCode.NONE:
        draft.reply(ticket, SyncGroupResponse(error_code=error))
        return
    group, member_id = draft.group, request.member_id
    draft.heard_of(member_id)
    group.unsynced.pop(member_id, None)
    if draft.state is ClassicState.COMPLETING_REBALANCE:
        superseded = group.sync_tickets.get(member_id)
        if superseded is not None:
            refusal = SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)
            draft.reply(superseded, refusal)
        group.sync_tickets[member_id] = ticket
        if member_id == draft.generation.leader:
            _settle(draft, request)
    else:
        draft.reply(ticket, _share(draft, member_id))
    if not group.unsynced:
        draft.disarm(SYNC)


def _sync_refusal(draft: Draft, request: SyncGroupRequest) -> ErrorCode:
    error = draft.group.check_generation(
        request.member_id, request.group_instance_id, request.generation_id
    )
    if error is not ErrorCode.NONE:
        return error
    generation = draft.generation
    if request.protocol_type not in (None, generation.protocol_type):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if request.protocol_name not in (None, generation.protocol):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if draft.state is ClassicState.PREPARING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def _settle(draft: Draft, request: SyncGroupRequest) -> None:
    """The leader has spoken: whom it forgot gets nothing, and everybody who waits is answered."""
    shares = {one.member_id: one.assignment for one in request.assignments}
    draft.change(
        members={
            member_id: dataclasses.replace(member, assignment=shares.get(member_id, b""))
            for member_id, member in draft.generation.members.items()
        },
        is_settled=True,
    )
    check_step(ClassicState.COMPLETING_REBALANCE, draft.state)
    tickets = draft.group.sync_tickets
    for member_id in list(tickets):
        draft.heard_of(member_id)
        draft.reply(tickets.pop(member_id), _share(draft, member_id))


def _share(draft: Draft, member_id: str) -> SyncGroupResponse:
    generation = draft.generation
    return SyncGroupResponse(
        protocol_type=generation.protocol_type,
        protocol_name=generation.protocol,
        assignment=generation.members[member_id].assignment,
    )


def sync_time_is_up(draft: Draft) -> None:
    """Members that joined and never asked for their share are not reading: away with them."""
    remove_members(draft, list(draft.group.unsynced))


def leave(draft: Draft, identities: list[MemberIdentity]) -> list[ErrorCode]:
    """What became of each; those who could go have gone together."""
    errors, leaving = [], []
    for identity in identities:
        error, member_id = _who_leaves(draft, identity)
        errors.append(error)
        if error is ErrorCode.NONE and member_id not in leaving:
            leaving.append(member_id)
    pending = [member_id for member_id in leaving if member_id in draft.group.pending]
    for member_id in pending:
        forget_pending(draft, member_id)
    gone = [member_id for member_id in leaving if draft.knows(member_id)]
    if gone:
        remove_members(draft, gone)
    return errors


def _who_leaves(draft: Draft, identity: MemberIdentity) -> tuple[ErrorCode, str]:
    """A tool that sends a static member away knows only its instance id."""
    if identity.group_instance_id is not None and not identity.member_id:
        owner = draft.static_member_id(identity.group_instance_id)
        return (ErrorCode.NONE, owner) if owner else (ErrorCode.UNKNOWN_MEMBER_ID, "")
    if identity.member_id in draft.group.pending:
        return ErrorCode.NONE, identity.member_id
    error = draft.group.check_member(identity.member_id, identity.group_instance_id)
    return error, identity.member_id


def session_is_over(draft: Draft, member_id: str) -> None:
    """Dead, unless it waits for us: then it can't be expected to send anything."""
    candidate = draft.candidate(member_id)
    is_waiting = candidate is not None and candidate.ticket is not None
    if is_waiting or member_id in draft.group.sync_tickets:
        draft.heard_of(member_id)
    elif draft.knows(member_id):
        remove_members(draft, [member_id])
