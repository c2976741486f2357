"""The coordinator of the groups of one partition of `__consumer_offsets`.

The broker calls one method per request, appends the decision's records in one batch, replays them,
and lets the replies go when the log is committed. If the append fails, nothing of the decision is
true: the broker answers everybody who waits (`waiting_tickets`) with an error they retry, and
builds the coordinator anew from the log.
"""

from __future__ import annotations

from random import Random
from typing import Any

from tidelog.groups.classic import ClassicGroups, has_consumers_only, subscriptions
from tidelog.groups.decision import Decision, GroupRecord
from tidelog.groups.draft import Caller, Desk
from tidelog.groups.group import ClassicState
from tidelog.groups.offsets import Offsets
from tidelog.groups.records import (
    GroupMetadataKey,
    OffsetCommitKey,
    read_record,
    record,
)
from tidelog.groups.settings import GroupSettings
from tidelog.groups.timers import TimerKey, Timers
from tidelog.groups.topics import Topics
from tidelog.groups.validation import validate_classic
from tidelog.groups.views import describe_classic, list_classic, recorded_classic
from tidelog.model.clock import Now
from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.delete_groups import DeletableGroupResult
from tidelog.wire.messages.heartbeat import HeartbeatRequest
from tidelog.wire.messages.join_group import JoinGroupRequest
from tidelog.wire.messages.leave_group import LeaveGroupRequest
from tidelog.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from tidelog.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from tidelog.wire.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from tidelog.wire.messages.offset_fetch import OffsetFetchRequestGroup
from tidelog.wire.messages.sync_group import SyncGroupRequest

_EXPIRY = TimerKey("expiry", "")
_NOW = float("-inf")


class Coordinator:
    """Groups and offsets. See the package for what is recorded and what is not."""

    def __init__(self, settings: GroupSettings, random: Random, topics: Topics) -> None:
        self._settings = settings
        self._topics = topics
        self._timers = Timers()
        self._desk = Desk(settings, random, self._timers, topics)
        self._classic = ClassicGroups(self._desk)
        self._offsets = Offsets(topics)
        self._waiting: dict[int, str] = {}
        """The group at which each waiting request waits."""
        self._topics_seen = topics.version

    # Membership.

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
        caller = Caller(client_id, client_host, requires_member_id, may_skip_assignment)
        decision = self._classic.join_group(now, ticket, request, caller)
        return self._sent(decision, ticket, request.group_id)

    def sync_group(self, now: Now, ticket: int, request: SyncGroupRequest) -> Decision:
        decision = self._classic.sync_group(now, ticket, request)
        return self._sent(decision, ticket, request.group_id)

    def heartbeat(self, now: Now, ticket: int, request: HeartbeatRequest) -> Decision:
        decision = self._classic.heartbeat(now, ticket, request)
        return self._sent(decision, ticket, request.group_id)

    def leave_group(self, now: Now, ticket: int, request: LeaveGroupRequest) -> Decision:
        decision = self._classic.leave_group(now, ticket, request)
        return self._sent(decision, ticket, request.group_id)

    # Offsets.

    def offset_commit(self, now: Now, ticket: int, request: OffsetCommitRequest) -> Decision:
        decision = Decision()
        error = ErrorCode.INVALID_GROUP_ID if not request.group_id else ErrorCode.NONE
        error = error or self._classic.check_commit(now, request)
        if error is not ErrorCode.NONE:
            decision.reply(ticket, refused_commit(request, error))
            return decision
        decision.records, response = self._offsets.commit(
            request,
            wall_ms=now.wall_ms,
            max_metadata_bytes=self._settings.offset_metadata_max_bytes,
        )
        decision.reply(ticket, response)
        return decision

    def offset_fetch(self, now: Now, ticket: int, request: OffsetFetchRequestGroup) -> Decision:
        """One group's part of an OffsetFetch; the reply is an `OffsetFetchResponseGroup`."""
        decision = Decision()
        decision.reply(ticket, self._offsets.fetch(request))
        return decision

    def offset_delete(self, now: Now, ticket: int, request: OffsetDeleteRequest) -> Decision:
        decision = Decision()
        group = self._classic.get(request.group_id)
        if not self._exists(request.group_id):
            response = OffsetDeleteResponse(error_code=ErrorCode.GROUP_ID_NOT_FOUND)
        elif (
            group is not None
            and not self._is_empty(request.group_id)
            and (not has_consumers_only(group))
        ):
            response = OffsetDeleteResponse(error_code=ErrorCode.NON_EMPTY_GROUP)
        else:
            decision.records, response = self._offsets.delete(
                request, self._subscribed(request.group_id)
            )
        decision.reply(ticket, response)
        return decision

    # Administration.

    def list_groups(self, now: Now, ticket: int, request: ListGroupsRequest) -> Decision:
        listed = list_classic(self._classic.all(), self._offsets.groups())
        states = [state.lower() for state in request.states_filter]
        types = [kind.lower() for kind in request.types_filter]
        response = ListGroupsResponse(
            groups=[
                group
                for group in sorted(listed, key=lambda group: group.group_id)
                if (not states or group.group_state.lower() in states)
                and (not types or group.group_type.lower() in types)
            ]
        )
        decision = Decision()
        decision.reply(ticket, response)
        return decision

    def describe_group(self, now: Now, ticket: int, group_id: str) -> Decision:
        """The reply is a `DescribedGroup`. A group that is not there is described as dead *and*
        with GROUP_ID_NOT_FOUND, of which versions before 6 must not hear."""
        decision = Decision()
        known = self._exists(group_id)
        decision.reply(ticket, describe_classic(group_id, self._classic.get(group_id), known))
        return decision

    def delete_group(self, now: Now, ticket: int, group_id: str) -> Decision:
        """The reply is a `DeletableGroupResult`."""
        decision = Decision()
        error = ErrorCode.NONE
        if not self._exists(group_id):
            error = ErrorCode.GROUP_ID_NOT_FOUND
        elif not self._is_empty(group_id):
            error = ErrorCode.NON_EMPTY_GROUP
        else:
            decision.records = self._tombstones(group_id)
        decision.reply(ticket, DeletableGroupResult(group_id=group_id, error_code=error))
        return decision

    # Time.

    def abandon(self, ticket: int) -> None:
        """The connection is gone: nobody hears the reply."""
        group_id = self._waiting.pop(ticket, None)
        if group_id is not None:
            self._classic.abandon(group_id, ticket)

    def waiting_tickets(self) -> list[int]:
        return list(self._waiting)

    def next_deadline(self) -> float | None:
        """On the monotonic clock; long ago, if the topics have changed since the last tick."""
        if self._topics.version != self._topics_seen:
            return _NOW
        return self._timers.next_deadline()

    def tick(self, now: Now) -> Decision:
        due: dict[str, list[TimerKey]] = {}
        decision = Decision()
        for key in self._timers.take_due(now.monotonic_ms):
            if key == _EXPIRY:
                self._arm_expiry(now)
                decision.records += self._expire_offsets(now)
            else:
                due.setdefault(key.group_id, []).append(key)
        for group_id, keys in due.items():
            made = self._classic.timers_fired(now, group_id, keys)
            decision.records += made.records
            decision.replies += made.replies
        if self._topics.version != self._topics_seen:
            self._topics_seen = self._topics.version
            decision.records += self._forget_vanished_topics()
        return self._sent(decision)

    # State.

    def replay(self, key: bytes, value: bytes | None) -> None:
        """The only way in which recorded state changes."""
        found = read_record(key, value)
        if found is None:
            return
        read_key, read_value = found
        if isinstance(read_key, OffsetCommitKey):
            self._offsets.replay(read_key, read_value)
        elif isinstance(read_key, GroupMetadataKey):
            self._classic.replay(read_key, read_value)

    def loaded(self, now: Now) -> None:
        """All records have been replayed: the clocks start."""
        self._classic.loaded(now)
        self._arm_expiry(now)
        self._topics_seen = self._topics.version

    def recorded(self) -> dict[str, Any]:
        """What is recorded and nothing else: the same after a restart."""
        return {
            "groups": {
                g.group_id: recorded_classic(g) for g in self._classic.all() if g.is_recorded
            },
            "offsets": {
                group_id: {str(partition): offset for partition, offset in self._of(group_id)}
                for group_id in sorted(self._offsets.groups())
            },
        }

    def _of(self, group_id: str) -> Any:
        return sorted(self._offsets.of(group_id).items())

    def validate(self) -> None:
        """What always holds, as code."""
        for group in self._classic.all():
            validate_classic(group)

    # Inside.

    def _sent(self, decision: Decision, ticket: int | None = None, group_id: str = "") -> Decision:
        """Keep the book of who waits."""
        if ticket is not None:
            self._waiting[ticket] = group_id
        for reply in decision.replies:
            self._waiting.pop(reply.ticket, None)
        return decision

    def _exists(self, group_id: str) -> bool:
        return self._classic.get(group_id) is not None or bool(self._offsets.of(group_id))

    def _is_empty(self, group_id: str) -> bool:
        group = self._classic.get(group_id)
        return group is None or group.state is ClassicState.EMPTY

    def _subscribed(self, group_id: str) -> frozenset[str] | None:
        group = self._classic.get(group_id)
        return frozenset() if group is None else subscriptions(group)

    def _tombstones(self, group_id: str) -> list[GroupRecord]:
        records = self._offsets.forget(group_id, self._offsets.of(group_id))
        group = self._classic.get(group_id)
        if group is not None and group.is_recorded:
            records.append(record(GroupMetadataKey(group=group_id)))
        return records

    def _arm_expiry(self, now: Now) -> None:
        interval_ms = self._settings.offsets_retention_check_interval_ms
        self._timers.arm(_EXPIRY, now.monotonic_ms + interval_ms)

    def _expire_offsets(self, now: Now) -> list[GroupRecord]:
        records: list[GroupRecord] = []
        classic = [group.group_id for group in self._classic.all()]
        for group_id in sorted({*self._offsets.groups(), *classic}):
            records += self._expire_offsets_of(group_id, now)
        return records

    def _expire_offsets_of(self, group_id: str, now: Now) -> list[GroupRecord]:
        retention_ms = self._settings.offsets_retention_ms
        if not self._is_empty(group_id):
            expired = self._offsets.expired_of_live(
                group_id, self._subscribed(group_id), now_ms=now.wall_ms, retention_ms=retention_ms
            )
            return self._offsets.forget(group_id, expired)
        group = self._classic.get(group_id)
        empty_since = group.generation.state_timestamp if group is not None else -1
        expired = self._offsets.expired_of_empty(
            group_id, empty_since=empty_since, now_ms=now.wall_ms, retention_ms=retention_ms
        )
        is_rest_gone = len(expired) == len(self._offsets.of(group_id))
        is_long_empty = now.wall_ms - empty_since >= retention_ms
        if is_rest_gone and is_long_empty:
            return self._tombstones(group_id)
        return self._offsets.forget(group_id, expired)

    def _forget_vanished_topics(self) -> list[GroupRecord]:
        records: list[GroupRecord] = []
        for group_id, partitions in self._offsets.of_vanished_topics():
            records += self._offsets.forget(group_id, partitions)
        return records


def refused_commit(request: OffsetCommitRequest, error: ErrorCode) -> OffsetCommitResponse:
    """A refusal of the whole is told partition by partition: the answer has no other place."""
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    OffsetCommitResponsePartition(
                        partition_index=partition.partition_index, error_code=error
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
