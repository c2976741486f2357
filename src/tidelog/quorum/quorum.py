"""The machine: one replica of the metadata log.

Theory of operation. Time is cut into *epochs*, each with at most one leader. The leader appends;
the others pull from it with Fetch, whose offset also acknowledges all before it. What a majority of
the voters holds durably, including a record of the leader's own epoch, is *committed*: the high
watermark lies behind it, and state machines apply the log up to there.

A voter that hears nothing from a leader for a while first asks whether it would be elected
(*pre-vote*, in the present epoch, binding nobody). If a majority would, it begins the next epoch
with a vote for itself and asks for the others'. A vote is given once per epoch, and only to a log
that holds at least as much as the voter's; so whoever gets a majority has every committed record.
The winner appends a LeaderChange record and makes itself known. Followers whose logs part from the
leader's cut theirs back to where both agree, found by epochs.

A leader resigns when a majority has not fetched for a while, when its node stops, or when it is a
voter no longer. A replica that was the leader before a restart comes back as *resigned*: it may
have lost what it appended, and must never append to that epoch again.

`step(now_ms, event)` gives effects; so do `propose` and `snapshot`. Between steps nothing happens
but time: `next_deadline` says when a `Ticked` is due. The ports are called within a step and are
durable on return, except for appended records, whose flush is an effect. Lost, doubled and late
messages, and a crash between any two steps, are all right; so is a crash within one, since what a
step says to others it says by effects, after it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NO_OFFSET, LeaderEpoch, NodeId, Offset
from tidelog.model.safeguards import ALL_SAFEGUARDS, Safeguard
from tidelog.quorum import elections, following, leading, membership, roles, snapshots
from tidelog.quorum.batches import Batch, VotersChange
from tidelog.quorum.core import Core, Outstanding, Pursuit, Retry
from tidelog.quorum.events import (
    AnnounceLeader,
    Effect,
    Event,
    LogFlushed,
    RequestFailed,
    RequestReceived,
    ResignationWanted,
    ResponseReceived,
    Ticked,
)
from tidelog.quorum.messages import (
    AddRaftVoterRequest,
    BeginQuorumEpochRequest,
    DescribeQuorumRequest,
    EndQuorumEpochRequest,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    PeerResponse,
    RemoveRaftVoterRequest,
    VoteRequest,
    VoteResponse,
)
from tidelog.quorum.ports import ElectionState, QuorumLog, SnapshotId, VoteStore
from tidelog.quorum.settings import QuorumSettings
from tidelog.quorum.states import State
from tidelog.quorum.voters import ReplicaKey, VoterHistory, VoterSet

_SCAN_BYTES = 1 << 20

_REQUESTS: dict[type, Callable[..., None]] = {
    VoteRequest: elections.on_vote,
    BeginQuorumEpochRequest: elections.on_begin_epoch,
    EndQuorumEpochRequest: elections.on_end_epoch,
    FetchRequest: leading.on_fetch,
    FetchSnapshotRequest: leading.on_fetch_snapshot,
    DescribeQuorumRequest: leading.on_describe,
    AddRaftVoterRequest: membership.on_add_voter,
    RemoveRaftVoterRequest: membership.on_remove_voter,
}


@dataclass(frozen=True, slots=True)
class Proposal:
    """What became of records that were to be appended. They count once they are committed, and may
    be lost until then; with an error they were not appended."""

    error: ErrorCode
    epoch: LeaderEpoch
    base_offset: Offset = NO_OFFSET
    last_offset: Offset = NO_OFFSET


class Quorum:
    """One replica. `voters` are those of the configuration: the log's own records come before it.
    `bootstrap` are nodes that a replica without any known voter asks for the leader."""

    def __init__(
        self,
        key: ReplicaKey,
        voters: VoterSet,
        *,
        log: QuorumLog,
        store: VoteStore,
        random: Random,
        now_ms: float,
        settings: QuorumSettings | None = None,
        cluster_id: str | None = None,
        bootstrap: Sequence[NodeId] = (),
        safeguards: frozenset[Safeguard] = ALL_SAFEGUARDS,
    ) -> None:
        snapshot_id = log.snapshot_id
        self._core = Core(
            key=key,
            cluster_id=cluster_id,
            settings=settings or QuorumSettings(),
            log=log,
            store=store,
            random=random,
            safeguards=safeguards,
            bootstrap=tuple(bootstrap),
            election=store.load(),
            history=_read_history(log, voters),
            state=State.OBSERVER,
            high_watermark=log.start_offset if snapshot_id is None else snapshot_id.end_offset,
        )
        self._announced = AnnounceLeader(None, self._core.epoch)
        self._resume(now_ms)
        self._deadline_ms: float | None = None
        self._note_deadline()

    def _resume(self, now_ms: float) -> None:
        """The state that the last run's promises leave open. Until when they hold is not written
        down: it may have been told one in its last moment."""
        core, election = self._core, self._core.election
        is_own = election.leader_id == core.key.node_id
        if core.epoch > 0 and not is_own and Safeguard.VOTE_DURABLE in core.safeguards:
            core.promise_to(election.leader_id, now_ms)
        if not core.is_voter:
            core.pursuit = Pursuit(None, retry_at_ms=now_ms)
            return
        core.role_deadline_ms = core.standing_at(core.election_timeout_at(now_ms))
        if len(core.voters) == 1:
            core.promise, core.role_deadline_ms = None, now_ms
        if is_own:
            core.state = State.RESIGNED
        elif election.leader_id is not None:
            core.state = State.FOLLOWER
            core.pursuit = Pursuit(election.leader_id, retry_at_ms=now_ms)
            core.role_deadline_ms = now_ms + core.settings.fetch_timeout_ms
        else:
            core.state = State.UNATTACHED if election.voted is None else State.VOTED

    # --- what others may know -----------------------------------------------------------------

    @property
    def key(self) -> ReplicaKey:
        return self._core.key

    @property
    def state(self) -> State:
        return self._core.state

    @property
    def epoch(self) -> LeaderEpoch:
        return self._core.epoch

    @property
    def node_id(self) -> NodeId:
        return self._core.key.node_id

    @property
    def is_leading(self) -> bool:
        return self._core.state is State.LEADER

    @property
    def leader_id(self) -> NodeId | None:
        """Who leads, as far as this replica knows and goes by it."""
        return self._core.followed_leader

    @property
    def high_watermark(self) -> Offset:
        return self._core.high_watermark

    @property
    def voters(self) -> VoterSet:
        return self._core.voters

    @property
    def has_office(self) -> bool:
        """It leads, and knows all that was committed before it did."""
        lead = self._core.leadership
        return lead is not None and lead.has_office

    @property
    def office_until_ms(self) -> float | None:
        """A majority has promised to elect nobody else before that. None if this replica has no
        office, or needs no others for it."""
        core, lead = self._core, self._core.leadership
        if lead is None or not lead.has_office:
            return None
        return lead.promised_until_ms(core.voters, core.settings.fetch_timeout_ms)

    def join(self, cluster_id: str) -> None:
        """From here on only those are listened to who belong to the same cluster, or to none."""
        self._core.cluster_id = cluster_id

    def next_deadline(self) -> float | None:
        """When `Ticked` is due. It is asked for far more often than anything happens here."""
        return self._deadline_ms

    def restored_state(self) -> bytes | None:
        """The newest snapshot's state, for a state machine that starts."""
        found = snapshots.whole_snapshot(self._core.log)
        return None if found is None else found[1]

    def read_committed(self, offset: Offset, *, max_bytes: int = _SCAN_BYTES) -> tuple[Batch, ...]:
        """Batches from `offset` on, committed ones only."""
        limit = self._core.high_watermark
        if offset >= limit:
            return ()
        return self._core.log.read(offset, max_bytes=max_bytes, limit_offset=limit)

    # --- what happens -------------------------------------------------------------------------

    def step(self, now_ms: float, event: Event) -> list[Effect]:
        core = self._core
        if isinstance(event, RequestReceived):
            _REQUESTS[type(event.request)](core, now_ms, event.ticket, event.request)
        elif isinstance(event, ResponseReceived):
            self._on_response(now_ms, event)
        elif isinstance(event, RequestFailed):
            sent = core.outstanding.pop(event.number, None)
            if sent is not None:
                self._on_failed(now_ms, sent)
        elif isinstance(event, LogFlushed):
            core.is_flushing = False
        elif isinstance(event, Ticked):
            self._on_tick(now_ms)
        elif isinstance(event, ResignationWanted):
            self._on_resignation(now_ms)
        return self._settle(now_ms)

    def _on_resignation(self, now_ms: float) -> None:
        """The only voter has nobody to hand over to."""
        if self._core.state is State.LEADER and len(self._core.voters) > 1:
            roles.become_resigned(self._core, now_ms)

    def propose(self, now_ms: float, records: Sequence[bytes]) -> tuple[Proposal, list[Effect]]:
        """Append records of the state machine, all in one batch. Only a leader can."""
        core = self._core
        assert records, "a proposal of nothing"
        if core.leadership is None:
            return Proposal(ErrorCode.NOT_LEADER_OR_FOLLOWER, core.epoch), []
        batch = core.append(records=tuple(records))
        last = Offset(batch.next_offset - 1)
        return Proposal(ErrorCode.NONE, core.epoch, batch.base_offset, last), self._settle(now_ms)

    def snapshot(self, end_offset: Offset, state: bytes) -> SnapshotId:
        """Keep the state machine's `state` after all records below `end_offset`, which are
        committed, and let go of those records."""
        taken = snapshots.take(self._core, end_offset, state)
        self._note_deadline()
        return taken

    def _settle(self, now_ms: float) -> list[Effect]:
        core = self._core
        elections.conclude(core, now_ms)
        leading.settle(core, now_ms)
        following.pursue(core, now_ms)
        view = AnnounceLeader(core.followed_leader, core.epoch)
        if view != self._announced:
            self._announced = view
            core.effects.append(view)
        effects, core.effects = core.effects, []
        self._note_deadline()
        return effects

    def _note_deadline(self) -> None:
        self._deadline_ms = min(self._core.deadlines(), default=None)

    def _on_response(self, now_ms: float, event: ResponseReceived) -> None:
        core = self._core
        sent = core.outstanding.pop(event.number, None)
        if sent is None:
            return
        request, response = sent.request, event.response
        if isinstance(request, VoteRequest):
            assert isinstance(response, VoteResponse)
            elections.on_vote_answered(core, now_ms, sent.destination, request, response)
        elif isinstance(request, FetchRequest):
            assert isinstance(response, FetchResponse)
            following.on_fetched(core, now_ms, response)
        elif isinstance(request, FetchSnapshotRequest):
            assert isinstance(response, FetchSnapshotResponse)
            following.on_snapshot_fetched(core, now_ms, response)
        else:
            self._on_epoch_answered(now_ms, response)

    def _on_epoch_answered(self, now_ms: float, response: PeerResponse) -> None:
        if response.error is not ErrorCode.INCONSISTENT_CLUSTER_ID:
            roles.learn(self._core, now_ms, response.leader_epoch, response.leader_id)

    def _on_failed(self, now_ms: float, sent: Outstanding) -> None:
        core = self._core
        if isinstance(sent.request, FetchRequest | FetchSnapshotRequest):
            following.on_failed(core, now_ms)
            return
        at_ms = now_ms + core.settings.retry_backoff_ms
        core.retries.append(Retry(at_ms, sent.destination, sent.request))

    # --- time ---------------------------------------------------------------------------------

    def _on_tick(self, now_ms: float) -> None:
        core = self._core
        overdue = [n for n, sent in core.outstanding.items() if now_ms >= sent.deadline_ms]
        for number in overdue:
            self._on_failed(now_ms, core.outstanding.pop(number))
        due = [retry for retry in core.retries if now_ms >= retry.at_ms]
        core.retries = [retry for retry in core.retries if now_ms < retry.at_ms]
        for retry in due:
            self._send_again(now_ms, retry)
        if core.role_deadline_ms is not None and now_ms >= core.role_deadline_ms:
            self._on_role_timeout(now_ms)
        leading.tick(core, now_ms)

    def _send_again(self, now_ms: float, retry: Retry) -> None:
        """Unless it is settled: the leader is known to a voter that has fetched."""
        core = self._core
        is_begin = isinstance(retry.request, BeginQuorumEpochRequest)
        if is_begin and leading.has_fetched_since_election(core, retry.destination):
            return
        core.send(now_ms, retry.destination, retry.request)

    def _on_role_timeout(self, now_ms: float) -> None:
        core = self._core
        if core.state is State.OBSERVER:
            following.give_up_leader(core, now_ms)
        elif core.state is State.PROSPECTIVE:
            elections.give_way(core, now_ms)
        elif core.is_voter:
            roles.become_prospective(core, now_ms)
        else:
            roles.become_unattached(core, now_ms, core.epoch)

    # --- looking in ---------------------------------------------------------------------------

    def validate(self) -> None:
        """What is true between any two steps."""
        core, log = self._core, self._core.log
        assert log.start_offset <= core.high_watermark <= log.end_offset
        assert log.durable_end_offset <= log.end_offset
        assert log.last_epoch <= core.epoch, "a record of an epoch that was not made durable"
        assert (core.leadership is not None) == (core.state is State.LEADER)
        assert core.pursuit is None or core.state in (State.FOLLOWER, State.OBSERVER)
        assert core.tally is None or core.state in (State.PROSPECTIVE, State.CANDIDATE)
        if core.state in (State.LEADER, State.RESIGNED):
            assert core.election.leader_id == core.key.node_id
        if core.state is State.CANDIDATE:
            assert core.election.voted == core.key
        if core.state in (State.FOLLOWER, State.UNATTACHED, State.VOTED, State.PROSPECTIVE):
            assert core.is_voter
        if core.state is State.FOLLOWER:
            assert core.followed_leader == core.election.leader_id is not None
        offsets = [offset for offset, _ in core.history.later]
        assert offsets == sorted(offsets)
        assert all(log.start_offset <= offset < log.end_offset for offset in offsets)

    def describe(self) -> dict[str, Any]:
        """For people."""
        core, log = self._core, self._core.log
        election: ElectionState = core.election
        return {
            "node": core.key.node_id,
            "state": core.state.value,
            "epoch": core.epoch,
            "leader": core.followed_leader,
            "voted": None if election.voted is None else election.voted.node_id,
            "voters": list(core.voters.node_ids),
            "high_watermark": core.high_watermark,
            "log": [log.start_offset, log.durable_end_offset, log.end_offset],
            "timer_ms": core.role_deadline_ms,
            "positions": {
                node_id: progress.position
                for node_id, progress in sorted(
                    core.leadership.replicas.items() if core.leadership else ()
                )
            },
        }


def _read_history(log: QuorumLog, configured: VoterSet) -> VoterHistory:
    """The sets of voters that snapshot and log tell of."""
    found = snapshots.whole_snapshot(log)
    history = VoterHistory(configured if found is None else found[0], [])
    offset = log.start_offset
    while offset < log.end_offset:
        for batch in log.read(offset, max_bytes=_SCAN_BYTES):
            if isinstance(batch.control, VotersChange):
                history.note(batch.base_offset, batch.control.voters)
            offset = batch.next_offset
    return history
