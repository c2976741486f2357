"""The state that all parts of the machine share, and what every part may do with it."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from tidelog.model.errors import ErrorCode
from tidelog.model.ids import LeaderEpoch, NodeId, Offset
from tidelog.model.safeguards import Safeguard
from tidelog.quorum.batches import Batch, Control, VotersChange
from tidelog.quorum.events import Effect, FlushLog, SendRequest, SendResponse, Ticket
from tidelog.quorum.leadership import BEGINNING, Leadership
from tidelog.quorum.messages import PeerRequest, Response
from tidelog.quorum.ports import ElectionState, QuorumLog, SnapshotId, VoteStore
from tidelog.quorum.settings import QuorumSettings
from tidelog.quorum.states import State
from tidelog.quorum.voters import ReplicaKey, VoterHistory, VoterSet


@dataclass(slots=True)
class Outstanding:
    """A request that was sent and not answered yet."""

    destination: NodeId
    request: PeerRequest
    deadline_ms: float


@dataclass(slots=True)
class Retry:
    """A request to be sent again."""

    at_ms: float
    destination: NodeId
    request: PeerRequest


@dataclass(slots=True)
class Tally:
    """The votes of one round, as dictionaries to keep their order."""

    is_pre_vote: bool
    granted: dict[NodeId, None]
    denied: dict[NodeId, None] = field(default_factory=dict)


@dataclass(slots=True)
class Download:
    """A snapshot that is being fetched."""

    snapshot_id: SnapshotId
    data: bytearray = field(default_factory=bytearray)


@dataclass(slots=True)
class Pursuit:
    """Following: at most one request is under way. Without a leader: asking around for one."""

    leader_id: NodeId | None
    heard: int = 0
    """The number of the leader's last answer."""
    number: int | None = None
    retry_at_ms: float | None = None
    leader_high_watermark: Offset = BEGINNING
    download: Download | None = None


@dataclass(frozen=True, slots=True)
class Promise:
    """To elect nobody but the leader before `until_ms`: every answer of a leader that comes is one.
    On it rests a controller's certainty that there is no other yet. It outlives whatever this
    replica hears of higher epochs, and ends early only if the leader itself says that it is none
    any more. After a restart one is taken for granted, to the leader of the epoch if that is known.
    """

    leader_id: NodeId | None
    until_ms: float


@dataclass(slots=True)
class Core:
    """One replica."""

    key: ReplicaKey
    cluster_id: str | None
    settings: QuorumSettings
    log: QuorumLog
    store: VoteStore
    random: Random
    safeguards: frozenset[Safeguard]
    bootstrap: tuple[NodeId, ...]
    election: ElectionState
    history: VoterHistory
    state: State
    high_watermark: Offset
    tally: Tally | None = None
    leadership: Leadership | None = None
    pursuit: Pursuit | None = None
    promise: Promise | None = None
    role_deadline_ms: float | None = None
    outstanding: dict[int, Outstanding] = field(default_factory=dict)
    retries: list[Retry] = field(default_factory=list)
    effects: list[Effect] = field(default_factory=list)
    last_number: int = 0
    is_flushing: bool = False

    @property
    def epoch(self) -> LeaderEpoch:
        return self.election.epoch

    @property
    def voters(self) -> VoterSet:
        return self.history.latest

    @property
    def is_voter(self) -> bool:
        return self.voters.has(self.key)

    @property
    def followed_leader(self) -> NodeId | None:
        """The leader of this epoch, as long as this replica goes by it."""
        if self.state is State.LEADER:
            return self.key.node_id
        return None if self.pursuit is None else self.pursuit.leader_id

    def refusal(self, epoch: LeaderEpoch, cluster_id: str | None) -> ErrorCode | None:
        """Why a message of that epoch and cluster is not for us."""
        if cluster_id is not None and self.cluster_id is not None and cluster_id != self.cluster_id:
            return ErrorCode.INCONSISTENT_CLUSTER_ID
        return ErrorCode.FENCED_LEADER_EPOCH if epoch < self.epoch else None

    # --- what outlives a crash ----------------------------------------------------------------

    def persist(self, election: ElectionState) -> None:
        """Nothing of it is said to anybody before this returns."""
        assert election.epoch >= self.epoch, "an epoch never goes back"
        self.election = election
        if Safeguard.VOTE_DURABLE not in self.safeguards:
            election = ElectionState(election.epoch, leader_id=election.leader_id)
        self.store.save(election)

    def append(self, records: tuple[bytes, ...] = (), control: Control | None = None) -> Batch:
        """As the leader, at the end of the log."""
        batch = Batch(self.log.end_offset, self.epoch, records, control)
        self.store_batch(batch)
        return batch

    def store_batch(self, batch: Batch) -> None:
        self.log.append(batch)
        if isinstance(batch.control, VotersChange):
            self.history.note(batch.base_offset, batch.control.voters)

    def want_flush(self) -> None:
        """One flush at a time; what is appended meanwhile shares the next."""
        if not self.is_flushing and self.log.durable_end_offset < self.log.end_offset:
            self.is_flushing = True
            self.effects.append(FlushLog())

    # --- what goes out ------------------------------------------------------------------------

    def send(self, now_ms: float, destination: NodeId, request: PeerRequest) -> int:
        self.last_number += 1
        deadline_ms = now_ms + self.settings.request_timeout_ms
        self.outstanding[self.last_number] = Outstanding(destination, request, deadline_ms)
        self.effects.append(SendRequest(self.last_number, destination, request))
        return self.last_number

    def reply(self, ticket: Ticket, response: Response) -> None:
        self.effects.append(SendResponse(ticket, response))

    # --- promises -----------------------------------------------------------------------------

    def promise_to(self, leader_id: NodeId | None, now_ms: float) -> None:
        self.promise = Promise(leader_id, now_ms + self.settings.fetch_timeout_ms)

    def may_elect(self, candidate_id: NodeId, now_ms: float) -> bool:
        """No promise to another is in the way."""
        promise = self.promise
        return promise is None or now_ms >= promise.until_ms or promise.leader_id == candidate_id

    def standing_at(self, deadline_ms: float) -> float:
        """When this replica may stand itself: at the deadline, and not before it is free to."""
        return deadline_ms if self.promise is None else max(deadline_ms, self.promise.until_ms)

    # --- time ---------------------------------------------------------------------------------

    def election_timeout_at(self, now_ms: float) -> float:
        """Between one and two timeouts from now, so that two voters rarely ask at once."""
        timeout_ms = self.settings.election_timeout_ms
        return now_ms + timeout_ms + self.random.random() * timeout_ms

    def backoff_at(self, now_ms: float) -> float:
        return now_ms + self.random.random() * self.settings.election_backoff_max_ms

    def deadlines(self) -> list[float]:
        """Every moment at which something is to happen by itself."""
        times = [each.deadline_ms for each in self.outstanding.values()]
        times += [retry.at_ms for retry in self.retries]
        if self.role_deadline_ms is not None:
            times.append(self.role_deadline_ms)
        pursuit, is_durable = self.pursuit, self.log.durable_end_offset >= self.log.end_offset
        if pursuit is not None and pursuit.retry_at_ms is not None and is_durable:
            times.append(pursuit.retry_at_ms)
        lead = self.leadership
        if lead is not None:
            times += [parked.deadline_ms for parked in lead.parked.values()]
            if lead.change is not None and lead.change.ticket is not None:
                times.append(lead.change.deadline_ms)
            quorum_ms = lead.quorum_deadline_ms(self.voters, self.settings.fetch_timeout_ms)
            if quorum_ms is not None:
                times.append(quorum_ms)
        return times
