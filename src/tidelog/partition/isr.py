"""Who is in sync: what is committed, what may have been, and the one proposal under way.

The in-sync set is a fact of the metadata, changed by the controller on the leader's proposal. From
the moment a proposal leaves until the image answers it, the controller may act on either set: elect
a member of the proposed one, say. So the watermark is taken over the **maximal** set, committed and
proposed together. A proposal names the partition epoch it is based on and only one can be accepted
on that; so once the image has a later partition epoch, all of them are settled.

    propose ──► in flight ──► accepted, or based on old facts ──► wait for the image
                   │ ▲   └──► refused at the first attempt: it never was
                   ▼ │
                  lost (no answer: it may have been accepted) ──► the same again, after a pause
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from tidelog.metadata.image import PartitionState
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import LeaderEpoch, NodeId, PartitionKey

RETRY_MS = 500
"""Between a proposal that was refused or got lost and the next."""

IMAGE_PATIENCE_MS = 2_000
"""How long the image is waited for that an answer leaves the rest to."""

LEFT_TO_THE_IMAGE = frozenset(
    (ErrorCode.NONE, ErrorCode.INVALID_UPDATE_VERSION, ErrorCode.FENCED_LEADER_EPOCH)
)
"""Accepted, or based on facts that are no longer true: what is true comes with the image."""

REFUSED = frozenset((ErrorCode.INELIGIBLE_REPLICA, ErrorCode.INVALID_REQUEST))
"""The controller has looked at the proposal and said no."""


class Member(NamedTuple):
    """A member with the epoch of its registration, by which the controller tells a restart."""

    node_id: NodeId
    broker_epoch: int


@dataclass(frozen=True, slots=True)
class ProposeIsr:
    """To the controller, as AlterPartition."""

    key: PartitionKey
    leader_epoch: LeaderEpoch
    partition_epoch: int
    isr: tuple[Member, ...]

    @property
    def nodes(self) -> tuple[NodeId, ...]:
        return tuple(member.node_id for member in self.isr)


class Isr:
    """One leadership's view of the in-sync set."""

    __slots__ = (
        "_is_unsure",
        "_retry_ms",
        "committed",
        "eligible",
        "in_flight",
        "partition_epoch",
        "uncertain",
    )

    def __init__(self, state: PartitionState) -> None:
        self.committed = state.isr
        self.eligible = state.elr
        """Out of sync, but with all that is committed: nothing is while so few are in sync."""
        self.partition_epoch = state.partition_epoch
        self.uncertain: tuple[NodeId, ...] = ()
        """Nodes that a proposal on this partition epoch has added, perhaps with success."""
        self.in_flight: ProposeIsr | None = None
        self._is_unsure = False
        """A proposal on this partition epoch got lost: it may have been accepted all the same."""
        self._retry_ms: float | None = None

    @property
    def maximal(self) -> tuple[NodeId, ...]:
        return self.committed + self.uncertain

    def follow(self, state: PartitionState) -> None:
        """The image says who is in sync."""
        if state.partition_epoch < self.partition_epoch:
            return
        if state.partition_epoch > self.partition_epoch:
            self.uncertain = ()
            self.in_flight = None
            self._is_unsure = False
            self._retry_ms = None
        self.committed, self.eligible = state.isr, state.elr
        self.uncertain = tuple(node for node in self.uncertain if node not in state.isr)
        self.partition_epoch = state.partition_epoch

    def propose(
        self, key: PartitionKey, leader_epoch: LeaderEpoch, isr: tuple[Member, ...]
    ) -> ProposeIsr:
        """From here on the proposed members count."""
        assert self.in_flight is None, "one proposal at a time"
        self.in_flight = ProposeIsr(key, leader_epoch, self.partition_epoch, isr)
        added = [node for node in self.in_flight.nodes if node not in self.maximal]
        self.uncertain = (*self.uncertain, *added)
        self._retry_ms = None
        return self.in_flight

    def answered(self, proposal: ProposeIsr, error: ErrorCode, now_ms: float) -> None:
        """The controller's word on `proposal`; `NETWORK_EXCEPTION` if there was none."""
        if proposal != self.in_flight:
            return  # the image was quicker
        if error is ErrorCode.NONE and sorted(proposal.nodes) == sorted(self.committed):
            # It asked for what is: no record comes of that, and no image to wait for. One that got
            # lost before may still arrive, so who was uncertain stays so until the next.
            self.in_flight = None
            self._retry_ms = now_ms + RETRY_MS
            return
        if error in LEFT_TO_THE_IMAGE:
            # It may have been the word of a controller that was replaced without knowing it.
            self._retry_ms = now_ms + IMAGE_PATIENCE_MS
            self._is_unsure = True
            return
        self._retry_ms = now_ms + RETRY_MS
        if error not in REFUSED:
            self._is_unsure = True
            return
        self.in_flight = None
        if not self._is_unsure:
            self.uncertain = ()

    def may_propose(self, now_ms: float) -> bool:
        """Nothing is under way, and the last refusal is long enough ago."""
        return self.in_flight is None and (self._retry_ms is None or now_ms >= self._retry_ms)

    def again(self, now_ms: float) -> ProposeIsr | None:
        """The proposal that got lost, if it is time."""
        if self.in_flight is None or self._retry_ms is None or now_ms < self._retry_ms:
            return None
        self._retry_ms = None
        return self.in_flight

    def next_deadline(self) -> float | None:
        return self._retry_ms
