"""The next image in the making: one function per kind of record.

A mapping is copied when first written to, then shared by all later images that leave it alone. The
copy of a large one shares what is not written to (`persistent.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Protocol

from tidelog.metadata.delta import Delta, NodeDelta, PartitionDelta
from tidelog.metadata.holdings import Holdings, HoldingsChange
from tidelog.metadata.persistent import PersistentMap
from tidelog.metadata.records import (
    ClusterRecord,
    ConfigRecord,
    MetadataRecord,
    NodeChangeRecord,
    NodeRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RemoveTopicRecord,
    ResourceConfigRecord,
    TopicRecord,
    UnregisterNodeRecord,
)
from tidelog.metadata.states import NodeState, PartitionState, Resource, TopicState
from tidelog.model.ids import NO_TOPIC_ID, BrokerEpoch, NodeId, TopicId
from tidelog.model.limits import MAX_REMOVED_TOPICS


class Facts(Protocol):
    """What a draft is made from: an image, whose class is made from drafts."""

    @property
    def names(self) -> Mapping[TopicId, str]: ...

    @property
    def holdings(self) -> Holdings: ...


@dataclass(slots=True)
class Unchecked:
    """What `Image.validate` has yet to look at. The one thing about an image that moves."""

    is_everything: bool = True
    topics: tuple[str, ...] = ()

    def plus(self, delta: Delta, names: Mapping[TopicId, str]) -> Unchecked:
        """After the next batch. A node that lost its standing concerns every partition. Where all
        is unchecked, no names are gathered: nobody may ever validate, and they would pile up."""
        is_everything = self.is_everything or delta.has_new_defaults
        for change in delta.nodes.values():
            is_everything |= change.after is None or change.after.is_fenced
        if is_everything:
            return Unchecked()
        touched = [key.topic_id for key in delta.partitions] + delta.configured + delta.created
        found = {names[topic_id]: None for topic_id in touched if topic_id in names}
        return Unchecked(is_everything, tuple({**dict.fromkeys(self.topics), **found}))

    def clear(self) -> None:
        self.is_everything, self.topics = False, ()


class Draft:
    """Apply records, `finish`, then take `changes` (the fields of the next image) and `delta`."""

    def __init__(self, image: Facts) -> None:
        self._image = image
        self.changes: dict[str, Any] = {}
        self._copied: set[str] = set()
        self._partitions: dict[str, list[PartitionState]] = {}
        """Of topics whose partitions change, until all have: a topic may have very many."""
        self._holdings: HoldingsChange | None = None
        self.delta = Delta()

    def apply(self, record: MetadataRecord) -> None:
        _APPLY[type(record)](self, record)

    def finish(self) -> None:
        for name, partitions in self._partitions.items():
            topics = self._mutable("topics")
            topics[name] = replace(topics[name], partitions=tuple(partitions))
        if self._holdings is not None:
            self.changes["holdings"] = self._holdings.finished()
        for changed in self.changes.values():
            if isinstance(changed, PersistentMap):
                changed.freeze()

    def current(self, name: str) -> Any:
        return self.changes.get(name, getattr(self._image, name))

    def _mutable(self, name: str) -> Any:
        if name not in self._copied:
            self._copied.add(name)
            before = getattr(self._image, name)
            is_shared = isinstance(before, PersistentMap)
            self.changes[name] = before.copy() if is_shared else dict(before)
        return self.changes[name]

    def _topic(self, topic_id: TopicId) -> TopicState:
        """Its partitions are in `_partitions_of`."""
        topic: TopicState = self.current("topics")[self.current("names")[topic_id]]
        return topic

    def _partitions_of(self, topic: TopicState) -> list[PartitionState]:
        if topic.name not in self._partitions:
            self._partitions[topic.name] = list(topic.partitions)
        return self._partitions[topic.name]

    # --- the cluster and its nodes ------------------------------------------------------------

    def cluster(self, record: ClusterRecord) -> None:
        self.changes["cluster_id"] = record.cluster_id
        self._saw_epoch(record.last_broker_epoch)

    def node(self, record: NodeRecord) -> None:
        self._put_node(NodeState.of(record))
        self._saw_epoch(record.epoch)

    def node_change(self, record: NodeChangeRecord) -> None:
        known: NodeState = self.current("nodes")[NodeId(record.node_id)]
        self._put_node(known.changed(record))

    def unregister_node(self, record: UnregisterNodeRecord) -> None:
        node_id = NodeId(record.node_id)
        gone: NodeState = self._mutable("nodes").pop(node_id)
        earlier = self.delta.nodes.get(node_id)
        self.delta.nodes[node_id] = NodeDelta(earlier.before if earlier else gone, None)

    def _put_node(self, node: NodeState) -> None:
        nodes = self._mutable("nodes")
        earlier = self.delta.nodes.get(node.node_id)
        before = earlier.before if earlier else nodes.get(node.node_id)
        nodes[node.node_id] = node
        self.delta.nodes[node.node_id] = NodeDelta(before, node)

    def _saw_epoch(self, epoch: int) -> None:
        if epoch > self.current("last_broker_epoch"):
            self.changes["last_broker_epoch"] = BrokerEpoch(epoch)

    def producer_ids(self, record: ProducerIdsRecord) -> None:
        self.changes["next_producer_id"] = record.next_producer_id

    def resource_config(self, record: ResourceConfigRecord) -> None:
        resource = Resource(record.resource_type, record.resource_name)
        resources = self._mutable("resource_configs")
        configs = _with_setting(resources.get(resource, {}), record)
        if configs:
            resources[resource] = configs
        else:
            resources.pop(resource, None)

    # --- topics -------------------------------------------------------------------------------

    def topic(self, record: TopicRecord) -> None:
        topic_id = TopicId(record.topic_id)
        self._mutable("topics")[record.name] = TopicState(record.name, topic_id)
        self._mutable("names")[topic_id] = record.name
        self.delta.created.append(topic_id)

    def config(self, record: ConfigRecord) -> None:
        topic_id = TopicId(record.topic_id)
        if topic_id == NO_TOPIC_ID:
            self.changes["defaults"] = _with_setting(self.current("defaults"), record)
            self.delta.has_new_defaults = True
            return
        topic = self._topic(topic_id)
        configs = _with_setting(topic.configs, record)
        self._mutable("topics")[topic.name] = replace(topic, configs=configs)
        self.delta.configured.append(topic_id)

    def remove_topic(self, record: RemoveTopicRecord) -> None:
        topic_id = TopicId(record.topic_id)
        name: str | None = self.current("names").get(topic_id)
        if name is not None:
            del self._mutable("names")[topic_id]
            partitions = self._partitions_of(self.current("topics")[name])
            del self._mutable("topics")[name]
            del self._partitions[name]
            self.changes["partition_count"] = self.current("partition_count") - len(partitions)
            self.delta.removed[topic_id] = name
            for state in partitions:
                self._hold(state, None)
                self.delta.partitions.pop(state.key, None)
        removed = self._mutable("removed")
        removed[topic_id] = name or record.name
        if len(removed) > MAX_REMOVED_TOPICS:
            del removed[next(iter(removed))]

    # --- partitions ---------------------------------------------------------------------------

    def partition(self, record: PartitionRecord) -> None:
        topic = self._topic(TopicId(record.topic_id))
        partitions = self._partitions_of(topic)
        state = PartitionState.of(record, topic.name)
        if record.partition < len(partitions):
            # An old log says it whole where a change is meant; the epoch must not go back.
            least = partitions[record.partition].partition_epoch + 1
            state = replace(state, partition_epoch=max(least, state.partition_epoch))
            self._put_partition(partitions, state)
            return
        partitions.append(state)
        self._hold(None, state)
        self.changes["partition_count"] = self.current("partition_count") + 1
        self.delta.partitions[state.key] = PartitionDelta(None, state)

    def partition_change(self, record: PartitionChangeRecord) -> None:
        partitions = self._partitions_of(self._topic(TopicId(record.topic_id)))
        self._put_partition(partitions, partitions[record.partition].changed(record))

    def _put_partition(self, partitions: list[PartitionState], state: PartitionState) -> None:
        before = partitions[state.key.partition]
        partitions[state.key.partition] = state
        self._hold(before, state)
        earlier = self.delta.partitions.get(state.key)
        self.delta.partitions[state.key] = PartitionDelta(
            before if earlier is None else earlier.before, state
        )

    def _hold(self, before: PartitionState | None, after: PartitionState | None) -> None:
        if self._holdings is None:
            self._holdings = HoldingsChange(self._image.holdings)
        self._holdings.put(before, after)


def _with_setting(
    configs: Mapping[str, str], record: ConfigRecord | ResourceConfigRecord
) -> Mapping[str, str]:
    kept = {name: value for name, value in configs.items() if name != record.name}
    if record.value is not None:
        kept[record.name] = record.value
    return MappingProxyType(kept)


_APPLY: dict[type[MetadataRecord], Callable[[Draft, Any], None]] = {
    ClusterRecord: Draft.cluster,
    NodeRecord: Draft.node,
    NodeChangeRecord: Draft.node_change,
    UnregisterNodeRecord: Draft.unregister_node,
    TopicRecord: Draft.topic,
    PartitionRecord: Draft.partition,
    PartitionChangeRecord: Draft.partition_change,
    ConfigRecord: Draft.config,
    ResourceConfigRecord: Draft.resource_config,
    RemoveTopicRecord: Draft.remove_topic,
    ProducerIdsRecord: Draft.producer_ids,
}
