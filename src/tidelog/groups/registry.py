"""All groups of a coordinator, of either protocol, with their offsets: what is asked of any."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from tidelog.groups.classic import ClassicGroups, has_consumers_only, subscriptions
from tidelog.groups.consumer import ConsumerGroups
from tidelog.groups.decision import GroupRecord
from tidelog.groups.draft import Desk
from tidelog.groups.group import ClassicState
from tidelog.groups.migration import erased
from tidelog.groups.offsets import Offsets
from tidelog.groups.records import GroupMetadataKey, record
from tidelog.groups.subscriptions import all_topics
from tidelog.groups.validation import validate_classic, validate_consumer
from tidelog.groups.views import (
    list_classic,
    list_consumer,
    recorded_classic,
    recorded_consumer,
    recorded_offsets,
)
from tidelog.model.clock import Now
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import TopicPartition
from tidelog.wire.messages.list_groups import ListedGroup, ListGroupsRequest
from tidelog.wire.messages.offset_commit import OffsetCommitRequest


class Registry:
    """A group is of the newer protocol if it is recorded as such, and else a classic one; one of
    which there are only offsets counts as a classic one without members."""

    def __init__(self, desk: Desk, *, keeps_live_offsets: bool = True) -> None:
        self._desk = desk
        self._keeps_live_offsets = keeps_live_offsets
        self.classic = ClassicGroups(desk)
        self.consumers = ConsumerGroups(desk, self.classic.adopt)
        self.offsets = Offsets(desk.topics)

    def group_ids(self) -> list[str]:
        classic = [group.group_id for group in self.classic.all()]
        consumers = [group.group_id for group in self.consumers.all()]
        return sorted({*classic, *consumers, *self.offsets.groups()})

    def exists(self, group_id: str) -> bool:
        return (
            group_id in self.consumers
            or self.classic.get(group_id) is not None
            or bool(self.offsets.of(group_id))
        )

    def is_empty(self, group_id: str) -> bool:
        newer = self.consumers.get(group_id)
        if newer is not None:
            return not newer.members
        group = self.classic.get(group_id)
        return group is None or group.state is ClassicState.EMPTY

    def subscribed(self, group_id: str) -> frozenset[str] | None:
        """The topics that any member reads; `None` if that can't be known."""
        newer = self.consumers.get(group_id)
        if newer is not None:
            return all_topics(newer)
        group = self.classic.get(group_id)
        return frozenset() if group is None else subscriptions(group)

    def may_delete_offsets(self, group_id: str) -> ErrorCode:
        if not self.exists(group_id):
            return ErrorCode.GROUP_ID_NOT_FOUND
        group = self.classic.get(group_id)
        if group_id in self.consumers or group is None or self.is_empty(group_id):
            return ErrorCode.NONE
        return ErrorCode.NONE if has_consumers_only(group) else ErrorCode.NON_EMPTY_GROUP

    def check_commit(self, now: Now, request: OffsetCommitRequest) -> ErrorCode:
        if not request.group_id:
            return ErrorCode.INVALID_GROUP_ID
        if request.group_id in self.consumers:
            return self.consumers.check_commit(request)
        return self.classic.check_commit(now, request)

    def most_groups(self) -> int:
        """At least as many as there are; not counted one by one."""
        return self.classic.count() + self.consumers.count() + self.offsets.count()

    def listed(
        self, request: ListGroupsRequest, group_ids: Iterable[str] | None = None
    ) -> list[ListedGroup]:
        """What the request asks for of all groups, or of those that are named and still there."""
        states = [state.lower() for state in request.states_filter]
        types = [kind.lower() for kind in request.types_filter]
        return [
            group
            for group_id in (self.group_ids() if group_ids is None else group_ids)
            for group in self._listed(group_id)
            if (not states or group.group_state.lower() in states)
            and (not types or group.group_type.lower() in types)
        ]

    def _listed(self, group_id: str) -> Iterator[ListedGroup]:
        newer, classic = self.consumers.get(group_id), self.classic.get(group_id)
        if newer is not None:
            yield list_consumer(newer)
        if classic is not None or (newer is None and self.offsets.of(group_id)):
            yield list_classic(group_id, classic)

    def read_by_groups(self, partition: TopicPartition) -> list[int]:
        """How far each group has read that reads the partition: -1 for one that is subscribed and
        has not committed yet, or of whose subscription nothing can be known."""
        read: list[int] = []
        for group_id in self.group_ids():
            committed = self.offsets.of(group_id).get(partition)
            if committed is not None:
                read.append(committed.offset)
                continue
            subscribed = self.subscribed(group_id)
            if subscribed is None or partition.topic in subscribed:
                read.append(-1)
        return read

    # What goes.

    def tombstones(self, now: Now, group_id: str) -> list[GroupRecord]:
        """Everything that is recorded of an empty group."""
        records = self.offsets.forget(group_id, self.offsets.of(group_id))
        newer = self.consumers.get(group_id)
        if newer is not None:
            records += erased(self._desk, now, newer)
        group = self.classic.get(group_id)
        if group is not None and group.is_recorded:
            records.append(record(GroupMetadataKey(group=group_id)))
        return records

    def expire(self, now: Now) -> list[GroupRecord]:
        """Offsets whose time is over, and groups of which nothing is left."""
        records: list[GroupRecord] = []
        for group_id in self.group_ids():
            records += self._expire(now, group_id)
        return records

    def _expire(self, now: Now, group_id: str) -> list[GroupRecord]:
        retention_ms = self._desk.settings.offsets_retention_ms
        if not self.is_empty(group_id):
            subscribed = self.subscribed(group_id) if self._keeps_live_offsets else frozenset()
            expired = self.offsets.expired_of_live(
                group_id, subscribed, now_ms=now.wall_ms, retention_ms=retention_ms
            )
            return self.offsets.forget(group_id, expired)
        empty_since = self._empty_since(group_id)
        expired = self.offsets.expired_of_empty(
            group_id, empty_since=empty_since, now_ms=now.wall_ms, retention_ms=retention_ms
        )
        is_rest_gone = len(expired) == len(self.offsets.of(group_id))
        if is_rest_gone and now.wall_ms - empty_since >= retention_ms:
            return self.tombstones(now, group_id)
        return self.offsets.forget(group_id, expired)

    def _empty_since(self, group_id: str) -> int:
        newer = self.consumers.get(group_id)
        if newer is not None:
            return newer.empty_since
        group = self.classic.get(group_id)
        return -1 if group is None else group.generation.state_timestamp

    def forget_vanished_topics(self) -> list[GroupRecord]:
        records: list[GroupRecord] = []
        for group_id, partitions in self.offsets.of_vanished_topics():
            records += self.offsets.forget(group_id, partitions)
        return records

    # Looking at it.

    def recorded(self) -> dict[str, Any]:
        """What is recorded and nothing else: the same after a restart."""
        groups = {g.group_id: recorded_classic(g) for g in self.classic.all() if g.is_recorded}
        groups |= {group.group_id: recorded_consumer(group) for group in self.consumers.all()}
        return {
            "groups": {group_id: groups[group_id] for group_id in sorted(groups)},
            "offsets": {
                group_id: recorded_offsets(self.offsets.of(group_id))
                for group_id in sorted(self.offsets.groups())
            },
        }

    def validate(self) -> None:
        for group in self.classic.all():
            validate_classic(group)
            assert not (group.is_recorded and group.group_id in self.consumers), (
                f"{group.group_id} is of both protocols"
            )
        for newer in self.consumers.all():
            validate_consumer(newer)
