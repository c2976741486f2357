"""A decision on one newer group, while it is being made."""

from __future__ import annotations

from collections import Counter
from typing import Any

from tidelog.groups.assignors import ASSIGNORS, Subscriber
from tidelog.groups.consumer_group import (
    NOTHING,
    ConsumerGroup,
    ConsumerMember,
    Current,
    MemberState,
    Partitions,
    by_topic,
)
from tidelog.groups.decision import Decision
from tidelog.groups.draft import SESSION, Desk
from tidelog.groups.reconciliation import reconcile
from tidelog.groups.records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    ConsumerKey,
    record,
)
from tidelog.groups.settings import IMPATIENT_HEARTBEAT_INTERVAL_MS, SMALL_GROUP
from tidelog.groups.subscriptions import fingerprint, resolve_regex, topic_ids, topics_of
from tidelog.groups.timers import TimerKey
from tidelog.model.clock import Now

REVOCATION = "revocation"
"""The time in which a member must have given up what it has to."""
ASSIGNMENT = "assignment"
"""Until then, a large group keeps the target that it has."""
CLASSIC_JOIN = "classic join"
"""The time in which a member of the classic protocol that was told to join again must do so."""
CLASSIC_SYNC = "classic sync"
"""The time in which one that has joined must ask for its share."""


class ConsumerDraft:
    """Emits records, and sees the group as it will be with them."""

    def __init__(self, desk: Desk, now: Now, group: ConsumerGroup) -> None:
        self.desk = desk
        self.now = now
        self.group = group
        self.decision = Decision()
        self._is_copy = False

    @property
    def group_id(self) -> str:
        return self.group.group_id

    def emit(self, key: ConsumerKey, value: Any = None) -> None:
        if not self._is_copy:
            self.group = self.group.copy()
            self._is_copy = True
        self.group.apply(key, value)
        self.decision.records.append(record(key, value))

    # Members.

    def put_member(self, member: ConsumerMember) -> None:
        if self.group.members.get(member.member_id) != member:
            key = ConsumerGroupMemberMetadataKey(group_id=self.group_id, member_id=member.member_id)
            self.emit(key, member.recorded())

    def put_current(self, member_id: str, current: Current) -> None:
        if self.group.currents.get(member_id) != current:
            key = ConsumerGroupCurrentMemberAssignmentKey(
                group_id=self.group_id, member_id=member_id
            )
            self.emit(key, current.recorded())

    def put_target(self, member_id: str, target: Partitions) -> None:
        if self.group.targets.get(member_id) != target:
            key = ConsumerGroupTargetAssignmentMemberKey(
                group_id=self.group_id, member_id=member_id
            )
            value = ConsumerGroupTargetAssignmentMemberValue(topic_partitions=by_topic(target))
            self.emit(key, value)

    def erase_member(self, member_id: str) -> None:
        """All that is recorded of it, and its timers."""
        names = {"group_id": self.group_id, "member_id": member_id}
        if member_id in self.group.currents:
            self.emit(ConsumerGroupCurrentMemberAssignmentKey(**names))
        if member_id in self.group.targets:
            self.emit(ConsumerGroupTargetAssignmentMemberKey(**names))
        if member_id in self.group.members:
            self.emit(ConsumerGroupMemberMetadataKey(**names))
        for kind in (SESSION, REVOCATION, CLASSIC_JOIN, CLASSIC_SYNC):
            self.disarm(kind, member_id)

    # Epochs.

    def refresh_subscriptions(self, *, has_changed: bool) -> None:
        """Resolve regular expressions anew; raise the epoch if there is anything new."""
        self._refresh_regexes()
        metadata_hash = fingerprint(self.group, self.desk.topics)
        if has_changed or metadata_hash != self.group.metadata_hash:
            self.raise_epoch(metadata_hash)

    def raise_epoch(self, metadata_hash: int) -> None:
        is_empty = not self.group.members
        self.emit(
            ConsumerGroupMetadataKey(group_id=self.group_id),
            ConsumerGroupMetadataValue(
                epoch=self.group.epoch + 1,
                metadata_hash=metadata_hash,
                empty_since=self.now.wall_ms if is_empty else -1,
            ),
        )

    def _refresh_regexes(self) -> None:
        group = self.group
        used = {member.topic_regex for member in group.members.values() if member.topic_regex}
        for regex in sorted(used | set(group.regexes)):
            key = ConsumerGroupRegularExpressionKey(
                group_id=self.group_id, regular_expression=regex
            )
            if regex not in used:
                self.emit(key)
                continue
            topics = resolve_regex(regex, self.desk.topics)
            if group.regexes.get(regex) != topics:
                value = ConsumerGroupRegularExpressionValue(
                    topics=list(topics),
                    version=self.desk.topics.version,
                    timestamp=self.now.wall_ms,
                )
                self.emit(key, value)

    def update_target(self) -> None:
        """Compute the target assignment for the present epoch, unless it is there, or one has just
        been computed and the group is so large that this takes time."""
        group = self.group
        if group.target_epoch >= group.epoch or not self._may_assign():
            return
        topics = self.desk.topics
        subscribers = {
            member.member_id: Subscriber(
                topic_ids=topic_ids(topics_of(group, member), topics),
                previous=group.targets.get(member.member_id, NOTHING),
                instance_id=member.instance_id,
            )
            for member in group.members.values()
        }
        wanted = frozenset(topic_id for one in subscribers.values() for topic_id in one.topic_ids)
        counts = {
            topic_id: topics.partitions(topics.name(topic_id) or "") or 0
            for topic_id in sorted(wanted)
        }
        targets = ASSIGNORS[self.assignor()](subscribers, counts)
        for member_id in sorted(targets):
            self.put_target(member_id, targets[member_id])
        self.emit(
            ConsumerGroupTargetAssignmentMetadataKey(group_id=self.group_id),
            ConsumerGroupTargetAssignmentMetadataValue(
                assignment_epoch=group.epoch, assignment_timestamp=self.now.wall_ms
            ),
        )

    def _may_assign(self) -> bool:
        size = len(self.group.members)
        if size <= SMALL_GROUP:
            return True
        key = TimerKey(ASSIGNMENT, self.group_id)
        if key in self.desk.timers:
            return False
        self.desk.timers.arm(key, self.now.monotonic_ms + size)
        return True

    def assignor(self) -> str:
        """The one most members ask for; the first of the settings' if nobody asks."""
        asked = Counter(
            member.server_assignor
            for member in self.group.members.values()
            if member.server_assignor
        )
        names = self.desk.settings.group_consumer_assignors
        return max(names, key=lambda name: (asked[name], -names.index(name)))

    def reconcile(self, member_id: str, owned: Partitions | None) -> Current:
        """Move the member a step towards its target, and time it if it has to give things up."""
        group = self.group
        before = group.current(member_id)
        current = reconcile(
            before,
            target=group.targets.get(member_id, NOTHING),
            target_epoch=group.target_epoch,
            owned=owned,
            owners=group.owners,
        )
        self.put_current(member_id, current)
        if current.state is not MemberState.UNREVOKED_PARTITIONS:
            self.disarm(REVOCATION, member_id)
        elif current != before or TimerKey(REVOCATION, self.group_id, member_id) not in (
            self.desk.timers
        ):
            self.arm(REVOCATION, group.members[member_id].rebalance_timeout_ms, member_id)
        return current

    def heartbeat_interval_ms(self, current: Current) -> int:
        """When the member is to come again."""
        own = self.desk.topics.group_configs(self.group_id)
        interval_ms = self.desk.settings.heartbeat_interval_ms(own)
        is_waiting = current.state is MemberState.UNRELEASED_PARTITIONS
        if is_waiting and len(self.group.members) <= SMALL_GROUP:
            return min(interval_ms, IMPATIENT_HEARTBEAT_INTERVAL_MS)
        return interval_ms

    # Timers.

    def arm(self, kind: str, delay_ms: float, member_id: str) -> None:
        key = TimerKey(kind, self.group_id, member_id)
        self.desk.timers.arm(key, self.now.monotonic_ms + delay_ms)

    def disarm(self, kind: str, member_id: str) -> None:
        self.desk.timers.cancel(TimerKey(kind, self.group_id, member_id))

    def heard_of(self, member: ConsumerMember) -> None:
        """The member lives: its session starts over."""
        timeout_ms = (
            self.desk.settings.session_timeout_ms(self.desk.topics.group_configs(self.group_id))
            if member.classic is None
            else member.classic.session_timeout_ms
        )
        self.arm(SESSION, timeout_ms, member.member_id)
