"""The newer groups of a coordinator: requests and timers to decisions, records to state.

Members of either protocol may be in such a group; those of the classic one are served by
`classic_members.py`. When members go, the group may go back to the classic protocol: then the
classic group that it becomes is handed to `on_downgrade`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from tidelog.groups import classic_members
from tidelog.groups.classic import leaving_members, left
from tidelog.groups.consumer_draft import REVOCATION, ConsumerDraft
from tidelog.groups.consumer_group import LEAVING, ConsumerGroup, MemberState
from tidelog.groups.consumer_heartbeat import (
    Refused,
    check_leaving,
    heartbeat,
    leave_for_a_while,
    remove_members,
    says_nothing_new,
)
from tidelog.groups.decision import Decision
from tidelog.groups.draft import SESSION, Caller, Desk
from tidelog.groups.group import ClassicGroup
from tidelog.groups.migration import downgrade, may_downgrade
from tidelog.groups.records import ConsumerGroupMetadataKey, ConsumerKey
from tidelog.groups.timers import TimerKey
from tidelog.model.clock import Now
from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from tidelog.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from tidelog.wire.messages.join_group import JoinGroupRequest
from tidelog.wire.messages.leave_group import LeaveGroupRequest
from tidelog.wire.messages.offset_commit import OffsetCommitRequest
from tidelog.wire.messages.offset_fetch import OffsetFetchRequestGroup
from tidelog.wire.messages.sync_group import SyncGroupRequest


class ConsumerGroups:
    """All newer groups of one coordinator, by id."""

    def __init__(self, desk: Desk, on_downgrade: Callable[[ClassicGroup], None]) -> None:
        self._desk = desk
        self._on_downgrade = on_downgrade
        self._groups: dict[str, ConsumerGroup] = {}
        self._topics_seen: dict[str, int] = {}
        """The version of the topics at which each group last looked at them."""

    def __contains__(self, group_id: str) -> bool:
        return group_id in self._groups

    def get(self, group_id: str) -> ConsumerGroup | None:
        return self._groups.get(group_id)

    def count(self) -> int:
        return len(self._groups)

    def all(self) -> list[ConsumerGroup]:
        return list(self._groups.values())

    def replay(self, key: ConsumerKey, value: Any) -> None:
        group_id = key.group_id
        if isinstance(key, ConsumerGroupMetadataKey) and value is None:
            self._groups.pop(group_id, None)
            self._topics_seen.pop(group_id, None)
            return
        group = self._groups.get(group_id)
        if group is None and value is not None:
            group = self._groups[group_id] = ConsumerGroup(group_id)
        if group is not None:
            group.apply(key, value)

    def loaded(self, now: Now) -> None:
        """Every member gets a full session, and full time to revoke, from now."""
        for group in self._groups.values():
            draft = ConsumerDraft(self._desk, now, group)
            for member in group.members.values():
                draft.heard_of(member)
                if group.current(member.member_id).state is MemberState.UNREVOKED_PARTITIONS:
                    draft.arm(REVOCATION, member.rebalance_timeout_ms, member.member_id)

    def draft(self, now: Now, group_id: str) -> ConsumerDraft:
        group = self._groups.get(group_id) or ConsumerGroup(group_id)
        return ConsumerDraft(self._desk, now, group)

    # Members of the newer protocol.

    def heartbeat(
        self,
        draft: ConsumerDraft,
        ticket: int,
        request: ConsumerGroupHeartbeatRequest,
        caller: Caller,
    ) -> Decision:
        try:
            response = self._heartbeat(draft, request, caller)
        except Refused as refusal:
            response = refused(refusal)
        draft.decision.reply(ticket, response)
        return draft.decision

    def answer_heartbeat(
        self, now: Now, request: ConsumerGroupHeartbeatRequest, *, client_id: str, client_host: str
    ) -> ConsumerGroupHeartbeatResponse | None:
        """Of a member that says only that it lives, and has nothing to hear; None of any other."""
        group = self._groups.get(request.group_id)
        topics = self._desk.topics
        if (
            group is None
            or self._topics_seen.get(request.group_id) != topics.version
            or not says_nothing_new(group, request, client_id=client_id, client_host=client_host)
        ):
            return None
        settings, own = self._desk.settings, topics.group_configs(request.group_id)
        self._desk.timers.arm(
            TimerKey(SESSION, request.group_id, request.member_id),
            now.monotonic_ms + settings.session_timeout_ms(own),
        )
        return ConsumerGroupHeartbeatResponse(
            member_id=request.member_id,
            member_epoch=request.member_epoch,
            heartbeat_interval_ms=settings.heartbeat_interval_ms(own),
        )

    def _heartbeat(
        self, draft: ConsumerDraft, request: ConsumerGroupHeartbeatRequest, caller: Caller
    ) -> ConsumerGroupHeartbeatResponse:
        if request.member_epoch < 0:
            check_leaving(draft.group, request)
            if request.member_epoch == LEAVING:
                self._remove(draft, [request.member_id])
            else:
                leave_for_a_while(draft, request.member_id)
            return ConsumerGroupHeartbeatResponse(
                member_id=request.member_id, member_epoch=request.member_epoch
            )
        version = self._desk.topics.version
        is_refresh_due = self._topics_seen.get(request.group_id) != version
        response = heartbeat(draft, request, caller, is_refresh_due=is_refresh_due)
        self._topics_seen[request.group_id] = version
        return response

    # Members of the classic protocol.

    def join_group(
        self, now: Now, ticket: int, request: JoinGroupRequest, caller: Caller
    ) -> Decision:
        draft = self.draft(now, request.group_id)
        response = classic_members.join(draft, request, caller)
        draft.decision.reply(ticket, response)
        return draft.decision

    def sync_group(self, now: Now, ticket: int, request: SyncGroupRequest) -> Decision:
        draft = self.draft(now, request.group_id)
        draft.decision.reply(ticket, classic_members.sync(draft, request))
        return draft.decision

    def classic_heartbeat(self, now: Now, request: HeartbeatRequest) -> HeartbeatResponse:
        draft = self.draft(now, request.group_id)
        error = classic_members.heartbeat(draft, request)
        assert not draft.decision.records, "a heartbeat decides nothing"
        return HeartbeatResponse(error_code=error)

    def leave_group(self, now: Now, ticket: int, request: LeaveGroupRequest) -> Decision:
        draft = self.draft(now, request.group_id)
        identities = leaving_members(request)
        errors, leaving = classic_members.leave(draft.group, identities)
        if leaving:
            self._remove(draft, leaving)
        draft.decision.reply(ticket, left(request, identities, errors))
        return draft.decision

    # All members.

    def timers_fired(self, draft: ConsumerDraft, keys: Iterable[TimerKey]) -> Decision:
        """Throw out whose session is over, and who has not given up its partitions (or, of the
        classic protocol, not joined or synced) in time."""
        late = [
            key.subject
            for key in keys
            if key not in self._desk.timers and key.subject in draft.group.members
        ]
        if late:
            self._remove(draft, list(dict.fromkeys(late)))
        return draft.decision

    def _remove(self, draft: ConsumerDraft, member_ids: list[str]) -> None:
        if may_downgrade(self._desk, draft.group, member_ids):
            self._on_downgrade(downgrade(draft, member_ids))
        else:
            remove_members(draft, member_ids)

    # Who may do what with offsets.

    def check_commit(self, request: OffsetCommitRequest) -> ErrorCode:
        """Members at their present epoch; without members, anybody who claims to be none."""
        group = self._groups[request.group_id]
        epoch = request.generation_id_or_member_epoch
        if not group.members and epoch < 0:
            return ErrorCode.NONE
        if request.group_instance_id is not None:
            owner = group.statics.get(request.group_instance_id)
            if owner is not None and owner != request.member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        member = group.members.get(request.member_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if group.current(request.member_id).epoch == epoch:
            return ErrorCode.NONE
        speaks_classic = member.classic is not None
        return ErrorCode.ILLEGAL_GENERATION if speaks_classic else ErrorCode.STALE_MEMBER_EPOCH

    def check_fetch(self, request: OffsetFetchRequestGroup) -> ErrorCode:
        """A member that says who it is must be up to date; others may read."""
        group = self._groups[request.group_id]
        if not request.member_id and request.member_epoch < 0:
            return ErrorCode.NONE
        if request.member_id not in group.members:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if group.current(request.member_id).epoch != request.member_epoch:
            return ErrorCode.STALE_MEMBER_EPOCH
        return ErrorCode.NONE


def refused(refusal: Refused) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(error_code=refusal.error, error_message=refusal.message)
