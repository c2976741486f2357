"""Which nodes keep a partition, and which of them leads it.

Three wishes, in this order: the copies of one partition are in different racks, as far as there
are racks; one topic's leaders and copies are spread evenly over the nodes; and so are all topics'
together. Spreading a topic comes before levelling the nodes: a new, empty node would otherwise get
all of the next topic, and be its bottleneck.

A node that is registered but fenced, or shutting down, gets a copy only where the usable nodes are
fewer than the replication factor; it never comes first, since the first replica leads.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from tidelog.metadata.image import Image, NodeState
from tidelog.model.ids import NodeId


@dataclass(slots=True)
class Load:
    """Copies and leaders per node: of one topic, or of all."""

    replicas: dict[NodeId, int] = field(default_factory=dict)
    leaders: dict[NodeId, int] = field(default_factory=dict)

    def add(self, replicas: Sequence[NodeId]) -> None:
        """One partition more; its first replica is to lead it."""
        for node_id in replicas:
            self.replicas[node_id] = self.replicas.get(node_id, 0) + 1
        if replicas:
            self.leaders[replicas[0]] = self.leaders.get(replicas[0], 0) + 1


def load_of(image: Image) -> Load:
    """What every node has been given, wherever the leaders are at the moment."""
    load = Load()
    for node_id, holding in image.holdings.items():
        load.replicas[node_id], load.leaders[node_id] = holding.targets, holding.preferred
    return load


def choose_replicas(
    nodes: Sequence[NodeState],
    *,
    partitions: int,
    replication_factor: int,
    first: int,
    load: Load | None = None,
    topic_load: Load | None = None,
    unusable: Sequence[NodeState] = (),
) -> list[tuple[NodeId, ...]]:
    """Replicas of each partition, the leader first. Nodes that are equal otherwise are taken in
    turn from `first` on. `load` is what they have of all topics, `topic_load` of this one.
    `unusable` nodes make up what the `nodes` are too few for."""
    turn = {node.node_id: (index - first) % len(nodes) for index, node in enumerate(nodes)}
    turn |= {node.node_id: index for index, node in enumerate(unusable, len(nodes))}
    of_topic = topic_load or Load()
    of_all = load or Load()
    placed = []
    for _ in range(partitions):
        leader = min(
            nodes,
            key=lambda node: (
                of_topic.leaders.get(node.node_id, 0),
                of_topic.replicas.get(node.node_id, 0),
                of_all.leaders.get(node.node_id, 0),
                turn[node.node_id],
            ),
        )
        chosen = [leader]
        while len(chosen) < replication_factor:
            remaining = nodes if len(chosen) < len(nodes) else unusable
            chosen.append(choose_replica(remaining, chosen, [of_topic, of_all], turn))
        replicas = tuple(node.node_id for node in chosen)
        of_topic.add(replicas)
        of_all.add(replicas)
        placed.append(replicas)
    return placed


def choose_replica(
    nodes: Sequence[NodeState],
    beside: Sequence[NodeState],
    loads: Collection[Load],
    turn: dict[NodeId, int],
) -> NodeState:
    """One more node for a partition that has the nodes `beside`; there must be one."""
    racks = [node.rack for node in beside if node.rack is not None]
    taken = {node.node_id for node in beside}
    last = turn[beside[-1].node_id] if beside and beside[-1].node_id in turn else 0
    return min(
        (node for node in nodes if node.node_id not in taken),
        key=lambda node: (
            0 if node.rack is None else racks.count(node.rack),
            [load.replicas.get(node.node_id, 0) for load in loads],
            (turn[node.node_id] - last) % len(nodes),
        ),
    )
