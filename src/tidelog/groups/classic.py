"""The classic groups of a coordinator: requests and timers to decisions, records to state."""

from __future__ import annotations

from tidelog.groups.decision import Decision
from tidelog.groups.draft import PENDING, REBALANCE, SESSION, SYNC, Caller, Desk, Draft
from tidelog.groups.group import NO_GENERATION, ClassicGroup, ClassicState, Generation
from tidelog.groups.joining import join
from tidelog.groups.members import subscribed_topics
from tidelog.groups.rebalance import begin_without_candidate, forget_pending, rebalance_time_is_up
from tidelog.groups.records import GroupMetadataKey, GroupMetadataValue
from tidelog.groups.syncing import (
    leave,
    session_is_over,
    sync,
    sync_time_is_up,
)
from tidelog.groups.timers import TimerKey
from tidelog.model.clock import Now
from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.consumer_protocol import PROTOCOL_TYPE
from tidelog.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from tidelog.wire.messages.join_group import JoinGroupRequest
from tidelog.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from tidelog.wire.messages.leave_group import MemberResponse as LeaveMemberResponse
from tidelog.wire.messages.offset_commit import OffsetCommitRequest
from tidelog.wire.messages.sync_group import SyncGroupRequest


class ClassicGroups:
    """All classic groups of one coordinator, by id."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._groups: dict[str, ClassicGroup] = {}

    def get(self, group_id: str) -> ClassicGroup | None:
        return self._groups.get(group_id)

    def count(self) -> int:
        return len(self._groups)

    def all(self) -> list[ClassicGroup]:
        return list(self._groups.values())

    def adopt(self, group: ClassicGroup) -> None:
        """A group that has just become a classic one; its record is on its way."""
        self._groups[group.group_id] = group

    def forget_if_void(self, group_id: str) -> None:
        group = self._groups.get(group_id)
        if group is not None and group.is_void:
            del self._groups[group_id]

    def replay(self, key: GroupMetadataKey, value: GroupMetadataValue | None) -> None:
        group = self._groups.get(key.group)
        if value is not None:
            if group is None:
                group = self._groups[key.group] = ClassicGroup(key.group)
            group.generation = Generation.of_record(value)
            group.is_recorded = True
        elif group is not None:
            group.generation = NO_GENERATION
            group.is_recorded = False
            self.forget_if_void(key.group)

    def loaded(self, now: Now) -> None:
        """Every member gets a full session from now; unfinished rebalances begin anew."""
        for group in self._groups.values():
            draft = Draft(self._desk, now, group)
            for member_id in group.generation.members:
                draft.heard_of(member_id)
            if draft.state is ClassicState.COMPLETING_REBALANCE:
                begin_without_candidate(draft)
            assert not draft.close().records, "a start decides nothing"

    # Requests.

    def join_group(
        self,
        now: Now,
        ticket: int,
        request: JoinGroupRequest,
        caller: Caller,
        *,
        last_epoch: int = 0,
    ) -> Decision:
        """`last_epoch`: of the group of the newer protocol in whose place this one comes, unless
        the join is refused. Generations go on from there."""
        draft = self._draft(now, request.group_id)
        if last_epoch:
            inherited = Generation(generation=last_epoch, state_timestamp=now.wall_ms)
            draft.generation = inherited
        join(draft, ticket, request, caller)
        if last_epoch and draft.generation is inherited and draft.group.is_void:
            draft.generation = draft.group.generation
        return self._close(draft)

    def sync_group(self, now: Now, ticket: int, request: SyncGroupRequest) -> Decision:
        draft = self._draft(now, request.group_id)
        sync(draft, ticket, request)
        return self._close(draft)

    def heartbeat(self, now: Now, request: HeartbeatRequest) -> HeartbeatResponse:
        group = self._groups.get(request.group_id)
        if group is None:
            return HeartbeatResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID)
        error = group.answer_heartbeat(request)
        if error is ErrorCode.NONE or error is ErrorCode.REBALANCE_IN_PROGRESS:
            self._desk.restart_session(now, group.group_id, group.member(request.member_id))
        return HeartbeatResponse(error_code=error)

    def leave_group(self, now: Now, ticket: int, request: LeaveGroupRequest) -> Decision:
        draft = self._draft(now, request.group_id)
        identities = leaving_members(request)
        draft.reply(ticket, left(request, identities, leave(draft, identities)))
        return self._close(draft)

    def check_commit(self, now: Now, request: OffsetCommitRequest) -> ErrorCode:
        """May the caller commit? Members of the present generation, and, where there are no
        members, anybody who does not claim to be one."""
        group = self._groups.get(request.group_id) or ClassicGroup(request.group_id)
        generation, state = request.generation_id_or_member_epoch, group.state
        claims_membership = (
            generation >= 0 or bool(request.member_id) or request.group_instance_id is not None
        )
        if state is ClassicState.EMPTY and generation < 0:
            return ErrorCode.NONE
        if not claims_membership:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if not group.is_recorded and group.is_void:
            return ErrorCode.ILLEGAL_GENERATION
        error = group.check_generation(request.member_id, request.group_instance_id, generation)
        if error is not ErrorCode.NONE:
            return error
        if state is ClassicState.COMPLETING_REBALANCE:
            return ErrorCode.REBALANCE_IN_PROGRESS
        self._desk.restart_session(now, group.group_id, group.member(request.member_id))
        return ErrorCode.NONE

    def abandon(self, group_id: str, ticket: int) -> None:
        """The connection is gone: nobody hears the answer, but a member may come back for it."""
        group = self._groups.get(group_id)
        if group is None:
            return
        if group.gathering is not None:
            for candidate in group.gathering.candidates.values():
                if candidate.ticket == ticket:
                    candidate.ticket = None
        for member_id, waiting in list(group.sync_tickets.items()):
            if waiting == ticket:
                del group.sync_tickets[member_id]

    def timers_fired(self, now: Now, group_id: str, keys: list[TimerKey]) -> Decision:
        """All that is due in one group at once: one record tells the outcome."""
        draft = self._draft(now, group_id)
        for key in keys:
            if key in self._desk.timers:
                continue  # one of the others has just postponed it
            if key.kind == SESSION:
                session_is_over(draft, key.subject)
            elif key.kind == PENDING:
                forget_pending(draft, key.subject)
            elif key.kind == REBALANCE:
                rebalance_time_is_up(draft)
            elif key.kind == SYNC:
                sync_time_is_up(draft)
        return self._close(draft)

    def _draft(self, now: Now, group_id: str) -> Draft:
        return Draft(self._desk, now, self._groups.get(group_id) or ClassicGroup(group_id))

    def _close(self, draft: Draft) -> Decision:
        """Groups live as long as anything is known of them, or is about to be."""
        decision, group = draft.close(), draft.group
        if decision.records or not group.is_void:
            self._groups[group.group_id] = group
        else:
            self._groups.pop(group.group_id, None)
        return decision


def subscriptions(group: ClassicGroup) -> frozenset[str] | None:
    """The topics that any member reads; `None` if that can't be known."""
    generation = group.generation
    said = [(generation.protocol_type, m.subscription) for m in generation.members.values()]
    if group.gathering is not None:
        for candidate in group.gathering.candidates.values():
            said += [
                (candidate.protocol_type, protocol.metadata) for protocol in candidate.protocols
            ]
    topics: frozenset[str] = frozenset()
    for protocol_type, metadata in said:
        own = subscribed_topics(protocol_type, metadata)
        if own is None:
            return None
        topics |= own
    return topics


def has_consumers_only(group: ClassicGroup) -> bool:
    return group.generation.protocol_type == PROTOCOL_TYPE


def leaving_members(request: LeaveGroupRequest) -> list[MemberIdentity]:
    """Old versions name one member, in a field of its own."""
    return request.members or [MemberIdentity(member_id=request.member_id)]


def left(
    request: LeaveGroupRequest, identities: list[MemberIdentity], errors: list[ErrorCode]
) -> LeaveGroupResponse:
    if not request.members:
        return LeaveGroupResponse(error_code=errors[0])
    return LeaveGroupResponse(
        members=[
            LeaveMemberResponse(
                member_id=identity.member_id,
                group_instance_id=identity.group_instance_id,
                error_code=error,
            )
            for identity, error in zip(identities, errors, strict=True)
        ]
    )
