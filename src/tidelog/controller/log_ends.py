"""How much of a partition's log each replica has: what an unclean election is decided on.

The controller keeps no such facts. While nobody leads the partition its replicas don't change, so
they are asked (`broker/log_inquiry.py`), and their answers come with the command that elects.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tidelog.metadata.image import Image, PartitionState
from tidelog.model.ids import BrokerEpoch, LeaderEpoch, NodeId, Offset, PartitionKey


@dataclass(frozen=True, slots=True)
class LogEnd:
    """Of one replica: the leader epoch of its last record, and where its log ends. `broker_epoch`
    is the registration under which the node was asked."""

    broker_epoch: BrokerEpoch
    last_epoch: LeaderEpoch
    log_end_offset: Offset


@dataclass(frozen=True, slots=True)
class LogEnds:
    """Of one partition, asked for while nobody led it in `leader_epoch`."""

    leader_epoch: LeaderEpoch
    by_node: Mapping[NodeId, LogEnd] = field(default_factory=dict)

    def current(self, image: Image, state: PartitionState) -> Mapping[NodeId, LogEnd]:
        """What still holds: a later leader may have written, and a node that has registered again
        may have lost what it told of."""
        if state.leader_epoch != self.leader_epoch:
            return {}
        return {
            node_id: end
            for node_id, end in self.by_node.items()
            if node_id in image.nodes and image.nodes[node_id].epoch == end.broker_epoch
        }


LogEndsByPartition = Mapping[PartitionKey, LogEnds]


def choose_fullest(candidates: Sequence[NodeId], log_ends: Mapping[NodeId, LogEnd]) -> NodeId:
    """The candidate with the most of the log, by the rule that Raft has for votes: the later last
    epoch, then the larger end offset. So one whose directory was lost comes after all that hold a
    record. One that did not say what it has is last; among equals the first is taken."""

    def rank(node_id: NodeId) -> tuple[bool, int, int]:
        end = log_ends.get(node_id)
        return (False, 0, 0) if end is None else (True, end.last_epoch, end.log_end_offset)

    return max(candidates, key=rank)
