"""What the cluster knows, at one point of the metadata log. Immutable: a change makes a new image.

`replay` is the only mutator of the cluster's facts, live and at recovery. An image is shared freely
(responses are built from it, caches are keyed by its `version`) because nobody can change it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from tidelog.metadata.delta import Delta
from tidelog.metadata.draft import Draft, Unchecked
from tidelog.metadata.holdings import Holdings
from tidelog.metadata.invariants import check_holdings, check_partitions, check_topic_is_held
from tidelog.metadata.persistent import PersistentMap
from tidelog.metadata.records import (
    ClusterRecord,
    ConfigRecord,
    MetadataRecord,
    ProducerIdsRecord,
    RemoveTopicRecord,
    ResourceConfigRecord,
    TopicRecord,
)
from tidelog.metadata.states import Listener, NodeState, PartitionState, Resource, TopicState
from tidelog.model.ids import NO_TOPIC_ID, BrokerEpoch, NodeId, PartitionKey, TopicId
from tidelog.model.settings import Value, setting_named

__all__ = ["Image", "Listener", "NodeState", "PartitionState", "Resource", "TopicState"]

_NO_NODE_YET = BrokerEpoch(0)
_NO_CONFIGS: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Image:
    """All facts. `removed` are topics deleted by record, whose files may go: no others may. The
    oldest of very many are forgotten; whoever still has their files reports them and leaves them.
    `defaults` are settings of topics that say nothing themselves, and those of nodes, the same for
    all nodes. `resource_configs` are those of single nodes and groups. `holdings` are an index of
    the topics: which partitions each node keeps."""

    version: int = field(default=0, compare=False)
    cluster_id: str = ""
    nodes: Mapping[NodeId, NodeState] = field(default_factory=dict)
    topics: PersistentMap[str, TopicState] = field(default_factory=PersistentMap)
    names: PersistentMap[TopicId, str] = field(default_factory=PersistentMap)
    removed: Mapping[TopicId, str] = field(default_factory=dict)
    defaults: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    resource_configs: Mapping[Resource, Mapping[str, str]] = field(
        default_factory=lambda: MappingProxyType({})
    )
    next_producer_id: int = 0
    partition_count: int = 0
    last_broker_epoch: BrokerEpoch = _NO_NODE_YET
    holdings: Holdings = field(
        default_factory=lambda: MappingProxyType({}), compare=False, repr=False
    )
    _unchecked: Unchecked = field(default_factory=Unchecked, compare=False, repr=False)

    def topic_by_id(self, topic_id: TopicId) -> TopicState | None:
        name = self.names.get(topic_id)
        return None if name is None else self.topics[name]

    def partition(self, key: PartitionKey) -> PartitionState | None:
        topic = self.topic_by_id(key.topic_id)
        if topic is None or not 0 <= key.partition < len(topic.partitions):
            return None
        return topic.partitions[key.partition]

    def partitions(self) -> Iterator[PartitionState]:
        """All of them, in the order of creation."""
        for topic in self.topics.values():
            yield from topic.partitions

    def partitions_on(self, node_id: NodeId) -> list[PartitionState]:
        """Those the node is a replica of, in the order of creation."""
        holding = self.holdings.get(node_id)
        if holding is None:
            return []
        rank, topics = self.topics.rank, self.topics
        kept = sorted((rank(name.topic), name.partition, name.topic) for name in holding.kept)
        return [topics[topic].partitions[index] for _, index, topic in kept]

    def leads_any(self, node_id: NodeId) -> bool:
        holding = self.holdings.get(node_id)
        return holding is not None and holding.led > 0

    def is_usable(self, node_id: NodeId) -> bool:
        """Whether the node may lead now."""
        node = self.nodes.get(node_id)
        return node is not None and node.is_usable

    def usable_nodes(self) -> list[NodeState]:
        return [self.nodes[node_id] for node_id in sorted(self.nodes) if self.is_usable(node_id)]

    def unusable_nodes(self) -> list[NodeState]:
        """Those that are registered, and fenced or shutting down."""
        nodes = [self.nodes[node_id] for node_id in sorted(self.nodes)]
        return [node for node in nodes if not node.is_usable]

    def offline_replicas(self, state: PartitionState) -> list[NodeId]:
        """Replicas on nodes that are not there now."""
        return [
            node_id
            for node_id in state.replicas
            if node_id not in self.nodes or self.nodes[node_id].is_fenced
        ]

    def topic_value(self, topic: TopicState, name: str) -> Value:
        """A topic's setting as the whole cluster sees it: the topic's own, or the default."""
        setting = setting_named(name, "topic")
        text = topic.configs.get(name, self.defaults.get(name))
        return setting.default if text is None else setting.parse_recorded(text)

    def min_isr(self, state: PartitionState, *, replicas: int | None = None) -> int:
        """In-sync replicas below which nothing is committed: never more than there are replicas,
        or would be with so many `replicas`.

        Leader and controller must agree on it: the one stops committing below, the other then
        takes who leaves the ISR for eligible.
        """
        topic = self.topics[state.name.topic]
        count = len(state.replicas) if replicas is None else replicas
        return min(int(self.topic_value(topic, "min.insync.replicas")), count)

    def allows_unclean_election(self, topic: TopicState) -> bool:
        return bool(self.topic_value(topic, "unclean.leader.election.enable"))

    def configs_of(self, resource: Resource) -> Mapping[str, str]:
        """The settings that this node or group was given by clients."""
        return self.resource_configs.get(resource, _NO_CONFIGS)

    def replay(self, records: Iterable[MetadataRecord]) -> tuple[Image, Delta]:
        """The image after `records`, and what they changed."""
        draft = Draft(self)
        for record in records:
            draft.apply(record)
        draft.finish()
        if not draft.changes:
            return self, draft.delta
        after = replace(
            self,
            version=self.version + 1,
            **draft.changes,
            _unchecked=self._unchecked.plus(draft.delta, draft.current("names")),
        )
        return after, draft.delta

    def to_records(self) -> list[MetadataRecord]:
        """A snapshot: records that make an equal image out of an empty one."""
        return list(self.iter_records())

    def iter_records(self) -> Iterator[MetadataRecord]:
        """The same, one after the other."""
        yield ClusterRecord(cluster_id=self.cluster_id, last_broker_epoch=self.last_broker_epoch)
        yield ProducerIdsRecord(next_producer_id=self.next_producer_id)
        for topic_id, name in self.removed.items():
            yield RemoveTopicRecord(topic_id=topic_id, name=name)
        for node in self.nodes.values():
            yield node.to_record()
        yield from _settings(NO_TOPIC_ID, self.defaults)
        for resource, configs in self.resource_configs.items():
            for name, value in configs.items():
                yield ResourceConfigRecord(
                    resource_type=resource.kind, resource_name=resource.name, name=name, value=value
                )
        for topic in self.topics.values():
            yield TopicRecord(name=topic.name, topic_id=topic.topic_id)
            yield from _settings(topic.topic_id, topic.configs)
            for state in topic.partitions:
                yield state.to_record()

    def validate(self, *, whole: bool = False) -> None:
        """The invariants of CORRECTNESS I11 that hold of metadata alone. Looks only at what has
        changed since an image before this one was found right, unless the `whole` is asked for."""
        unchecked = self._unchecked
        assert len(self.names) == len(self.topics)
        if whole or unchecked.is_everything:
            assert self.partition_count == sum(len(t.partitions) for t in self.topics.values())
            assert all(node.epoch <= self.last_broker_epoch for node in self.nodes.values())
            check_holdings(self.holdings, self.partitions())
            names: Iterable[str] = self.topics
        else:
            names = [name for name in unchecked.topics if name in self.topics]
        for name in names:
            topic = self.topics[name]
            assert self.names[topic.topic_id] == name
            assert topic.topic_id not in self.removed
            check_partitions(topic, self.nodes, self.min_isr)
            check_topic_is_held(topic, self.holdings)
        unchecked.clear()


def _settings(topic_id: TopicId, configs: Mapping[str, str]) -> list[MetadataRecord]:
    return [
        ConfigRecord(topic_id=topic_id, name=name, value=value) for name, value in configs.items()
    ]
