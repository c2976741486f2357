"""What a batch of metadata records changed: what a node must do beyond replacing its image."""

from __future__ import annotations

from dataclasses import dataclass, field

from tidelog.metadata.states import NodeState, PartitionState
from tidelog.model.ids import NodeId, PartitionKey, TopicId


@dataclass(frozen=True, slots=True)
class PartitionDelta:
    """A partition before (None: there was none) and after the batch."""

    before: PartitionState | None
    after: PartitionState

    @property
    def is_new(self) -> bool:
        return self.before is None

    @property
    def has_new_leader_epoch(self) -> bool:
        """Somebody else leads, or the same one anew."""
        return self.before is None or self.before.leader_epoch != self.after.leader_epoch

    @property
    def has_new_isr(self) -> bool:
        return self.before is None or self.before.isr != self.after.isr

    @property
    def has_new_replicas(self) -> bool:
        return self.before is None or self.before.replicas != self.after.replicas


@dataclass(frozen=True, slots=True)
class NodeDelta:
    """A node before (None: not registered) and after (None: no longer) the batch."""

    before: NodeState | None
    after: NodeState | None


@dataclass(slots=True)
class Delta:
    """Dictionaries keep the records' order, so that every run does the same in the same order.

    A partition whose topic was removed in the same batch is in `removed` only.
    """

    created: list[TopicId] = field(default_factory=list)
    partitions: dict[PartitionKey, PartitionDelta] = field(default_factory=dict)
    configured: list[TopicId] = field(default_factory=list)
    removed: dict[TopicId, str] = field(default_factory=dict)
    nodes: dict[NodeId, NodeDelta] = field(default_factory=dict)
    has_new_defaults: bool = False
    """What topics have that say nothing themselves: every topic may be concerned."""
