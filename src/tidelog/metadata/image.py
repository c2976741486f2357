"""What the cluster knows, at one point of the metadata log. Immutable: a change makes a new image.

`replay` is the only mutator of the cluster's facts, live and at recovery. An image is shared freely
(responses are built from it, caches are keyed by its `version`) because nobody can change it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from tidelog.metadata.delta import Delta
from tidelog.metadata.records import (
    ClusterRecord,
    ConfigRecord,
    MetadataRecord,
    NodeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from tidelog.model.ids import LeaderEpoch, NodeId, PartitionKey, TopicId, TopicPartition


@dataclass(frozen=True, slots=True)
class NodeState:
    """A registered node and where clients reach it. `epoch` grows with each of its starts."""

    node_id: NodeId
    host: str
    port: int
    rack: str | None
    epoch: int


@dataclass(frozen=True, slots=True)
class PartitionState:
    """Who keeps a partition and who leads it."""

    key: PartitionKey
    name: TopicPartition
    replicas: tuple[NodeId, ...]
    isr: tuple[NodeId, ...]
    leader: NodeId
    leader_epoch: LeaderEpoch
    partition_epoch: int = 0
    adding_replicas: tuple[NodeId, ...] = ()
    removing_replicas: tuple[NodeId, ...] = ()
    elr: tuple[NodeId, ...] = ()


@dataclass(frozen=True, slots=True)
class TopicState:
    """A topic: its lasting id, its partitions in order, and the settings given to it by hand."""

    name: str
    topic_id: TopicId
    partitions: tuple[PartitionState, ...] = ()
    configs: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def is_internal(self) -> bool:
        return self.name.startswith("__")


@dataclass(frozen=True, slots=True)
class Image:
    """All facts. `removed` are topics deleted by record, whose files may go: no others may."""

    version: int = 0
    cluster_id: str = ""
    nodes: Mapping[NodeId, NodeState] = field(default_factory=dict)
    topics: Mapping[str, TopicState] = field(default_factory=dict)
    names: Mapping[TopicId, str] = field(default_factory=dict)
    removed: frozenset[TopicId] = frozenset()
    next_producer_id: int = 0
    partition_count: int = 0

    def topic_by_id(self, topic_id: TopicId) -> TopicState | None:
        name = self.names.get(topic_id)
        return None if name is None else self.topics[name]

    def replay(self, records: Iterable[MetadataRecord]) -> tuple[Image, Delta]:
        """The image after `records`, and what they changed."""
        draft = _Draft(self)
        for record in records:
            draft.apply(record)
        return draft.finish()

    def validate(self) -> None:
        """The invariants of CORRECTNESS I11 that hold of metadata alone."""
        assert len(self.names) == len(self.topics)
        assert self.partition_count == sum(len(t.partitions) for t in self.topics.values())
        for topic in self.topics.values():
            assert self.names[topic.topic_id] == topic.name
            assert topic.topic_id not in self.removed
            for index, state in enumerate(topic.partitions):
                assert state.key == PartitionKey(topic.topic_id, index)
                assert all(node in state.replicas for node in state.isr)
                assert state.leader in state.isr


class _Draft:
    """The next image in the making: copies a mapping when first written to, then shares it."""

    def __init__(self, image: Image) -> None:
        self._image = image
        self._changes: dict[str, Any] = {}
        self._copied: set[str] = set()
        self._delta = Delta()

    def apply(self, record: MetadataRecord) -> None:
        _APPLY[type(record)](self, record)

    def finish(self) -> tuple[Image, Delta]:
        if not self._changes:
            return self._image, self._delta
        version = self._image.version + 1
        return replace(self._image, version=version, **self._changes), self._delta

    def _mutable(self, name: str) -> Any:
        if name not in self._copied:
            self._copied.add(name)
            self._changes[name] = dict(getattr(self._image, name))
        return self._changes[name]

    def _current(self, name: str) -> Any:
        return self._changes.get(name, getattr(self._image, name))

    def cluster(self, record: ClusterRecord) -> None:
        self._changes["cluster_id"] = record.cluster_id

    def node(self, record: NodeRecord) -> None:
        node_id = NodeId(record.node_id)
        self._mutable("nodes")[node_id] = NodeState(
            node_id, record.host, record.port, record.rack, record.epoch
        )

    def topic(self, record: TopicRecord) -> None:
        topic_id = TopicId(record.topic_id)
        self._mutable("topics")[record.name] = TopicState(record.name, topic_id)
        self._mutable("names")[topic_id] = record.name
        self._delta.created.append(topic_id)

    def partition(self, record: PartitionRecord) -> None:
        topic_id = TopicId(record.topic_id)
        topics = self._mutable("topics")
        topic: TopicState = topics[self._current("names")[topic_id]]
        state = PartitionState(
            key=PartitionKey(topic_id, record.partition),
            name=TopicPartition(topic.name, record.partition),
            replicas=tuple(NodeId(node) for node in record.replicas),
            isr=tuple(NodeId(node) for node in record.isr),
            leader=NodeId(record.leader),
            leader_epoch=LeaderEpoch(record.leader_epoch),
        )
        partitions = list(topic.partitions)
        if record.partition == len(partitions):
            partitions.append(state)
            self._changes["partition_count"] = self._current("partition_count") + 1
        else:
            partitions[record.partition] = state
        topics[topic.name] = replace(topic, partitions=tuple(partitions))
        self._delta.partitions[state.key] = state.name

    def config(self, record: ConfigRecord) -> None:
        topics = self._mutable("topics")
        topic: TopicState = topics[self._current("names")[TopicId(record.topic_id)]]
        configs = {name: value for name, value in topic.configs.items() if name != record.name}
        if record.value is not None:
            configs[record.name] = record.value
        topics[topic.name] = replace(topic, configs=MappingProxyType(configs))
        self._delta.configured.append(topic.topic_id)

    def remove_topic(self, record: RemoveTopicRecord) -> None:
        topic_id = TopicId(record.topic_id)
        name = self._mutable("names").pop(topic_id)
        topic: TopicState = self._mutable("topics").pop(name)
        count = self._current("partition_count") - len(topic.partitions)
        self._changes["partition_count"] = count
        self._changes["removed"] = self._current("removed") | {topic_id}
        self._delta.removed[topic_id] = name

    def producer_ids(self, record: ProducerIdsRecord) -> None:
        self._changes["next_producer_id"] = record.next_producer_id


_APPLY: dict[type[MetadataRecord], Callable[[_Draft, Any], None]] = {
    ClusterRecord: _Draft.cluster,
    NodeRecord: _Draft.node,
    TopicRecord: _Draft.topic,
    PartitionRecord: _Draft.partition,
    ConfigRecord: _Draft.config,
    RemoveTopicRecord: _Draft.remove_topic,
    ProducerIdsRecord: _Draft.producer_ids,
}
