"""Which partitions a node has to do with: an index of the image, kept up by `Draft`.

A node that comes, goes or asks to leave concerns the partitions it keeps. Without the index all
partitions of the cluster would be looked at to find them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from tidelog.metadata.persistent import PersistentSet
from tidelog.metadata.states import PartitionState
from tidelog.model.ids import NO_LEADER, NodeId, TopicPartition


@dataclass(slots=True)
class Holding:
    """One node's: the partitions it is a replica of, and how many it leads, which are among them.
    `targets` and `preferred` are how many it keeps once reassignments are done, and of how many it
    is then the first replica. Constant once it is part of an image."""

    kept: PersistentSet[TopicPartition] = field(default_factory=PersistentSet)
    led: int = 0
    targets: int = 0
    preferred: int = 0

    def copy(self) -> Holding:
        return Holding(self.kept.copy(), self.led, self.targets, self.preferred)

    @property
    def is_needed(self) -> bool:
        return bool(self.kept or self.led or self.targets or self.preferred)

    def facts(self) -> tuple[frozenset[TopicPartition], int, int, int]:
        """To be compared."""
        return frozenset(self.kept), self.led, self.targets, self.preferred


Holdings = Mapping[NodeId, Holding]


class HoldingsChange:
    """The holdings of the next image in the making."""

    def __init__(self, before: Holdings) -> None:
        self._before = before
        self._changed: dict[NodeId, Holding] = {}

    def put(self, before: PartitionState | None, after: PartitionState | None) -> None:
        """A partition comes (there was none before), changes, or goes (there is none after)."""
        if before is not None and after is not None and before.replicas == after.replicas:
            if before.leader != after.leader or before.target_replicas != after.target_replicas:
                self._count(before, -1)
                self._count(after, +1)
            return
        if before is not None:
            self._count(before, -1)
            for node_id in before.replicas:
                self._of(node_id).kept.remove(before.name)
        if after is not None:
            self._count(after, +1)
            for node_id in after.replicas:
                self._of(node_id).kept.add(after.name)

    def finished(self) -> Holdings:
        for holding in self._changed.values():
            holding.kept.freeze()
        after = {**self._before, **self._changed}
        return {node_id: holding for node_id, holding in after.items() if holding.is_needed}

    def _count(self, state: PartitionState, change: int) -> None:
        if state.leader != NO_LEADER:
            self._of(state.leader).led += change
        targets = state.target_replicas
        for node_id in targets:
            self._of(node_id).targets += change
        if targets:
            self._of(targets[0]).preferred += change

    def _of(self, node_id: NodeId) -> Holding:
        if node_id not in self._changed:
            known = self._before.get(node_id)
            self._changed[node_id] = Holding() if known is None else known.copy()
        return self._changed[node_id]


def holdings_of(states: Iterable[PartitionState]) -> Holdings:
    """The whole index, from nothing."""
    change = HoldingsChange({})
    for state in states:
        change.put(None, state)
    return change.finished()
