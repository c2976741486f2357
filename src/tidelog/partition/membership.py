"""What replicas must know of their own node and of the others: one object for all of a node's.

`has_session` is the node's own doubt: without a live session the cluster may have chosen other
leaders already, so a leader here acknowledges nothing until it is back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tidelog.log.disk import DiskFull
from tidelog.metadata.image import NodeState
from tidelog.metadata.reserve import RESERVED
from tidelog.model.ids import NodeId, PartitionKey
from tidelog.partition.throttle import UNLIMITED, Throttle

UNKNOWN_BROKER_EPOCH = -1


@dataclass(frozen=True, slots=True)
class ReplicationSettings:
    """Kafka's `replica.*` settings that replicas obey."""

    lag_time_max_ms: int = 30_000
    fetch_max_bytes: int = 1_048_576
    fetch_response_max_bytes: int = 10_485_760
    fetch_wait_max_ms: int = 500
    fetch_min_bytes: int = 1
    fetch_backoff_ms: int = 1_000
    request_timeout_ms: int = 30_000
    throttled_rate: int = UNLIMITED
    leader_throttled_rate: int = UNLIMITED
    selects_by_rack: bool = True


FIRST_PAUSE_MS = 20
"""After a first failure: an election often reaches one side some milliseconds before the other."""


def pause_ms(failures: int, settings: ReplicationSettings) -> int:
    """How long to wait after so many failures in a row: twice as long each time, up to
    `replica.fetch.backoff.ms`."""
    return min(FIRST_PAUSE_MS << min(failures - 1, 16), settings.fetch_backoff_ms)


class Membership:
    """`node_id` is us; `broker_epoch` that of our registration; `nodes` as the image has them."""

    def __init__(self, node_id: NodeId, settings: ReplicationSettings | None = None) -> None:
        self.node_id = node_id
        self.settings = settings or ReplicationSettings()
        self.broker_epoch = UNKNOWN_BROKER_EPOCH
        self.has_session = True
        self.is_caught_up = True
        """False from the start of a member of a cluster until it has read of its own registration:
        until then its metadata may be of long ago. Whoever led then may still believe it does, and
        has less than was committed since; and a copy that was moved away then may be back."""
        self.may_lead = True
        """False from the start of a member of a cluster until it is let in: until then it may
        believe in a leadership that ended with its last life."""
        self.is_leaving = False
        """It has asked that others lead in its place."""
        self.nodes: Mapping[NodeId, NodeState] = {}
        self.throttle = Throttle()
        """Of what is fetched here for copies in the making."""
        self.leader_throttle = Throttle()
        """Of what copies in the making fetch from the leaders here."""
        self.awaiting_repair: dict[PartitionKey, None] = {}
        """Followers here that are damaged, and may not cut the rest while they are eligible."""
        self.may_fetch_from: dict[NodeId, None] = {}
        """Nodes from which there may be something to ask for now: something has happened to what is
        followed from there, or was asked for."""
        self.has_room = True
        """False while the disk is so full that the remaining space is reserved for metadata."""

    def may_be_in_sync(self, node_id: NodeId, broker_epoch: int) -> bool:
        """It is the incarnation that is registered now: of another one, what it said it had may be
        gone. A follower that does not tell its epoch (Fetch before v15) is left to the
        controller."""
        known = self.nodes.get(node_id)
        if known is None or getattr(known, "is_fenced", False):
            return False
        return broker_epoch in (UNKNOWN_BROKER_EPOCH, known.epoch)

    def check_room(self) -> None:
        """`DiskFull` if records may not take what is left of the disk."""
        if not self.has_room:
            raise DiskFull(RESERVED)

    def rack_of(self, node_id: NodeId) -> str | None:
        known = self.nodes.get(node_id)
        return None if known is None else known.rack
