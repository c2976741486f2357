"""What a node does because it is not alone: it votes, registers, replicates, and may be controller.

One object that a `Node` in a cluster has and a node that is alone has not. `settle` is called at the
end of every step and brings everything to where it can be: committed metadata becomes the image, the
controller's office is taken or left, followers ask for more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from tidelog.broker.configuration import NodeConfig
from tidelog.broker.controller_link import ControllerLink
from tidelog.broker.forwarding import Forwarding
from tidelog.broker.peers import Peers
from tidelog.broker.quorum_journal import QuorumJournal
from tidelog.broker.registration import Identity, Patience, Registration, Stage
from tidelog.broker.replication import Replication
from tidelog.broker.start import election_defaults, make_controller
from tidelog.broker.state import BrokerState
from tidelog.controller.configs import decide_defaults
from tidelog.controller.decision import Decision
from tidelog.metadata.delta import Delta
from tidelog.model.clock import Now
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NO_BROKER_EPOCH, BrokerEpoch, Endpoint, LeaderEpoch, NodeId


@dataclass(frozen=True, slots=True)
class LastLife:
    """What the disk says of the node's last life."""

    broker_epoch: BrokerEpoch = NO_BROKER_EPOCH
    ended_cleanly: bool = False


class ClusterMember:
    """One life of a node in its cluster."""

    def __init__(
        self,
        config: NodeConfig,
        state: BrokerState,
        journal: QuorumJournal,
        peers: Peers,
        *,
        voters: dict[NodeId, Endpoint],
        incarnation: UUID,
        last_life: LastLife,
    ) -> None:
        self._config = config
        self._state = state
        self.journal = journal
        self._peers = peers
        self._voters = voters
        self._office: LeaderEpoch | None = None
        self.link = ControllerLink(peers, self._controller_endpoint)
        self.forwarding = Forwarding(self.link, state.pending, state.complete)
        self.replication = Replication(
            state, peers, self.link, state.replicas.membership, endpoint_of=self.endpoint_of
        )
        settings = config.settings
        self.registration = Registration(
            Identity(
                config.node_id,
                cluster_id=state.image.cluster_id,
                incarnation=incarnation,
                endpoint=Endpoint(config.host, config.port),
                rack=config.rack,
                previous_epoch=last_life.broker_epoch,
                ended_cleanly=last_life.ended_cleanly,
            ),
            self.link,
            Patience(
                heartbeat_ms=settings.broker_heartbeat_interval_ms,
                session_ms=settings.broker_session_timeout_ms,
            ),
            metadata_offset=lambda: journal.applied_offset,
        )

    # --- who is where ---------------------------------------------------------------------------

    def endpoint_of(self, node_id: NodeId) -> Endpoint | None:
        """A voter's address is in the configuration, any other node's in the metadata."""
        voter = self._voters.get(node_id)
        if voter is not None:
            return voter
        node = self._state.image.nodes.get(node_id)
        return None if node is None else Endpoint(node.host, node.port)

    def _controller_endpoint(self) -> Endpoint | None:
        leader_id = self.journal.leader_id
        return None if leader_id is None else self.endpoint_of(leader_id)

    @property
    def is_serving(self) -> bool:
        return self.registration.stage is Stage.SERVING

    # --- time -----------------------------------------------------------------------------------

    def next_deadline(self) -> float | None:
        controller = self._state.active_controller
        deadlines = (
            self.journal.next_deadline(),
            self.registration.next_deadline(),
            self.forwarding.next_deadline(),
            self.replication.next_deadline(),
            self._peers.next_deadline(),
            None if controller is None else controller.next_deadline(),
        )
        return min((at for at in deadlines if at is not None), default=None)

    def tick(self, now: Now) -> None:
        """Whatever is due."""
        self._peers.expire(now)
        self.journal.tick(now)
        self.registration.tick(now)
        self.forwarding.tick(now)
        controller = self._state.active_controller
        deadline_ms = None if controller is None else controller.next_deadline()
        if controller is not None and deadline_ms is not None and now.monotonic_ms >= deadline_ms:
            self._record(controller.tick(now.monotonic_ms), now)

    def settle(self, now: Now) -> None:
        """The end of a step, after committed metadata has become the image."""
        self._watch_office(now)
        self._watch_session(now)
        self.replication.settle(now)

    def followed(self, delta: Delta) -> None:
        """The image has changed."""
        self._state.replicas.membership.nodes = self._state.image.nodes
        self.replication.follow(delta.partitions)

    def leave(self, now: Now) -> bool:
        """Go in peace: what this node leads moves first. Whether there is nothing to wait for."""
        self.registration.leave(now)
        return self.registration.stage is Stage.LEFT

    # --- the controller's office ----------------------------------------------------------------

    def _watch_office(self, now: Now) -> None:
        epoch = self.journal.epoch if self.journal.is_active else None
        if epoch == self._office:
            return
        if self._office is not None:
            self._state.active_controller = None
            self._state.fail_metadata_waits(now)
        self._office = epoch
        if epoch is not None:
            self._take_office(now)

    def _take_office(self, now: Now) -> None:
        state = self._state
        image, _ = state.image.replay(self.journal.read_uncommitted())
        controller = make_controller(
            self._config, image, state.random, safeguards=state.safeguards
        )
        state.active_controller = controller
        controller.begin(now.monotonic_ms, self.journal.last_offset)
        self._record(controller.identify_cluster(), now)
        self._record(decide_defaults(controller.image, election_defaults(self._config)), now)

    def _record(self, decision: Decision[Any], now: Now) -> Any | ErrorCode:
        return self._state.commit(decision, now) if decision.records else None

    # --- the session ----------------------------------------------------------------------------

    def _watch_session(self, now: Now) -> None:
        """A leader without a session acknowledges nothing: others may lead by now."""
        membership = self._state.replicas.membership
        membership.broker_epoch = self.registration.broker_epoch
        has_session = self.registration.may_lead(now.monotonic_ms)
        if has_session == membership.has_session:
            return
        membership.has_session = has_session
        for replica in self._state.replicas.by_key.values():
            if replica.leader is not None and replica.leader.session_changed():
                self._state.advanced[replica] = None

    def describe(self) -> dict[str, object]:
        return {
            **self.registration.describe(),
            "controller": self.journal.leader_id,
            "quorum": self.journal.describe(),
            "replication": self.replication.describe(),
            "calls": self._peers.describe(),
        }
