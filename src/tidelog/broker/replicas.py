"""The partitions this node keeps: directories on disk that follow the metadata image.

A directory belongs to a topic *id*, so a topic created again under an old name starts empty. A
directory is deleted only for a topic whose removal is a committed record; one that no record
explains is left where it is and reported, since the metadata may be what is wrong.
"""

from __future__ import annotations

import base64
from uuid import UUID

from tidelog.log.disk import Disk, DiskError, Syncable
from tidelog.log.log import Log
from tidelog.metadata.delta import Delta
from tidelog.metadata.image import Image, PartitionState, TopicState
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NO_TOPIC_ID, PartitionKey, TopicId, TopicPartition
from tidelog.model.safeguards import Safeguard
from tidelog.model.settings import TopicSettings, Value, parse_settings, topic_settings
from tidelog.partition.leader import Leader

TOPICS_DIRECTORY = "topics"
_NAME_CHARACTERS = 200
"""Of the topic's name in its directory's: for people; the id after it is what counts."""


class Replicas:
    """All partitions kept here, by key and by name."""

    def __init__(
        self,
        disk: Disk,
        topic_defaults: dict[str, Value],
        *,
        safeguards: frozenset[Safeguard],
    ) -> None:
        self._disk = disk
        self._topic_defaults = topic_defaults
        self._safeguards = safeguards
        self.by_key: dict[PartitionKey, Leader] = {}
        self.by_name: dict[TopicPartition, Leader] = {}
        self._unopened: dict[PartitionKey, tuple[TopicState, PartitionState]] = {}

    def settings_of(self, topic: TopicState) -> TopicSettings:
        return topic_settings(self._topic_defaults, parse_settings(topic.configs, "topic"))

    def open_all(self, image: Image, *, clean: bool) -> list[str]:
        """At start: every partition of the image, then the directories nobody asked for. Gives
        what the operator should know."""
        reports: list[str] = []
        for topic in image.topics.values():
            for state in topic.partitions:
                try:
                    self._open(topic, state, clean=clean)
                except DiskError as error:
                    self._unopened[state.key] = (topic, state)
                    reports.append(f"{state.name} can't be opened yet: {error}")
        for leader in self.by_key.values():
            reports += leader.take_reports()
        return reports + self._sweep(image)

    def find(
        self, topic: str, partition: int, *, topic_id: TopicId = NO_TOPIC_ID
    ) -> Leader | ErrorCode:
        """The partition by topic id, or by name where there is no id."""
        if topic_id is NO_TOPIC_ID or topic_id == NO_TOPIC_ID:
            leader = self.by_name.get(TopicPartition(topic, partition))
        else:
            leader = self.by_key.get(PartitionKey(topic_id, partition))
        if leader is not None:
            return leader
        return self._find_unopened(topic, partition, topic_id)

    def apply(self, image: Image, delta: Delta) -> list[Syncable]:
        """Follow committed metadata. Gives the directories whose entries must become durable with
        the next flush."""
        touched: list[Syncable] = []
        for key in delta.partitions:
            topic = image.topic_by_id(key.topic_id)
            if topic is None:
                continue
            state = topic.partitions[key.partition]
            leader = self.by_key.get(key)
            if leader is not None:
                leader.leader_epoch = state.leader_epoch
                continue
            try:
                self._open(topic, state, clean=False)
            except DiskError:
                self._unopened[key] = (topic, state)
        for topic_id in dict.fromkeys(t for t in delta.configured if t not in delta.created):
            self._configure(image, topic_id)
        for topic_id in delta.created:
            topic = image.topic_by_id(topic_id)
            path = "" if topic is None else _topic_directory(topic.name, topic_id)
            if topic is not None and self._disk.exists(path):
                touched.append(self._disk.directory(path))
                touched.append(self._disk.directory(TOPICS_DIRECTORY))
        for topic_id, name in delta.removed.items():
            self._remove(topic_id, name)
            touched.append(self._disk.directory(TOPICS_DIRECTORY))
        return touched

    def validate(self) -> None:
        for key, leader in self.by_key.items():
            assert leader.key == key
            assert self.by_name[leader.name] is leader
            leader.validate()
        assert len(self.by_key) == len(self.by_name)

    def describe(self) -> list[dict[str, object]]:
        return [
            {
                "partition": str(leader.name),
                "leader_epoch": leader.leader_epoch,
                "high_watermark": leader.high_watermark,
                "log": leader.log.describe(),
            }
            for leader in self.by_key.values()
        ]

    def _find_unopened(self, topic: str, partition: int, topic_id: TopicId) -> Leader | ErrorCode:
        """A partition whose log the disk refused to open is tried again when asked for."""
        for key, (topic_state, state) in self._unopened.items():
            if key.partition == partition and (
                topic_id == key.topic_id or topic == state.name.topic
            ):
                try:
                    return self._open(topic_state, state, clean=False)
                except DiskError:
                    return ErrorCode.KAFKA_STORAGE_ERROR
        if topic_id == NO_TOPIC_ID:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        is_known_topic = PartitionKey(topic_id, 0) in self.by_key
        return (
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_known_topic else ErrorCode.UNKNOWN_TOPIC_ID
        )

    def _open(self, topic: TopicState, state: PartitionState, *, clean: bool) -> Leader:
        settings = self.settings_of(topic)
        directory = f"{_topic_directory(topic.name, topic.topic_id)}/{state.key.partition}"
        log = Log.open(self._disk, directory, settings, clean=clean, safeguards=self._safeguards)
        leader = Leader(state, log, settings, safeguards=self._safeguards)
        self._unopened.pop(state.key, None)
        self.by_key[state.key] = leader
        self.by_name[state.name] = leader
        return leader

    def _configure(self, image: Image, topic_id: TopicId) -> None:
        topic = image.topic_by_id(topic_id)
        if topic is not None:
            settings = self.settings_of(topic)
            for state in topic.partitions:
                leader = self.by_key.get(state.key)
                if leader is not None:
                    leader.configure(settings)

    def _remove(self, topic_id: TopicId, name: str) -> None:
        for key in [key for key in self.by_key if key.topic_id == topic_id]:
            leader = self.by_key.pop(key)
            leader.is_gone = True
            if self.by_name.get(leader.name) is leader:
                del self.by_name[leader.name]
        for key in [key for key in self._unopened if key.topic_id == topic_id]:
            del self._unopened[key]
        try:
            self._disk.delete(_topic_directory(name, topic_id))
        except DiskError:
            pass  # the next start finishes it

    def _sweep(self, image: Image) -> list[str]:
        """Finish deletions that a crash interrupted; leave alone what no record explains."""
        reports: list[str] = []
        for entry in self._disk.list(TOPICS_DIRECTORY):
            topic_id = _topic_id_of(entry)
            if topic_id is not None and topic_id in image.names:
                continue
            is_removed = topic_id is not None and topic_id in image.removed
            if is_removed or Safeguard.KEEP_ORPHANS not in self._safeguards:
                self._disk.delete(f"{TOPICS_DIRECTORY}/{entry}")
            else:
                reports.append(f"{TOPICS_DIRECTORY}/{entry} belongs to no known topic: left alone")
        return reports


def _topic_directory(name: str, topic_id: TopicId) -> str:
    text = base64.urlsafe_b64encode(topic_id.bytes).decode().rstrip("=")
    return f"{TOPICS_DIRECTORY}/{name[:_NAME_CHARACTERS]}.{text}"


def _topic_id_of(entry: str) -> TopicId | None:
    text = entry.rpartition(".")[2]
    try:
        return TopicId(UUID(bytes=base64.urlsafe_b64decode(text + "==")))
    except ValueError:
        return None
