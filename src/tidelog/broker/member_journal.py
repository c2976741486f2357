"""The metadata log of a cluster's member: the port behind which nodes agree, one way or the other.

`QuorumJournal` asks the other nodes, `ZooKeeperJournal` an ensemble. What is above knows only this.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from tidelog.metadata.image import Image
from tidelog.metadata.journal import MetadataJournal
from tidelog.metadata.records import MetadataRecord
from tidelog.model.clock import Now
from tidelog.model.ids import Endpoint, LeaderEpoch, NodeId, Offset
from tidelog.zookeeper.requests import AskZooKeeper, Word


class MemberJournal(MetadataJournal, Protocol):
    """A `MetadataJournal` that is shared, and of which at most one node is the controller."""

    failure: str | None
    """Why it can't go on here: the node must stop."""

    stranger: Endpoint | None
    """A node that was asked, and belongs to another cluster."""

    reports: list[str]
    """What the operator should know."""

    @property
    def applied_offset(self) -> Offset:
        """Of the last record given out."""
        ...

    @property
    def epoch(self) -> LeaderEpoch:
        """Grows with each controller."""
        ...

    @property
    def is_active(self) -> bool:
        """This node is the controller, and knows all that was decided before it was."""
        ...

    @property
    def leader_id(self) -> NodeId | None:
        """Who the controller is, as far as this node knows."""
        ...

    def take_restored(self) -> Image | None:
        """An image that is to take the place of all that was known."""
        ...

    def read_uncommitted(self) -> list[MetadataRecord]:
        """What lies beyond `take_committed`: a new controller decides on it, too."""
        ...

    def keep_snapshot(self, image: Image, now: Now) -> None:
        """Keep `image`, which has all that was given out so far, if the log has grown enough."""
        ...

    def connect(
        self,
        *,
        endpoint_of: Callable[[NodeId], Endpoint | None],
        answer: Callable[[int, Any], None],
        want_flush: Callable[[], None],
        newest_image: Callable[[], Image],
    ) -> None:
        """Before the first step: where other nodes are, how rows are answered, who flushes, and
        what the controller here decides on."""
        ...

    def configured_endpoint(self, node_id: NodeId) -> Endpoint | None:
        """Where a node is by this node's own configuration: the others may be told otherwise."""
        ...

    def told_endpoint(self, node_id: NodeId) -> Endpoint | None:
        """Where a node is by the word of others, newer than any metadata here may be."""
        ...

    def voter_endpoint(self, node_id: NodeId) -> Endpoint | None:
        """Where a node is that the metadata does not know, but the journal does."""
        ...

    @property
    def twin(self) -> tuple[LeaderEpoch, float] | None:
        """Another process is the controller by this node's id: in which epoch, and when that was
        last heard."""
        ...

    def join(self, cluster_id: str) -> None:
        """It is known now, and written down, to which cluster this node belongs."""
        ...

    def office_until_ms(self) -> float | None:
        """While this node is the controller: until when no other is elected, if that is known."""
        ...

    def next_deadline(self) -> float | None: ...

    def tick(self, now: Now) -> None: ...

    def resign(self, now: Now) -> None:
        """Hand over, if this node is the controller."""
        ...

    def validate(self) -> None: ...

    def describe(self) -> dict[str, Any]: ...

    # --- what others know of this node's session ------------------------------------------------

    @property
    def lease_until_ms(self) -> float:
        """Until then nobody is given what this node leads, for certain."""
        ...

    @property
    def present(self) -> frozenset[NodeId] | None:
        """Nodes that have such a lease, or may believe so; None where only heartbeats tell."""
        ...

    @property
    def may_join(self) -> bool:
        """Whether it is time to register with the controller."""
        ...

    @property
    def is_cut_off(self) -> bool:
        """Those who keep the log can't be reached from here."""
        ...

    @property
    def sessions_ended(self) -> int:
        """How often this node was told that it counts as gone."""
        ...

    def is_certain(self, now_ms: float) -> bool:
        """Of a controller: that nobody else can be it."""
        ...

    def note_broker_epoch(self, epoch: int, now: Now) -> None:
        """The cluster knows this node by another epoch now."""
        ...

    def hear(self, word: Word, now: Now) -> None:
        """ZooKeeper has said something."""
        ...

    def take_effects(self) -> list[AskZooKeeper]:
        """What is to be asked of ZooKeeper."""
        ...
