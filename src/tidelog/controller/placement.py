"""Which nodes keep a partition, and which of them leads it."""

from __future__ import annotations

from collections.abc import Sequence

from tidelog.model.ids import NodeId


def choose_replicas(
    nodes: Sequence[NodeId], *, partitions: int, replication_factor: int, first: int
) -> list[tuple[NodeId, ...]]:
    """Replicas of each partition, the leader first: leaders go round the nodes from `first` on,
    followers to the nodes after their leader."""
    count = len(nodes)
    return [
        tuple(nodes[(first + index + step) % count] for step in range(replication_factor))
        for index in range(partitions)
    ]
