"""Topics: create, list, describe, delete; and where their partitions begin and end."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import confluent_kafka
from confluent_kafka import KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    NewTopic,
    OffsetSpec,
    PartitionMetadata,
)

from tidelog.client.connection import Connection
from tidelog.client.errors import ClientError, explained_exception, no_partition, no_topic
from tidelog.model.ids import TopicPartition

Answer = TypeVar("Answer")

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

    def chosen(self, partition: int | None) -> list[TopicPartition]:
        """That partition, or all of them; a `ClientError` if the topic has no such partition."""
        if partition is None:
            return self.topic_partitions
        if all(partition != known.number for known in self.partitions):
            raise no_partition(self.name, partition, count=len(self.partitions))
        return [TopicPartition(self.name, partition)]


class Admin:
    """Asks and changes what the cluster knows. Every failure is a `ClientError`."""

    def __init__(self, connection: Connection) -> None:
        connection.probe()
        self._connection = connection
        self._client = AdminClient(connection.configuration())

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
        self._wait(self._client.create_topics([new], **self._deadlines())[name], topic=name)

    def delete_topic(self, name: str) -> None:
        self._wait(self._client.delete_topics([name], **self._deadlines())[name], topic=name)

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
        futures = self._client.list_offsets(asked, request_timeout=self._connection.timeout_s)
        return {
            TopicPartition(row.topic, row.partition): self._wait(future, topic=row.topic).offset
            for row, future in futures.items()
        }

    def _deadlines(self) -> dict[str, float]:
        return {
            "operation_timeout": self._connection.timeout_s,
            "request_timeout": self._connection.timeout_s,
        }

    def _wait(self, future: Future[Answer], *, topic: str) -> Answer:
        try:
            return future.result()
        except KafkaException as exception:
            raise self._explained(exception, topic=topic) from None

    def _explained(self, exception: KafkaException, *, topic: str = "") -> ClientError:
        return explained_exception(exception, bootstrap=self._connection.bootstrap, topic=topic)


def _partition(row: PartitionMetadata) -> Partition:
    return Partition(row.id, row.leader, tuple(row.replicas), tuple(row.isrs))
