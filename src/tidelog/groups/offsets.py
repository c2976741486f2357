"""Committed offsets: kept per group and partition, told, deleted, expired.

An offset belongs to a topic, not to its name: the topic's id is recorded with it, and an offset of
a topic that was deleted and created again is not told to anybody.

Expiry. The offsets of a group with members stay, except those of topics that none of the members
is subscribed to any more. Those of a group without members go when the group has been without for
`offsets.retention.minutes`, counted from its last sign of life: the last member's leaving, or a
commit by somebody who is not a member. Time here is the wall clock's, as it must survive restarts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from uuid import UUID

from tidelog.groups.decision import GroupRecord
from tidelog.groups.records import OffsetCommitKey, OffsetCommitValue, offset_record, record
from tidelog.groups.topics import Topics
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import TopicPartition
from tidelog.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from tidelog.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from tidelog.wire.messages.offset_fetch import (
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from tidelog.wire.schema import NO_UUID

NO_EXPIRY = -1
LATEST_EXPIRY = 2**63 - 1


@dataclass(frozen=True, slots=True)
class CommittedOffset:
    """`expire_timestamp` is set where an old client asked for a retention of its own."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp: int
    expire_timestamp: int
    topic_id: UUID


GroupOffsets = dict[TopicPartition, CommittedOffset]
_NONE: Mapping[TopicPartition, CommittedOffset] = {}


class Offsets:
    """The committed offsets of all groups of one coordinator."""

    def __init__(self, topics: Topics) -> None:
        self._topics = topics
        self._groups: dict[str, GroupOffsets] = {}

    def replay(self, key: OffsetCommitKey, value: OffsetCommitValue | None) -> None:
        partition = TopicPartition(key.topic, key.partition)
        if value is None:
            offsets = self._groups.get(key.group, {})
            offsets.pop(partition, None)
            if not offsets:
                self._groups.pop(key.group, None)
            return
        self._groups.setdefault(key.group, {})[partition] = CommittedOffset(
            offset=value.offset,
            leader_epoch=value.leader_epoch,
            metadata=value.metadata,
            commit_timestamp=value.commit_timestamp,
            expire_timestamp=value.expire_timestamp,
            topic_id=value.topic_id,
        )

    def count(self) -> int:
        return len(self._groups)

    def groups(self) -> Iterable[str]:
        return self._groups.keys()

    def of(self, group_id: str) -> Mapping[TopicPartition, CommittedOffset]:
        return self._groups.get(group_id, _NONE)

    def forget(self, group_id: str, partitions: Iterable[TopicPartition]) -> list[GroupRecord]:
        """Tombstones."""
        return [
            record(OffsetCommitKey(group=group_id, topic=topic, partition=partition))
            for topic, partition in partitions
        ]

    def of_vanished_topics(self) -> Iterator[tuple[str, list[TopicPartition]]]:
        """By group, the offsets of topics that have been deleted."""
        for group_id, offsets in self._groups.items():
            vanished = [
                partition
                for partition, committed in offsets.items()
                if committed.topic_id != NO_UUID and self._topics.name(committed.topic_id) is None
            ]
            if vanished:
                yield group_id, vanished

    # Commit.

    def commit(
        self, request: OffsetCommitRequest, *, wall_ms: int, max_metadata_bytes: int
    ) -> tuple[list[GroupRecord], OffsetCommitResponse]:
        """The caller has been found entitled to commit."""
        records: list[GroupRecord] = []
        topics: list[OffsetCommitResponseTopic] = []
        for topic in request.topics:
            name, topic_id = self._resolve(topic)
            count = 0 if name is None else self._topics.partitions(name) or 0
            answers = []
            for partition in topic.partitions:
                index, metadata = partition.partition_index, partition.committed_metadata or ""
                error = ErrorCode.NONE
                if name is None:
                    error = _no_topic(topic)
                elif not 0 <= index < count:
                    error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                elif len(metadata.encode()) > max_metadata_bytes:
                    error = ErrorCode.OFFSET_METADATA_TOO_LARGE
                else:
                    key = OffsetCommitKey(group=request.group_id, topic=name, partition=index)
                    value = _committed(request, partition, topic_id=topic_id, wall_ms=wall_ms)
                    records.append(offset_record(key, value))
                answers.append(
                    OffsetCommitResponsePartition(partition_index=index, error_code=error)
                )
            topics.append(
                OffsetCommitResponseTopic(
                    name=topic.name, topic_id=topic.topic_id, partitions=answers
                )
            )
        return records, OffsetCommitResponse(topics=topics)

    def _resolve(
        self, topic: OffsetCommitRequestTopic | OffsetFetchRequestTopics
    ) -> tuple[str | None, UUID]:
        """Name and id of a topic that was named by either; no name if there is no such topic."""
        if topic.topic_id is not NO_UUID and topic.topic_id != NO_UUID:
            return self._topics.name(topic.topic_id), topic.topic_id
        topic_id = self._topics.topic_id(topic.name)
        return (None, NO_UUID) if topic_id is None else (topic.name, topic_id)

    # Fetch.

    def fetch(self, request: OffsetFetchRequestGroup) -> OffsetFetchResponseGroup:
        topics = self._all_topics(request.group_id) if request.topics is None else request.topics
        return OffsetFetchResponseGroup(
            group_id=request.group_id,
            topics=[self._fetch_topic(request.group_id, topic) for topic in topics],
        )

    def _all_topics(self, group_id: str) -> list[OffsetFetchRequestTopics]:
        """Names and ids both, so that the answer serves whichever the client asks by."""
        found: dict[str, OffsetFetchRequestTopics] = {}
        for (name, partition), committed in sorted(self.of(group_id).items()):
            if self._is_of_another_topic(name, committed):
                continue
            topic = found.get(name)
            if topic is None:
                topic = found[name] = OffsetFetchRequestTopics(
                    name=name, topic_id=self._topics.topic_id(name) or NO_UUID
                )
            topic.partition_indexes.append(partition)
        return list(found.values())

    def _fetch_topic(
        self, group_id: str, topic: OffsetFetchRequestTopics
    ) -> OffsetFetchResponseTopics:
        name = topic.name or self._topics.name(topic.topic_id)
        error = ErrorCode.UNKNOWN_TOPIC_ID if name is None else ErrorCode.NONE
        offsets = self.of(group_id)
        answers = []
        for index in topic.partition_indexes:
            answer = OffsetFetchResponsePartitions(
                partition_index=index, committed_offset=-1, error_code=error
            )
            committed = offsets.get(TopicPartition(name, index)) if name is not None else None
            if committed and name and not self._is_of_another_topic(name, committed):
                answer.committed_offset = committed.offset
                answer.committed_leader_epoch = committed.leader_epoch
                answer.metadata = committed.metadata
            answers.append(answer)
        return OffsetFetchResponseTopics(
            name=topic.name, topic_id=topic.topic_id, partitions=answers
        )

    def _is_of_another_topic(self, name: str, committed: CommittedOffset) -> bool:
        """Committed for a topic of this name that has been deleted since."""
        return committed.topic_id != NO_UUID and self._topics.topic_id(name) != committed.topic_id

    # Delete.

    def delete(
        self, request: OffsetDeleteRequest, subscribed: frozenset[str] | None
    ) -> tuple[list[GroupRecord], OffsetDeleteResponse]:
        """`subscribed`: topics that may not be touched; `None` if all must be taken for such."""
        gone: list[TopicPartition] = []
        response = OffsetDeleteResponse()
        for topic in request.topics:
            is_subscribed = subscribed is None or topic.name in subscribed
            answers = []
            for wanted in topic.partitions:
                partition = TopicPartition(topic.name, wanted.partition_index)
                error = ErrorCode.NONE
                if is_subscribed:
                    error = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
                elif partition in self.of(request.group_id):
                    gone.append(partition)
                elif self._topics.partitions(topic.name) is None:
                    error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                answers.append(
                    OffsetDeleteResponsePartition(
                        partition_index=wanted.partition_index, error_code=error
                    )
                )
            response.topics.append(OffsetDeleteResponseTopic(name=topic.name, partitions=answers))
        return self.forget(request.group_id, gone), response

    # Expiry.

    def expired_of_empty(
        self, group_id: str, *, empty_since: int, now_ms: int, retention_ms: int
    ) -> list[TopicPartition]:
        """Of a group without members."""
        offsets = self.of(group_id)
        newest = max((committed.commit_timestamp for committed in offsets.values()), default=-1)
        last_sign_of_life = max(empty_since, newest)
        is_over = now_ms - last_sign_of_life >= retention_ms
        return [
            partition
            for partition, committed in offsets.items()
            if (is_over if committed.expire_timestamp < 0 else now_ms >= committed.expire_timestamp)
        ]

    def expired_of_live(
        self, group_id: str, subscribed: frozenset[str] | None, *, now_ms: int, retention_ms: int
    ) -> list[TopicPartition]:
        """Of a group with members: only what none of them reads any more."""
        if subscribed is None:
            return []
        return [
            partition
            for partition, committed in self.of(group_id).items()
            if partition.topic not in subscribed
            and now_ms - committed.commit_timestamp >= retention_ms
        ]


def _no_topic(topic: OffsetCommitRequestTopic) -> ErrorCode:
    is_by_id = topic.topic_id != NO_UUID
    return ErrorCode.UNKNOWN_TOPIC_ID if is_by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _committed(
    request: OffsetCommitRequest,
    partition: OffsetCommitRequestPartition,
    *,
    topic_id: UUID,
    wall_ms: int,
) -> OffsetCommitValue:
    expire_timestamp = NO_EXPIRY
    if request.retention_time_ms >= 0:
        expire_timestamp = min(wall_ms + request.retention_time_ms, LATEST_EXPIRY)
    return OffsetCommitValue(
        offset=partition.committed_offset,
        leader_epoch=partition.committed_leader_epoch,
        metadata=partition.committed_metadata or "",
        commit_timestamp=wall_ms,
        expire_timestamp=expire_timestamp,
        topic_id=topic_id,
    )
