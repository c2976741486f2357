"""Topics: create, list, describe, change, delete; and where their partitions begin and end."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import confluent_kafka
from confluent_kafka import KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    PartitionMetadata,
    ResourceType,
)

from tidelog.client import direct, group_configs
from tidelog.client.errors import ClientError, no_partition, no_topic
from tidelog.client.group_admin import GroupAdmin
from tidelog.model.ids import TopicPartition

_EARLIEST = OffsetSpec.earliest()  # type: ignore[no-untyped-call]
_LATEST = OffsetSpec.latest()  # type: ignore[no-untyped-call]

BROKER_DEFAULT = -1
"""As a number of partitions or replicas: the broker chooses."""


class Offsets(NamedTuple):
    """A partition's first offset and the one its next record will get."""

    start: int
    end: int

    @property
    def records(self) -> int:
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class Partition:
    """One partition, as the cluster describes it."""

    number: int
    leader: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]

    @property
    def is_led(self) -> bool:
        return self.leader >= 0


@dataclass(frozen=True, slots=True)
class Topic:
    """One topic, as the cluster describes it."""

    name: str
    partitions: tuple[Partition, ...]

    @property
    def replication_factor(self) -> int:
        return max((len(partition.replicas) for partition in self.partitions), default=0)

    @property
    def topic_partitions(self) -> list[TopicPartition]:
        return [TopicPartition(self.name, partition.number) for partition in self.partitions]

    @property
    def led_partitions(self) -> list[TopicPartition]:
        """Without those that nobody leads at the moment, of which nothing can be asked."""
        return [TopicPartition(self.name, each.number) for each in self.partitions if each.is_led]

    def chosen(self, partition: int | None) -> list[TopicPartition]:
        """That partition, or all of them; a `ClientError` if the topic has no such partition."""
        if partition is None:
            return self.topic_partitions
        if all(partition != known.number for known in self.partitions):
            raise no_partition(self.name, partition, count=len(self.partitions))
        return [TopicPartition(self.name, partition)]


class Cluster(NamedTuple):
    """Addresses of nodes by id; `controller` is -1 while none is known."""

    nodes: dict[int, str]
    controller: int


class TopicSetting(NamedTuple):
    """A setting of a topic, node or group. `source` is Kafka's word in lower case: "default config"
    and others."""

    value: str | None
    source: str

    @property
    def is_own(self) -> bool:
        """Set on the topic itself."""
        return self.source == "dynamic topic config"


class Admin(GroupAdmin):
    """Asks and changes what the cluster knows. Every failure is a `ClientError`."""

    def topics(self) -> list[Topic]:
        """All topics, by name.

        Always the whole list: asking a broker for one topic by name may create it.
        """
        try:
            metadata = self._client.list_topics(timeout=self._connection.timeout_s)
        except KafkaException as exception:
            raise self._explained(exception) from None
        return [
            Topic(name, tuple(_partition(row) for _, row in sorted(topic.partitions.items())))
            for name, topic in sorted(metadata.topics.items())
        ]

    def topic(self, name: str) -> Topic:
        """The topic of that name, or a `ClientError` that says how to create it."""
        for topic in self.topics():
            if topic.name == name:
                return topic
        raise no_topic(name)

    def create_topic(
        self,
        name: str,
        *,
        partitions: int = BROKER_DEFAULT,
        replication_factor: int = BROKER_DEFAULT,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        new = NewTopic(
            name,
            num_partitions=partitions,
            replication_factor=replication_factor,
            config=dict(settings or {}),
        )
        self._wait(self._client.create_topics([new], **self._timeouts)[name], topic=name)

    def delete_topic(self, name: str) -> None:
        self._wait(self._client.delete_topics([name], **self._timeouts)[name], topic=name)

    def add_partitions(self, name: str, *, total: int) -> None:
        """So that the topic has `total`. Keys will go to other partitions than before."""
        new = NewPartitions(name, total)
        self._wait(self._client.create_partitions([new], **self._timeouts)[name], topic=name)

    def settings(self, topic: str) -> dict[str, TopicSetting]:
        """All settings of the topic, by name."""
        return self._settings(ConfigResource(ResourceType.TOPIC, topic), topic=topic)

    def node_settings(self, node_id: int) -> dict[str, TopicSetting]:
        """All settings of that node, by name; those of topics are what its topics begin with."""
        return self._settings(ConfigResource(ResourceType.BROKER, str(node_id)))

    def node_ids(self) -> list[int]:
        return sorted(self._addresses())

    def cluster(self) -> Cluster:
        """The nodes that are there, and which of them is the controller."""
        try:
            metadata = self._client.list_topics(timeout=self._connection.timeout_s)
        except KafkaException as exception:
            raise self._explained(exception) from None
        nodes = {node.id: f"{node.host}:{node.port}" for node in metadata.brokers.values()}
        return Cluster(dict(sorted(nodes.items())), int(metadata.controller_id))

    def sizes(self, topic: Topic) -> dict[TopicPartition, int]:
        """The bytes each partition takes on its leader; without those that nobody tells."""
        if not direct.is_possible(self._connection):
            return {}
        addresses = self._addresses()
        by_leader: dict[int, list[TopicPartition]] = {}
        for row, place in zip(topic.partitions, topic.topic_partitions, strict=True):
            by_leader.setdefault(row.leader, []).append(place)
        found: dict[TopicPartition, int] = {}
        for leader, places in by_leader.items():
            try:
                found |= direct.partition_sizes(self._connection, addresses[leader], places)
            except (ClientError, KeyError):
                continue
        return found

    def _addresses(self) -> dict[int, tuple[str, int]]:
        try:
            nodes = self._client.list_topics(timeout=self._connection.timeout_s).brokers
        except KafkaException as exception:
            raise self._explained(exception) from None
        return {node.id: (str(node.host), int(node.port)) for node in nodes.values()}

    def _settings(self, asked: ConfigResource, *, topic: str = "") -> dict[str, TopicSetting]:
        future = self._client.describe_configs([asked], **self._timeout)[asked]
        entries = sorted(self._wait(future, topic=topic).items())
        return {
            name: TopicSetting(
                entry.value, ConfigSource(entry.source).name.lower().replace("_", " ")
            )
            for name, entry in entries
        }

    def alter_settings(self, topic: str, changes: Mapping[str, str | None]) -> None:
        """Set each of `changes`; None takes the topic's own value away. All of them or none."""
        entries = [
            ConfigEntry(
                name,
                value,
                incremental_operation=(
                    AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET
                ),
            )
            for name, value in changes.items()
        ]
        asked = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
        future = self._client.incremental_alter_configs([asked], **self._timeout)[asked]
        self._wait(future, topic=topic)

    def group_settings(self, group: str) -> dict[str, TopicSetting]:
        """All settings of the group, by name; there need be no such group yet."""
        found = group_configs.describe(self._connection, group)
        return {name: TopicSetting(*found[name]) for name in sorted(found)}

    def alter_group_settings(self, group: str, changes: Mapping[str, str | None]) -> None:
        """As `alter_settings`, of a group of the consumer protocol."""
        group_configs.alter(self._connection, group, changes)

    def delete_records(self, before: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Delete what lies before the given offsets; gives where each partition begins now."""
        if not before:
            return {}
        rows = [confluent_kafka.TopicPartition(*place, offset) for place, offset in before.items()]
        futures = self._client.delete_records(rows, **self._timeouts)
        return {
            TopicPartition(row.topic, row.partition): self._wait(
                future, topic=row.topic
            ).low_watermark
            for row, future in futures.items()
        }

    def offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Offsets]:
        """Where each partition begins and ends now: two requests, however many partitions."""
        asked = list(partitions)
        starts = self._list_offsets(asked, _EARLIEST)
        ends = self._list_offsets(asked, _LATEST)
        return {partition: Offsets(starts[partition], ends[partition]) for partition in asked}

    def offsets_at(
        self, partitions: Iterable[TopicPartition], timestamp_ms: int
    ) -> dict[TopicPartition, int]:
        """Each partition's first record of that time or later; its end where there is none."""
        asked = list(partitions)
        found = self._list_offsets(asked, OffsetSpec.for_timestamp(timestamp_ms))
        ends = self._list_offsets(asked, _LATEST)
        return {
            partition: found[partition] if found[partition] >= 0 else ends[partition]
            for partition in asked
        }

    def _list_offsets(
        self, partitions: list[TopicPartition], spec: OffsetSpec
    ) -> dict[TopicPartition, int]:
        if not partitions:
            return {}
        asked = {confluent_kafka.TopicPartition(*partition): spec for partition in partitions}
        futures = self._client.list_offsets(asked, **self._timeout)
        return {
            TopicPartition(row.topic, row.partition): self._wait(future, topic=row.topic).offset
            for row, future in futures.items()
        }


def _partition(row: PartitionMetadata) -> Partition:
    return Partition(row.id, row.leader, tuple(row.replicas), tuple(row.isrs))
