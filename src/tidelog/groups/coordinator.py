"""The coordinator of the groups of one partition of `__consumer_offsets`.

The broker calls one method per request, appends the decision's records in one batch, replays them,
and lets the replies go when the log is committed. If the append fails, nothing of the decision is
true. Some decisions can be forgotten then (`is_retractable`); after any other the broker answers
everybody who waits with an error they retry, and builds the coordinator anew from the log.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

from tidelog.groups.consumer import refused
from tidelog.groups.consumer_draft import ConsumerDraft
from tidelog.groups.consumer_heartbeat import Refused, check_request
from tidelog.groups.decision import Decision
from tidelog.groups.draft import Caller, Desk
from tidelog.groups.migration import erased, is_undecided, may_upgrade, take_over, upgrade
from tidelog.groups.records import GroupMetadataKey, OffsetCommitKey, read_record
from tidelog.groups.registry import Registry
from tidelog.groups.settings import GroupSettings
from tidelog.groups.timers import TimerKey, Timers
from tidelog.groups.topics import Topics
from tidelog.groups.views import describe_classic, describe_consumer, refused_commit
from tidelog.model.clock import Now
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import TopicPartition
from tidelog.model.safeguards import ALL_SAFEGUARDS, Safeguard
from tidelog.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from tidelog.wire.messages.delete_groups import DeletableGroupResult
from tidelog.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from tidelog.wire.messages.join_group import JoinGroupRequest
from tidelog.wire.messages.leave_group import LeaveGroupRequest
from tidelog.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from tidelog.wire.messages.offset_commit import OffsetCommitRequest
from tidelog.wire.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from tidelog.wire.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchResponseGroup
from tidelog.wire.messages.sync_group import SyncGroupRequest
from tidelog.wire.records import Header

_EXPIRY = TimerKey("expiry", "")
_LONG_AGO = float("-inf")


class Coordinator:
    """Groups and offsets. See the package for what is recorded and what is not."""

    def __init__(
        self,
        settings: GroupSettings,
        random: Random,
        topics: Topics,
        *,
        safeguards: frozenset[Safeguard] = ALL_SAFEGUARDS,
    ) -> None:
        self._settings = settings
        self._topics = topics
        self.timers: Timers[TimerKey] = Timers()
        self._desk = Desk(settings, random, self.timers, topics)
        self._groups = Registry(
            self._desk, keeps_live_offsets=Safeguard.LIVE_GROUPS_REMEMBER in safeguards
        )
        self._fences_commits = Safeguard.GENERATION_FENCE in safeguards
        self._waiting: dict[int, str] = {}
        """The group at which each waiting request waits."""
        self._topics_seen = topics.version

    # --- members of the classic protocol --------------------------------------------------------

    def join_group(
        self,
        now: Now,
        ticket: int,
        request: JoinGroupRequest,
        *,
        client_id: str,
        client_host: str,
        requires_member_id: bool,
        may_skip_assignment: bool = False,
    ) -> Decision:
        """`requires_member_id`: v4 and later; `may_skip_assignment`: v9 and later."""
        caller = Caller(client_id, client_host, requires_member_id, may_skip_assignment)
        newer = self._groups.consumers.get(request.group_id)
        if newer is not None and newer.members:
            return self._groups.consumers.join_group(now, ticket, request, caller)
        decision = self._groups.classic.join_group(
            now, ticket, request, caller, last_epoch=newer.epoch if newer else 0
        )
        if newer is not None and self._groups.classic.get(request.group_id) is not None:
            decision.records[:0] = erased(self._desk, now, newer)
        return self._sent(decision, ticket, request.group_id)

    def sync_group(self, now: Now, ticket: int, request: SyncGroupRequest) -> Decision:
        if request.group_id in self._groups.consumers:
            return self._groups.consumers.sync_group(now, ticket, request)
        decision = self._groups.classic.sync_group(now, ticket, request)
        return self._sent(decision, ticket, request.group_id)

    def heartbeat(self, now: Now, ticket: int, request: HeartbeatRequest) -> Decision:
        decision = Decision()
        decision.reply(ticket, self.answer_heartbeat(now, request))
        return decision

    def answer_heartbeat(self, now: Now, request: HeartbeatRequest) -> HeartbeatResponse:
        """Nothing is decided by it: the session starts over, and the member hears what is so."""
        if request.group_id in self._groups.consumers:
            return self._groups.consumers.classic_heartbeat(now, request)
        return self._groups.classic.heartbeat(now, request)

    def leave_group(self, now: Now, ticket: int, request: LeaveGroupRequest) -> Decision:
        if request.group_id in self._groups.consumers:
            return self._groups.consumers.leave_group(now, ticket, request)
        return self._sent(self._groups.classic.leave_group(now, ticket, request))

    # --- members of the newer protocol ----------------------------------------------------------

    def consumer_group_heartbeat(
        self,
        now: Now,
        ticket: int,
        request: ConsumerGroupHeartbeatRequest,
        *,
        client_id: str,
        client_host: str,
    ) -> Decision:
        draft = self._groups.consumers.draft(now, request.group_id)
        try:
            check_request(request, self._settings.group_consumer_assignors)
            if request.group_id not in self._groups.consumers:
                self._found(draft, request)
        except Refused as refusal:
            draft.decision.reply(ticket, refused(refusal))
            return draft.decision
        caller = Caller(client_id, client_host)
        return self._sent(self._groups.consumers.heartbeat(draft, ticket, request, caller))

    def answer_consumer_heartbeat(
        self, now: Now, request: ConsumerGroupHeartbeatRequest, *, client_id: str, client_host: str
    ) -> ConsumerGroupHeartbeatResponse | None:
        """If nothing is to be decided because of it, as of most."""
        return self._groups.consumers.answer_heartbeat(
            now, request, client_id=client_id, client_host=client_host
        )

    def _found(self, draft: ConsumerDraft, request: ConsumerGroupHeartbeatRequest) -> None:
        """A first member makes a group of the newer protocol, perhaps of a classic one."""
        if request.member_epoch != 0:
            message = f"Group {request.group_id} has no member {request.member_id}."
            raise Refused(ErrorCode.UNKNOWN_MEMBER_ID, message)
        classic = self._groups.classic.get(request.group_id)
        if classic is None:
            return
        if is_undecided(classic):
            take_over(draft, classic)
        elif may_upgrade(self._desk, classic):
            upgrade(draft, classic)
        else:
            message = f"Group {request.group_id} is not a consumer group."
            raise Refused(ErrorCode.GROUP_ID_NOT_FOUND, message)
        self._groups.classic.forget_if_void(request.group_id)

    # --- offsets --------------------------------------------------------------------------------

    def offset_commit(self, now: Now, ticket: int, request: OffsetCommitRequest) -> Decision:
        decision = Decision(is_retractable=True)
        error = self._groups.check_commit(now, request)
        if error is not ErrorCode.NONE and self._fences_commits:
            decision.reply(ticket, refused_commit(request, error))
            return decision
        decision.records, response = self._groups.offsets.commit(
            request,
            wall_ms=now.wall_ms,
            max_metadata_bytes=self._settings.offset_metadata_max_bytes,
        )
        decision.reply(ticket, response)
        return decision

    def offset_fetch(self, now: Now, ticket: int, request: OffsetFetchRequestGroup) -> Decision:
        """One group's part of an OffsetFetch; the reply is an `OffsetFetchResponseGroup`."""
        decision = Decision()
        error = ErrorCode.NONE
        if request.group_id in self._groups.consumers:
            error = self._groups.consumers.check_fetch(request)
        if error is ErrorCode.NONE:
            decision.reply(ticket, self._groups.offsets.fetch(request))
        else:
            refusal = OffsetFetchResponseGroup(group_id=request.group_id, error_code=error)
            decision.reply(ticket, refusal)
        return decision

    def offset_delete(self, now: Now, ticket: int, request: OffsetDeleteRequest) -> Decision:
        decision = Decision(is_retractable=True)
        error = self._groups.may_delete_offsets(request.group_id)
        if error is not ErrorCode.NONE:
            decision.reply(ticket, OffsetDeleteResponse(error_code=error))
            return decision
        subscribed = self._groups.subscribed(request.group_id)
        decision.records, response = self._groups.offsets.delete(request, subscribed)
        decision.reply(ticket, response)
        return decision

    # --- administration -------------------------------------------------------------------------

    def list_groups(
        self,
        now: Now,
        ticket: int,
        request: ListGroupsRequest,
        group_ids: Sequence[str] | None = None,
    ) -> Decision:
        """Of all groups, or of some that were there a moment ago."""
        decision = Decision()
        decision.reply(ticket, ListGroupsResponse(groups=self._groups.listed(request, group_ids)))
        return decision

    def group_ids(self) -> list[str]:
        return self._groups.group_ids()

    def most_groups(self) -> int:
        return self._groups.most_groups()

    def describe_group(self, now: Now, ticket: int, group_id: str) -> Decision:
        """Of a classic group; the reply is a `describe_groups.DescribedGroup`. A group that is not
        there is described as dead *and* with GROUP_ID_NOT_FOUND, of which versions before 6 must
        not hear."""
        decision = Decision()
        is_known = self._groups.exists(group_id) and group_id not in self._groups.consumers
        classic = self._groups.classic.get(group_id)
        decision.reply(ticket, describe_classic(group_id, classic, is_known))
        return decision

    def consumer_group_describe(self, now: Now, ticket: int, group_id: str) -> Decision:
        """Of a newer group; the reply is a `consumer_group_describe.DescribedGroup`."""
        decision = Decision()
        group = self._groups.consumers.get(group_id)
        assignor = "" if group is None else ConsumerDraft(self._desk, now, group).assignor()
        response = describe_consumer(group_id, group, self._topics, assignor=assignor)
        decision.reply(ticket, response)
        return decision

    def delete_group(self, now: Now, ticket: int, group_id: str) -> Decision:
        """The reply is a `DeletableGroupResult`."""
        decision = Decision()
        error = ErrorCode.NONE
        if not self._groups.exists(group_id):
            error = ErrorCode.GROUP_ID_NOT_FOUND
        elif not self._groups.is_empty(group_id):
            error = ErrorCode.NON_EMPTY_GROUP
        else:
            decision.records = self._groups.tombstones(now, group_id)
        decision.reply(ticket, DeletableGroupResult(group_id=group_id, error_code=error))
        return decision

    def read_by_groups(self, partition: TopicPartition) -> list[int]:
        """See `Registry.read_by_groups`; for `cleanup.policy=consumed`."""
        return self._groups.read_by_groups(partition)

    # --- time -----------------------------------------------------------------------------------

    def abandon(self, ticket: int) -> None:
        """The connection is gone: nobody hears the reply."""
        group_id = self._waiting.pop(ticket, None)
        if group_id is not None:
            self._groups.classic.abandon(group_id, ticket)

    def waiting_tickets(self) -> list[int]:
        return list(self._waiting)

    def next_deadline(self) -> float | None:
        """On the monotonic clock; long ago, if the topics have changed since the last tick."""
        if self._topics.version != self._topics_seen:
            return _LONG_AGO
        return self.timers.next_deadline()

    def tick(self, now: Now, *, expires: bool = True) -> Decision:
        """`expires`: the wall clock is believed, so what is too old may be forgotten."""
        due: dict[str, list[TimerKey]] = {}
        decision = Decision()
        is_expiry_due = False
        for key in self.timers.take_due(now.monotonic_ms):
            if key == _EXPIRY:
                is_expiry_due = True
            else:
                due.setdefault(key.group_id, []).append(key)
        for group_id, keys in due.items():
            decision.add(self._timers_fired(now, group_id, keys))
        if is_expiry_due:
            self._arm_expiry(now)
            if expires:
                decision.records += self._groups.expire(now)
        if self._topics.version != self._topics_seen:
            self._topics_seen = self._topics.version
            decision.records += self._groups.forget_vanished_topics()
        return self._sent(decision)

    def _timers_fired(self, now: Now, group_id: str, keys: list[TimerKey]) -> Decision:
        if group_id in self._groups.consumers:
            draft = self._groups.consumers.draft(now, group_id)
            return self._groups.consumers.timers_fired(draft, keys)
        return self._groups.classic.timers_fired(now, group_id, keys)

    def _arm_expiry(self, now: Now) -> None:
        interval_ms = self._settings.offsets_retention_check_interval_ms
        self.timers.arm(_EXPIRY, now.monotonic_ms + interval_ms)

    # --- state ----------------------------------------------------------------------------------

    def replay(
        self,
        key: bytes,
        value: bytes | None,
        headers: Sequence[Header] = (),
        content: tuple[Any, Any] | None = None,
    ) -> None:
        """The only way in which recorded state changes. `content`: see `GroupRecord`."""
        found = read_record(key, value, headers) if content is None else content
        if found is None:
            return
        read_key, read_value = found
        if isinstance(read_key, OffsetCommitKey):
            self._groups.offsets.replay(read_key, read_value)
        elif isinstance(read_key, GroupMetadataKey):
            self._groups.classic.replay(read_key, read_value)
        else:
            self._groups.consumers.replay(read_key, read_value)

    def loaded(self, now: Now) -> None:
        """All records have been replayed: the clocks start."""
        self._groups.classic.loaded(now)
        self._groups.consumers.loaded(now)
        self._arm_expiry(now)
        self._topics_seen = self._topics.version

    def recorded(self) -> dict[str, Any]:
        """What is recorded and nothing else: the same after a restart."""
        return self._groups.recorded()

    def describe(self) -> dict[str, Any]:
        """What is recorded, and who waits."""
        return {**self.recorded(), "waiting": len(self._waiting)}

    def validate(self) -> None:
        """What always holds, as code."""
        self._groups.validate()

    def _sent(self, decision: Decision, ticket: int | None = None, group_id: str = "") -> Decision:
        """Keep the book of who waits."""
        if ticket is not None:
            self._waiting[ticket] = group_id
        for reply in decision.replies:
            self._waiting.pop(reply.ticket, None)
        return decision
