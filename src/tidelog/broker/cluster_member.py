"""What a node does because it is not alone: votes, registers, replicates, and may be controller.

One object that a `Node` in a cluster has and a node that is alone has not. `begin` stands at the
beginning of a turn: it is looked whether the session still holds. `settle` stands at its end, and
after every event in it that is no client's: everything is brought to where it can be, the
controller's office is taken or left, followers ask for more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any
from uuid import UUID

from tidelog.broker.configuration import NodeConfig
from tidelog.broker.controller_link import RETRY_MS, ControllerLink
from tidelog.broker.forwarding import Forwarding
from tidelog.broker.last_life import LastLife, note_broker_epoch, note_cluster_id
from tidelog.broker.lateness import Lateness
from tidelog.broker.log_inquiry import Inquiries
from tidelog.broker.member_journal import MemberJournal
from tidelog.broker.peers import Conversation, Peers, client_id_of
from tidelog.broker.pending import Wait
from tidelog.broker.quorum_journal import QuorumJournal
from tidelog.broker.quorum_requests import question_of
from tidelog.broker.refusals import Refusal, Refusals
from tidelog.broker.registration import Identity, Patience, Registration, Stage
from tidelog.broker.replication import Replication
from tidelog.broker.start import election_defaults, make_controller
from tidelog.broker.state import CLOSE, PARKED, BrokerState, Call
from tidelog.controller.configs import decide_defaults
from tidelog.controller.decision import Decision
from tidelog.controller.log_ends import LogEndsByPartition
from tidelog.log.disk import Disk, DiskError, DiskFull
from tidelog.metadata.image import PartitionState
from tidelog.model.clock import Now, earliest
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NO_BROKER_EPOCH, BrokerEpoch, Endpoint, LeaderEpoch, NodeId
from tidelog.wire.errors import DecodeError
from tidelog.wire.messages.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse
from tidelog.zookeeper.requests import Word


class ClusterMember:
    """One life of a node in its cluster."""

    def __init__(
        self,
        config: NodeConfig,
        state: BrokerState,
        journal: MemberJournal,
        peers: Peers,
        disk: Disk,
        *,
        incarnation: UUID,
        last_life: LastLife,
    ) -> None:
        self._config = config
        self._state = state
        self.journal = journal
        self._peers = peers
        self._disk = disk
        self._noted_epoch = NO_BROKER_EPOCH
        self._cluster_id = last_life.cluster_id
        self._decide_from_ms = 0.0
        self._sessions_ended = 0
        self._is_opening = False
        """The logs that are there are being opened: the node has caught up just now."""
        self.reports: list[str] = []
        """What the operator should know."""
        self.was_asked = False
        """Another node had a question for the metadata log since the last `settle`."""
        self._lateness = Lateness()
        self._office: LeaderEpoch | None = None
        self._controller_id: NodeId | None = None
        """The last that was known, whoever it was."""
        self._former: NodeId | None = None
        """The last other node that was the controller."""
        self.link = ControllerLink(peers, self._controller_endpoint)
        self.forwarding = Forwarding(self.link, state.pending, state.complete)
        self.replication = Replication(state, peers, self.link, endpoint_of=self.broker_endpoint)
        self._inquiries = Inquiries(state, peers, endpoint_of=self.broker_endpoint)
        journal.connect(
            endpoint_of=self.endpoint_of,
            answer=state.complete,
            want_flush=state.flushing.touch_journal,
            newest_image=lambda: state.controller.image,
        )
        self.registration = self._make_registration(incarnation, last_life)
        session_ms = config.settings.broker_session_timeout_ms
        self.refusals = Refusals(config.node_id, session_ms=session_ms)

    def _make_registration(self, incarnation: UUID, last_life: LastLife) -> Registration:
        config, journal, replicas = self._config, self.journal, self._state.replicas
        return Registration(
            Identity(
                config.node_id,
                cluster_id=last_life.cluster_id,
                incarnation=incarnation,
                endpoint=Endpoint(config.host, config.port),
                rack=config.rack,
                previous_epoch=last_life.broker_epoch,
                ended_cleanly=last_life.ended_cleanly,
            ),
            self.link,
            Patience(
                heartbeat_ms=config.settings.broker_heartbeat_interval_ms,
                session_ms=config.settings.broker_session_timeout_ms,
            ),
            metadata_offset=lambda: journal.applied_offset,
            office_until_ms=journal.office_until_ms,
            may_join=lambda: journal.may_join,
            is_cut_off=lambda: journal.is_cut_off,
            is_opening=lambda: self._is_opening,
            may_lack=replicas.may_lack,
        )

    # --- who is where ---------------------------------------------------------------------------

    def endpoint_of(self, node_id: NodeId) -> Endpoint | None:
        """For the journal. What it knows itself comes first: what the metadata says here may be
        from before a node moved, and without the leader it stays so."""
        journal = self.journal
        known = journal.configured_endpoint(node_id) or journal.told_endpoint(node_id)
        if known is not None:
            return known
        if node_id == self._config.node_id:
            return Endpoint(self._config.host, self._config.port)
        return self._registered(node_id) or journal.voter_endpoint(node_id)

    def broker_endpoint(self, node_id: NodeId) -> Endpoint | None:
        """For partitions. Where the configuration does not say, a node that leads one has
        registered: that is the newest there is."""
        configured = self.journal.configured_endpoint(node_id)
        return configured or self._registered(node_id) or self.endpoint_of(node_id)

    def _registered(self, node_id: NodeId) -> Endpoint | None:
        node = self._state.image.nodes.get(node_id)
        return None if node is None else Endpoint(node.host, node.port)

    def _controller_endpoint(self) -> Endpoint | None:
        leader_id = self.journal.leader_id
        return None if leader_id is None else self.endpoint_of(leader_id)

    @property
    def told_controller_id(self) -> NodeId:
        """While clients could not find it, this node: it hands on what is meant for the controller.
        A client that is told of none, or of one that is not among the brokers it is told of (it may
        have been let in just now), may not ask again for minutes."""
        leader_id = self.journal.leader_id
        node = None if leader_id is None else self._state.image.nodes.get(leader_id)
        return self._config.node_id if node is None or node.is_fenced else node.node_id

    @property
    def broker_epoch(self) -> int:
        return self.registration.broker_epoch

    def ask_controller(
        self, now: Now, request: Any, *, timeout_ms: float, conversation: Conversation
    ) -> bool:
        return self.link.ask(
            now, request, timeout_ms=timeout_ms, conversation=conversation, channel="clients"
        )

    def ask_log_ends(
        self,
        now: Now,
        states: Iterable[PartitionState],
        told: Callable[[Now, LogEndsByPartition], None],
    ) -> None:
        self._inquiries.ask(now, states, told)

    @property
    def is_serving(self) -> bool:
        return self.registration.stage is Stage.SERVING

    @property
    def has_caught_up(self) -> bool:
        """The metadata here reach up to where the cluster let this incarnation of the node in."""
        node = self._state.image.nodes.get(self._config.node_id)
        return node is not None and node.epoch == self._noted_epoch and not node.is_fenced

    # --- time -----------------------------------------------------------------------------------

    def next_deadline(self) -> float | None:
        return earliest(
            self.journal.next_deadline(),
            self.registration.next_deadline(),
            self.forwarding.next_deadline(),
            self.replication.next_deadline(),
            self._inquiries.next_deadline(),
            self._peers.next_deadline(),
            self._controller_deadline(),
        )

    def expect(self, deadline_ms: float | None) -> None:
        """The end of a turn: the next is wanted then at the latest."""
        self._lateness.expected_ms = deadline_ms

    def tick(self, now: Now) -> None:
        """Whatever is due."""
        self._peers.expire(now)
        self.journal.tick(now)
        self.registration.tick(now)
        self.forwarding.tick(now)
        controller, deadline_ms = self._state.active_controller, self._controller_deadline()
        if controller is not None and deadline_ms is not None and now.monotonic_ms >= deadline_ms:
            self._record(controller.tick(now.monotonic_ms), now)

    def _controller_deadline(self) -> float | None:
        controller = self._state.active_controller
        deadline_ms = None if controller is None else controller.next_deadline()
        return None if deadline_ms is None else max(deadline_ms, self._decide_from_ms)

    def is_certain(self, now_ms: float) -> bool:
        """No other controller can be there, if this node is one."""
        return self.journal.is_certain(now_ms)

    def hear(self, now: Now, word: Word) -> None:
        """ZooKeeper has said something. The end of a session counts at once."""
        self.journal.hear(word, now)
        if self.journal.sessions_ended != self._sessions_ended:
            self._sessions_ended = self.journal.sessions_ended
            drawn = self._state.random.getrandbits(128)
            self.registration.start_over(now, UUID(int=drawn, version=4))
        self._watch_session(now)

    def begin(self, now: Now) -> None:
        """The beginning of a turn: time may have passed, and the session with it."""
        late_ms = self._lateness.begin(now.monotonic_ms)
        if late_ms and self._state.active_controller is not None:
            self._state.active_controller.was_late(late_ms, now.monotonic_ms)
        if self._lateness.reports:
            self.reports += self._lateness.reports
            self._lateness.reports = []
        self._watch_session(now)

    def settle(self, now: Now) -> None:
        """After committed metadata has become the image."""
        self._watch_identity()
        self._watch_registration(now)
        self._watch_office(now)
        self._inquiries.settle(now)
        self._watch_session(now)
        self.replication.settle(now)

    def leave(self, now: Now) -> None:
        """Go in peace: what this node leads moves first."""
        self._state.replicas.membership.is_leaving = True
        self.registration.leave(now)

    def has_nobody_to_leave(self, now: Now) -> bool:
        """Nobody decides who leads in its place, and without a session it acknowledges nothing: to
        wait on would be of use to nobody."""
        is_heard = self.registration.may_lead(now.monotonic_ms)
        return not is_heard and self.journal.leader_id is None

    @property
    def has_left(self) -> bool:
        return self.registration.stage is Stage.LEFT

    # --- the quorum's own requests --------------------------------------------------------------

    def receive(self, call: Call, request: Any) -> Any:
        """A question to this node's replica of the metadata log; answered when it is."""
        try:
            question = question_of(request)
        except DecodeError:
            return CLOSE
        if not isinstance(self.journal, QuorumJournal):
            is_asked = isinstance(request, DescribeQuorumRequest)
            # Nobody votes here: as Kafka with ZooKeeper, which does not know the question.
            unknown = ErrorCode.UNSUPPORTED_VERSION
            return DescribeQuorumResponse(error_code=unknown, topics=[]) if is_asked else CLOSE
        if isinstance(request, DescribeQuorumRequest) and self._hands_on(call):
            return self.forwarding.forward(call, request, call.slot.header.api_version)
        number = self._state.pending.park_on_reply(call.slot, QuorumWait(type(request).__name__))
        self.was_asked = True
        self.journal.receive(call.now, number, question)
        return PARKED

    def _hands_on(self, call: Call) -> bool:
        """To the leader, who alone knows how the voters are doing; but not back to the one who
        asks, when both take each other for the leader."""
        leader_id = self.journal.leader_id
        is_back = call.slot.header.client_id == client_id_of(leader_id)
        return leader_id not in (None, self._config.node_id) and not is_back

    # --- the controller's office ----------------------------------------------------------------

    def _watch_office(self, now: Now) -> None:
        leader_id = self.journal.leader_id
        if leader_id is not None and leader_id != self._controller_id:
            self._controller_id = leader_id
            self.registration.met_controller(now)
        if leader_id is not None and leader_id != self._config.node_id:
            self._former = leader_id
        epoch = self.journal.epoch if self.journal.is_active else None
        if epoch == self._office:
            if self._state.active_controller is not None:
                self._state.active_controller.sees(self.journal.present)
                if now.monotonic_ms >= self._decide_from_ms:
                    self._record(self._state.active_controller.grow_internal_topics(), now)
            return
        if self._office is not None:
            self._state.active_controller = None
            self._state.has_lost_office = True
            self.registration.left_office()
        self._office = epoch
        if epoch is not None:
            self._take_office(now)

    def _take_office(self, now: Now) -> None:
        state = self._state
        image, _ = state.image.replay(self.journal.read_uncommitted())
        controller = make_controller(self._config, image, state.random, safeguards=state.safeguards)
        state.active_controller = controller
        self.registration.took_office()
        former, self._former = self._former, None
        controller.sees(self.journal.present)
        controller.begin(now.monotonic_ms, self.journal.last_offset, former=former)
        self._record(controller.identify_cluster(), now)
        self._record(decide_defaults(controller.image, election_defaults(self._config)), now)

    def _record(self, decision: Decision[Any], now: Now) -> None:
        """A controller that can't write makes room for another: what it wanted to record is decided
        again, by that one or by a later tick."""
        if decision.records and isinstance(self._state.commit(decision, now), ErrorCode):
            self._decide_from_ms = now.monotonic_ms + RETRY_MS
            self.journal.resign(now)

    # --- who we are -----------------------------------------------------------------------------

    def _watch_identity(self) -> None:
        """The cluster's id is written down once; who is refused tells why."""
        cluster_id = self._state.image.cluster_id
        if cluster_id and not self._cluster_id:
            try:
                note_cluster_id(self._disk, cluster_id)
            except DiskFull:
                return
            except DiskError as error:
                self._state.fail_storage(error)
                return
            self._cluster_id = cluster_id
            self.journal.join(cluster_id)
        if self.journal.stranger is not None:
            self.refusals.met_stranger(self.journal.stranger, self._cluster_id)
        self._watch_refusal()
        if self.refusals.reports:
            self.reports += self.refusals.reports
            self.refusals.reports = []

    def _watch_refusal(self) -> None:
        """By the controller; or by all others, who follow another process of this id."""
        twin, registration = self.journal.twin, self.registration
        if twin is not None:
            refusal = Refusal(ErrorCode.DUPLICATE_BROKER_REGISTRATION, *twin)
        elif registration.refusal is not None:
            refusal = Refusal(registration.refusal, self.journal.epoch, registration.refused_ms)
        else:
            self.refusals.forget()
            return
        self.refusals.look(refusal, living_at=self._registered(self._config.node_id))

    # --- the session ----------------------------------------------------------------------------

    def _watch_session(self, now: Now) -> None:
        """A leader without a session acknowledges nothing: others may lead by now."""
        replicas = self._state.replicas
        lease_until_ms = self.journal.lease_until_ms
        has_session = self.registration.may_lead(now.monotonic_ms, lease_until_ms=lease_until_ms)
        if has_session != replicas.membership.has_session:
            replicas.session_changed(is_alive=has_session)
            self._state.roles_changed()

    def _watch_registration(self, now: Now) -> None:
        """A broker epoch is written down before it is used; what the node keeps is opened, slice by
        slice, when its metadata has come to it, and led when the node is let in: not before all of
        it is open, and it could tell what its logs may lack."""
        registration, replicas = self.registration, self._state.replicas
        epoch = BrokerEpoch(registration.broker_epoch)
        if epoch != self._noted_epoch:
            try:
                note_broker_epoch(self._disk, epoch)
            except DiskFull:
                return
            except DiskError as error:
                self._state.fail_storage(error)
                return
            self._noted_epoch = replicas.membership.broker_epoch = epoch
            self.journal.note_broker_epoch(epoch, now)
            registration.is_noted = True
        if not replicas.membership.is_caught_up and self._has_read_of_itself():
            replicas.catch_up(now_ms=now.monotonic_ms)
            self._is_opening = True
        if self._is_opening and not replicas.has_deferred:
            self._is_opening = False
            registration.opened_logs(now)
        if registration.stage is Stage.SERVING and not replicas.membership.may_lead:
            self.reports += replicas.let_in(now.monotonic_ms)
            self._state.roles_changed()

    def _has_read_of_itself(self) -> bool:
        node = self._state.image.nodes.get(self._config.node_id)
        return node is not None and node.epoch == self._noted_epoch

    def describe(self) -> dict[str, object]:
        return {
            **self.registration.describe(),
            "controller": self.journal.leader_id,
            "consensus": self.journal.describe(),
            "calls": self._peers.describe(),
        }


class QuorumWait(Wait):
    """The quorum answers by the row's number, and keeps the time itself."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def resume(self, now: Now, *, is_expired: bool) -> Any | None:
        return CLOSE if is_expired else None

    def describe(self) -> str:
        return f"{self._name} waits for the quorum"
