"""Why a cluster does not take a node, for the operator: one line, once.

A node that was killed is refused for a while by its own shadow: its last life still has a session.
So DUPLICATE_BROKER_REGISTRATION means something only if one and the same controller says it for
longer than a session lasts: then somebody else with this id is heard of, and this process must go,
because two with one id can only harm each other. Everything else may be put right while the node
waits.
"""

from __future__ import annotations

from tidelog.broker.registration import Registration
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import Endpoint, LeaderEpoch, NodeId

_SESSIONS = 1.5
"""So long the same controller must say that the id is taken."""


_LASTING = (ErrorCode.INCONSISTENT_CLUSTER_ID, ErrorCode.INVALID_REGISTRATION)
"""Nothing will change about these by itself."""


class Refusals:
    """What is to be said of the refusals of one life of a node."""

    def __init__(self, registration: Registration, *, node_id: NodeId, session_ms: float) -> None:
        self._registration = registration
        self._node_id = node_id
        self._session_ms = session_ms
        self._since: tuple[ErrorCode, LeaderEpoch, float] | None = None
        self._said: list[str] = []
        self.reports: list[str] = []
        """To be told, and taken away, by whoever tells them."""
        self.expelled: str | None = None
        """Why this process must end."""

    def forget(self) -> None:
        """The node is not refused, or not any more."""
        self._since = None

    def look(self, controller_epoch: LeaderEpoch, *, living_at: Endpoint | None) -> None:
        """It is refused. `living_at` is where the metadata says that a node of this id is."""
        refusal = self._registration.refusal
        assert refusal is not None, "nobody has refused the node"
        at_ms = self._registration.refused_ms
        if self._since is None or self._since[:2] != (refusal, controller_epoch):
            self._since = (refusal, controller_epoch, at_ms)
        if refusal in _LASTING:
            self._say(self._reason(refusal))
        elif refusal is not ErrorCode.DUPLICATE_BROKER_REGISTRATION:
            return  # there is another controller by now, or soon
        elif at_ms - self._since[2] > _SESSIONS * self._session_ms:
            self.expelled = self._taken(living_at)

    def met_twin(self, lasting_ms: float) -> None:
        """Voters say that a node of this id leads them, and have said so for that long. Who was
        killed in office hears that of its last life, until another is elected."""
        if lasting_ms > _SESSIONS * self._session_ms:
            self.expelled = self._taken(None)

    def met_stranger(self, endpoint: Endpoint, cluster_id: str) -> None:
        """A voter belongs to another cluster."""
        host, port = endpoint
        self._say(
            f"{host}:{port} is not in cluster {cluster_id}, to which this data directory belongs: "
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
        where = "" if living_at is None else f" at {living_at[0]}:{living_at[1]}"
        return (
            f"the cluster has a living node {self._node_id}{where}: "
            "stop that one, or give this one another --node-id"
        )
