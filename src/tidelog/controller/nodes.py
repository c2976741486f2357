"""Nodes: their registration at start, and blocks of producer ids for them to give out."""

from __future__ import annotations

from random import Random
from uuid import UUID

from tidelog.controller.decision import Decision
from tidelog.metadata.image import Image, NodeState
from tidelog.metadata.records import (
    ClusterRecord,
    MetadataRecord,
    NodeRecord,
    PartitionRecord,
    ProducerIdsRecord,
)
from tidelog.model.ids import NodeId

PRODUCER_ID_BLOCK = 1000
"""Producer ids per record: a restart wastes at most this many of 2^63."""


def decide_cluster_identity(image: Image, random: Random) -> Decision[str]:
    """The cluster's name for itself, made once."""
    if image.cluster_id:
        return Decision([], image.cluster_id)
    cluster_id = str(UUID(int=random.getrandbits(128), version=4))
    return Decision([ClusterRecord(cluster_id=cluster_id)], cluster_id)


def decide_register_node(
    image: Image, node_id: NodeId, *, host: str, port: int, rack: str | None
) -> Decision[NodeState]:
    """A start of the node: a new epoch, perhaps a new address."""
    known = image.nodes.get(node_id)
    epoch = 1 if known is None else known.epoch + 1
    record = NodeRecord(node_id=node_id, host=host, port=port, rack=rack, epoch=epoch)
    return Decision([record], NodeState(node_id, host, port, rack, epoch))


def decide_lead_after_crash(image: Image, node_id: NodeId) -> Decision[None]:
    """A new leader epoch for all the node leads: after a crash its logs may be shorter than what
    was read from them under `flush.policy=os`, and only a new epoch lets a client notice."""
    records: list[MetadataRecord] = [
        PartitionRecord(
            topic_id=state.key.topic_id,
            partition=state.key.partition,
            replicas=list(state.replicas),
            isr=list(state.isr),
            leader=state.leader,
            leader_epoch=state.leader_epoch + 1,
        )
        for topic in image.topics.values()
        for state in topic.partitions
        if state.leader == node_id
    ]
    return Decision(records, None)


def decide_allocate_producer_ids(image: Image) -> Decision[range]:
    """The next block of producer ids, never to be given out again."""
    first = image.next_producer_id
    ids = range(first, first + PRODUCER_ID_BLOCK)
    return Decision([ProducerIdsRecord(next_producer_id=ids.stop)], ids)
