"""JoinGroup: a member comes, comes back, or comes in the place of its former self.

What a join leads to, by who comes:

- *somebody new*: a rebalance begins, or is joined if one is under way. An empty group first waits a
  little for others.
- *a member of the running generation*: it has lost our answer and is told the same again; unless
  its protocols have changed, or it is the leader of a stable group: then a rebalance begins.
- *a member that a rebalance waits for*: it has come.
- *a static member under a new id*: it was restarted. It takes the place of its former self, which
  is fenced. In a stable group it takes the share, too, and nobody else notices.

A new dynamic member of a client that knows KIP-394 is first given an id and has to come again with
it, so that a client that retries on a new connection does not become two members.
"""

from __future__ import annotations

import dataclasses

from tidelog.groups.draft import PENDING, SESSION, Caller, Draft
from tidelog.groups.group import ClassicState
from tidelog.groups.members import (
    Candidate,
    Protocol,
    choose_protocol,
    is_same_interest,
    metadata_for,
    shared_protocols,
)
from tidelog.groups.rebalance import (
    add_candidate,
    all_members,
    joined,
    refuse_join,
    refuse_sync,
)
from tidelog.groups.settings import MAX_PENDING_MEMBERS
from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse


def join(draft: Draft, ticket: int, request: JoinGroupRequest, caller: Caller) -> None:
    error = _refusal(draft, request)
    if error is not ErrorCode.NONE:
        refuse_join(draft, ticket, request.member_id, error)
    elif request.member_id:
        _join_known(draft, ticket, request, caller)
    elif request.group_instance_id is not None:
        _join_static(draft, ticket, request, caller)
    else:
        _join_dynamic(draft, ticket, request, caller)


def _refusal(draft: Draft, request: JoinGroupRequest) -> ErrorCode:
    settings = draft.desk.settings
    lowest, highest = settings.group_min_session_timeout_ms, settings.group_max_session_timeout_ms
    if not request.group_id:
        return ErrorCode.INVALID_GROUP_ID
    if not lowest <= request.session_timeout_ms <= highest:
        return ErrorCode.INVALID_SESSION_TIMEOUT
    if not request.protocol_type or not request.protocols:
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    is_known = draft.knows(request.member_id)
    if request.member_id and not is_known and request.member_id not in draft.group.pending:
        return _why_unknown(draft, request)
    if request.member_id in draft.group.pending and request.group_instance_id is not None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    is_replacing = (
        request.group_instance_id is not None
        and draft.static_member_id(request.group_instance_id) is not None
    )
    if not is_known and not is_replacing and len(draft.everybody()) >= settings.group_max_size:
        return ErrorCode.GROUP_MAX_SIZE_REACHED
    if not _fits(draft, request):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    return ErrorCode.NONE


def _why_unknown(draft: Draft, request: JoinGroupRequest) -> ErrorCode:
    """A static member whose place was taken hears that, and stops; others start over."""
    error = draft.group.check_member(request.member_id, request.group_instance_id)
    return ErrorCode.UNKNOWN_MEMBER_ID if error is ErrorCode.NONE else error


def _fits(draft: Draft, request: JoinGroupRequest) -> bool:
    """Is there a protocol that this member and all others know?"""
    others = [
        protocols
        for one, protocols in zip(draft.everybody(), draft.supported(), strict=True)
        if one.member_id != request.member_id
        and (one.instance_id is None or one.instance_id != request.group_instance_id)
    ]
    if not others:
        return True
    if draft.protocol_type != request.protocol_type:
        return False
    return bool(shared_protocols([_protocols(request), *others]))


def _protocols(request: JoinGroupRequest) -> tuple[Protocol, ...]:
    return tuple(Protocol(protocol.name, protocol.metadata) for protocol in request.protocols)


def _candidate(
    ticket: int, request: JoinGroupRequest, caller: Caller, *, member_id: str
) -> Candidate:
    rebalance_timeout_ms = request.rebalance_timeout_ms
    return Candidate(
        member_id=member_id,
        instance_id=request.group_instance_id,
        client_id=caller.client_id,
        client_host=caller.client_host,
        rebalance_timeout_ms=(
            request.session_timeout_ms if rebalance_timeout_ms < 0 else rebalance_timeout_ms
        ),
        session_timeout_ms=request.session_timeout_ms,
        protocol_type=request.protocol_type,
        protocols=_protocols(request),
        ticket=ticket,
    )


def _join_dynamic(draft: Draft, ticket: int, request: JoinGroupRequest, caller: Caller) -> None:
    member_id = draft.desk.new_member_id(caller.client_id)
    if not caller.requires_member_id:
        add_candidate(draft, _candidate(ticket, request, caller, member_id=member_id))
    elif len(draft.group.pending) >= MAX_PENDING_MEMBERS:
        refuse_join(draft, ticket, "", ErrorCode.COORDINATOR_NOT_AVAILABLE)
    else:
        draft.group.pending[member_id] = None
        draft.arm(PENDING, request.session_timeout_ms, member_id)
        refuse_join(draft, ticket, member_id, ErrorCode.MEMBER_ID_REQUIRED)


def _join_known(draft: Draft, ticket: int, request: JoinGroupRequest, caller: Caller) -> None:
    member_id = request.member_id
    candidate = _candidate(ticket, request, caller, member_id=member_id)
    if member_id in draft.group.pending:
        del draft.group.pending[member_id]
        draft.disarm(PENDING, member_id)
        add_candidate(draft, candidate)
        return
    error = draft.group.check_member(member_id, request.group_instance_id)
    if error is not ErrorCode.NONE:
        refuse_join(draft, ticket, member_id, error)
    elif _has_only_lost_our_answer(draft, candidate):
        draft.heard_of(member_id)
        draft.reply(ticket, joined(draft, member_id))
    else:
        _supersede_ticket(draft, member_id)
        add_candidate(draft, candidate)


def _has_only_lost_our_answer(draft: Draft, candidate: Candidate) -> bool:
    """A member of the running generation that asks for nothing new; a leader always asks for a
    new assignment, since that is the only way for it to say that topics have changed."""
    member = draft.generation.members.get(candidate.member_id)
    if member is None or draft.group.protocols_of(member) != candidate.protocols:
        return False
    if draft.state is ClassicState.COMPLETING_REBALANCE:
        return True
    is_leader = draft.generation.leader == candidate.member_id
    return draft.state is ClassicState.STABLE and not is_leader


def _supersede_ticket(draft: Draft, member_id: str) -> None:
    """The member asks again while its first question waits: only the last one counts."""
    waiting = draft.candidate(member_id)
    if waiting is not None and waiting.ticket is not None:
        refuse_join(draft, waiting.ticket, member_id, ErrorCode.REBALANCE_IN_PROGRESS)


def _join_static(draft: Draft, ticket: int, request: JoinGroupRequest, caller: Caller) -> None:
    assert request.group_instance_id is not None
    member_id = draft.desk.new_member_id(request.group_instance_id)
    candidate = _candidate(ticket, request, caller, member_id=member_id)
    old_id = draft.static_member_id(request.group_instance_id)
    if old_id is None:
        add_candidate(draft, candidate)
        return
    _fence(draft, old_id)
    keeps_its_share = _keeps_its_share(draft, old_id, candidate)
    old_leader = draft.generation.leader
    _take_the_place(draft, old_id, candidate)
    if keeps_its_share:
        _welcome_back(draft, candidate, caller, old_leader=old_leader)
    else:
        add_candidate(draft, candidate)


def _fence(draft: Draft, old_id: str) -> None:
    """Whoever had this instance id before must stop."""
    waiting = draft.candidate(old_id)
    if waiting is not None:
        refuse_join(draft, waiting.ticket, old_id, ErrorCode.FENCED_INSTANCE_ID)
    refuse_sync(draft, old_id, ErrorCode.FENCED_INSTANCE_ID)


def _keeps_its_share(draft: Draft, old_id: str, candidate: Candidate) -> bool:
    """A restart changes nothing: same topics, and the vote on the protocol comes out the same."""
    member = draft.generation.members.get(old_id)
    protocol = draft.generation.protocol
    if draft.state is not ClassicState.STABLE or member is None or protocol is None:
        return False
    others = [
        draft.group.protocols_of(other)
        for other in draft.generation.members.values()
        if other.member_id != old_id
    ]
    return choose_protocol([*others, candidate.protocols]) == protocol and is_same_interest(
        draft.generation.protocol_type,
        member.subscription,
        metadata_for(protocol, candidate.protocols),
    )


def _take_the_place(draft: Draft, old_id: str, candidate: Candidate) -> None:
    """The new id stands where the old one stood, with its share."""
    group = draft.group
    new_id = candidate.member_id
    if group.gathering is not None:
        group.gathering.take(old_id)
    draft.disarm(SESSION, old_id)
    group.supported.pop(old_id, None)
    group.unsynced.pop(old_id, None)
    old = draft.generation.members.get(old_id)
    if old is None:
        return
    group.supported[new_id] = candidate.protocols
    replaced = dataclasses.replace(
        candidate.member(draft.generation.protocol or ""), assignment=old.assignment
    )
    leader = draft.generation.leader
    draft.change(
        members={
            (new_id if member_id == old_id else member_id): (
                replaced if member_id == old_id else member
            )
            for member_id, member in draft.generation.members.items()
        },
        leader=new_id if leader == old_id else leader,
    )


def _welcome_back(
    draft: Draft, candidate: Candidate, caller: Caller, *, old_leader: str | None
) -> None:
    """The present generation, without a rebalance.

    A leader that came back must not assign anew. Clients that know KIP-814 are told so; to older
    ones we name their former id as the leader, so that they take themselves for a follower.
    """
    draft.heard_of(candidate.member_id)
    response: JoinGroupResponse = joined(draft, candidate.member_id)
    is_leader = draft.generation.leader == candidate.member_id
    if is_leader and caller.may_skip_assignment:
        response.skip_assignment = True
        response.members = all_members(draft)
    elif is_leader:
        response.leader = old_leader or ""
        response.members = []
    draft.reply(candidate.ticket, response)
