"""Why a cluster does not take a node, for the operator: one line, once.

A node that was killed is refused for a while by its own shadow: its last life still has a session.
So DUPLICATE_BROKER_REGISTRATION means something only if one and the same controller says it for
longer than a session lasts: then somebody else with this id is heard of, and this process must go,
because two with one id can only harm each other. It is the same if that one is the controller: then
the voters say so. Everything else may be put right while the node waits.
"""

from __future__ import annotations

from typing import NamedTuple

from tidelog.model.errors import ErrorCode
from tidelog.model.ids import Endpoint, LeaderEpoch, NodeId

_SESSIONS = 4.0
"""So long the same controller must say that the id is taken. A controller that is late itself (a
busy machine) lets the session of a dead node last longer than one timeout, and a node that ends
for a mistake must be started by hand."""


_LASTING = (ErrorCode.INCONSISTENT_CLUSTER_ID, ErrorCode.INVALID_REGISTRATION)
"""Nothing will change about these by itself."""


class Refusal(NamedTuple):
    """What the controller of that epoch has said, and when it was heard last."""

    error: ErrorCode
    controller_epoch: LeaderEpoch
    heard_ms: float


class Refusals:
    """What is to be said of the refusals of one life of a node."""

    def __init__(self, node_id: NodeId, *, session_ms: float) -> None:
        self._node_id = node_id
        self._session_ms = session_ms
        self._first: Refusal | None = None
        """When that was first said, and has been ever since."""
        self._said: list[str] = []
        self.reports: list[str] = []
        """To be told, and taken away, by whoever tells them."""
        self.expelled: str | None = None
        """Why this process must end."""

    def forget(self) -> None:
        """The node is not refused, or not any more."""
        self._first = None

    def look(self, refusal: Refusal, *, living_at: Endpoint | None) -> None:
        """It is refused. `living_at` is where the metadata says that a node of this id is."""
        if self._first is None or self._first[:2] != refusal[:2]:
            self._first = refusal
        if refusal.error in _LASTING:
            self._say(self._reason(refusal.error))
        elif refusal.error is not ErrorCode.DUPLICATE_BROKER_REGISTRATION:
            return  # there is another controller by now, or soon
        elif refusal.heard_ms - self._first.heard_ms > _SESSIONS * self._session_ms:
            self.expelled = self._taken(living_at)

    def met_stranger(self, endpoint: Endpoint, cluster_id: str) -> None:
        """A voter belongs to another cluster."""
        self._say(
            f"{endpoint} is not in cluster {cluster_id}, to which this data directory belongs: "
            "correct controller.quorum.voters, or give another --data-dir"
        )

    def _say(self, text: str) -> None:
        if text not in self._said:
            self._said.append(text)
            self.reports.append(text)

    def _reason(self, refusal: ErrorCode) -> str:
        if refusal is ErrorCode.INCONSISTENT_CLUSTER_ID:
            return (
                "the cluster refuses this node: its data directory belongs to another cluster; "
                "correct controller.quorum.voters, or give another --data-dir"
            )
        return f"the cluster refuses this node: {refusal.name}; it goes on asking"

    def _taken(self, living_at: Endpoint | None) -> str:
        where = "" if living_at is None else f" at {living_at}"
        return (
            f"the cluster has a living node {self._node_id}{where}: "
            "stop that one, or give this one another --node-id"
        )
