"""How each state is entered: what is made durable, which timer runs, what is sent.

What the old state was doing is dropped, and who waited for a leader that leads no longer is told
so. Each function first makes the election state durable, then enters.
"""

from __future__ import annotations

from dataclasses import replace

from tidelog.model.errors import ErrorCode
from tidelog.model.ids import LeaderEpoch, NodeId
from tidelog.quorum.batches import LeaderChange
from tidelog.quorum.core import Core, Pursuit, Tally
from tidelog.quorum.events import LeaveOffice
from tidelog.quorum.leadership import Leadership, VoterChange
from tidelog.quorum.messages import (
    AddRaftVoterRequest,
    AddRaftVoterResponse,
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    FetchResponse,
    RemoveRaftVoterResponse,
    VoteRequest,
)
from tidelog.quorum.ports import ElectionState
from tidelog.quorum.states import State, check_step
from tidelog.quorum.voters import ReplicaKey


def _enter(core: Core, state: State) -> None:
    check_step(core.state, state)
    former, core.leadership = core.leadership, None
    core.state = state
    core.tally = None
    core.pursuit = None
    core.role_deadline_ms = None
    core.outstanding.clear()
    core.retries.clear()
    if former is not None:
        _close(core, former)


def _close(core: Core, former: Leadership) -> None:
    error = ErrorCode.NOT_LEADER_OR_FOLLOWER
    for parked in former.parked.values():
        core.reply(parked.ticket, FetchResponse(error, core.followed_leader, core.epoch))
    if former.change is not None:
        answer_change(core, former.change, error, "the leader has changed")
    if former.has_office:
        core.effects.append(LeaveOffice(former.epoch))


def answer_change(core: Core, change: VoterChange, error: ErrorCode, message: str | None) -> None:
    """Once: a change goes on after its answer, if it is in the log."""
    if change.ticket is None:
        return
    if isinstance(change.request, AddRaftVoterRequest):
        core.reply(change.ticket, AddRaftVoterResponse(error, message))
    else:
        core.reply(change.ticket, RemoveRaftVoterResponse(error, message))
    change.ticket = None


def become_unattached(core: Core, now_ms: float, epoch: LeaderEpoch) -> None:
    """No leader to follow; who is no voter looks for one."""
    if epoch > core.epoch:
        core.persist(ElectionState(epoch))
    if core.is_voter:
        _enter(core, State.UNATTACHED)
        core.role_deadline_ms = core.standing_at(core.election_timeout_at(now_ms))
    else:
        _enter(core, State.OBSERVER)
        core.pursuit = Pursuit(None, retry_at_ms=now_ms)


def become_voted(core: Core, now_ms: float, epoch: LeaderEpoch, candidate: ReplicaKey) -> None:
    """The vote of this epoch is given. Who is no voter as far as it knows votes too: it may have
    been made one by records that it has not fetched yet."""
    core.persist(ElectionState(epoch, voted=candidate))
    if core.is_voter:
        _enter(core, State.VOTED)
        core.role_deadline_ms = core.standing_at(core.election_timeout_at(now_ms))
    else:
        _enter(core, State.OBSERVER)
        core.pursuit = Pursuit(None, retry_at_ms=now_ms)


def become_prospective(core: Core, now_ms: float) -> None:
    """Ask first whether an election would be won: it costs the others nothing, and a replica that
    is cut off does not drive up the epoch for the day it comes back (KIP-996)."""
    assert core.is_voter, "only voters stand for election"
    assert core.may_elect(core.key.node_id, now_ms), "it has promised to wait"
    _enter(core, State.PROSPECTIVE)
    _ask_for_votes(core, now_ms, is_pre_vote=True)


def become_candidate(core: Core, now_ms: float) -> None:
    core.persist(ElectionState(LeaderEpoch(core.epoch + 1), voted=core.key))
    _enter(core, State.CANDIDATE)
    _ask_for_votes(core, now_ms, is_pre_vote=False)


def _ask_for_votes(core: Core, now_ms: float, *, is_pre_vote: bool) -> None:
    core.role_deadline_ms = core.election_timeout_at(now_ms)
    core.tally = Tally(is_pre_vote, granted={core.key.node_id: None})
    for voter in core.voters.others(core.key):
        request = VoteRequest(
            voter=voter.key,
            replica=core.key,
            epoch=core.epoch,
            last_epoch=core.log.last_epoch,
            last_offset=core.log.end_offset,
            pre_vote=is_pre_vote,
            cluster_id=core.cluster_id,
        )
        core.send(now_ms, voter.node_id, request)


def become_leader(core: Core, now_ms: float) -> None:
    """Elected. The first record says so, in the new epoch: with it, all before it is committed."""
    assert core.tally is not None
    granting = tuple(voter.key for voter in core.voters if voter.node_id in core.tally.granted)
    core.persist(replace(core.election, leader_id=core.key.node_id))
    _enter(core, State.LEADER)
    everybody = tuple(voter.key for voter in core.voters)
    batch = core.append(control=LeaderChange(core.key, everybody, granting))
    core.leadership = Leadership(core.key, core.epoch, batch.base_offset, now_ms)
    own = core.voters.get(core.key.node_id)
    for voter in core.voters.others(core.key):
        request = BeginQuorumEpochRequest(
            voter=voter.key,
            leader_id=core.key.node_id,
            epoch=core.epoch,
            endpoints=() if own is None else own.endpoints,
            cluster_id=core.cluster_id,
        )
        core.send(now_ms, voter.node_id, request)
    core.want_flush()


def become_follower(core: Core, now_ms: float, epoch: LeaderEpoch, leader_id: NodeId) -> None:
    assert leader_id != core.key.node_id, "nobody follows itself"
    if epoch > core.epoch:
        core.persist(ElectionState(epoch, leader_id=leader_id))
    elif core.election.leader_id is None:
        core.persist(replace(core.election, leader_id=leader_id))
    known = core.election.leader_id
    assert known == leader_id, f"epoch {epoch} has two leaders, {known} and {leader_id}"
    _enter(core, State.FOLLOWER if core.is_voter else State.OBSERVER)
    core.pursuit = Pursuit(leader_id, retry_at_ms=now_ms)
    core.role_deadline_ms = now_ms + core.settings.fetch_timeout_ms


def become_resigned(core: Core, now_ms: float) -> None:
    """The others hear of it, and who should ask for votes first."""
    assert core.leadership is not None
    successors = core.leadership.successors(core.voters)
    _enter(core, State.RESIGNED)
    for voter in core.voters.others(core.key):
        request = EndQuorumEpochRequest(
            core.key.node_id, core.epoch, successors, cluster_id=core.cluster_id
        )
        core.send(now_ms, voter.node_id, request)
    core.role_deadline_ms = core.election_timeout_at(now_ms)


def lose_leader(core: Core, now_ms: float, deadline_ms: float) -> None:
    """The leader of this epoch resigned; a voter asks for votes at the deadline."""
    become_unattached(core, now_ms, core.epoch)
    if core.state is State.UNATTACHED:
        core.role_deadline_ms = deadline_ms


def reconsider(core: Core, now_ms: float) -> None:
    """The set of voters may be another: a follower became an observer, or the other way round."""
    if core.state is State.FOLLOWER and not core.is_voter:
        check_step(core.state, State.OBSERVER)
        core.state = State.OBSERVER
    elif core.state is State.OBSERVER and core.is_voter:
        if core.followed_leader is None:
            become_unattached(core, now_ms, core.epoch)
        else:
            check_step(core.state, State.FOLLOWER)
            core.state = State.FOLLOWER


def learn(core: Core, now_ms: float, epoch: LeaderEpoch, leader_id: NodeId | None) -> bool:
    """Somebody says who leads, and which epoch it is. True if that was news."""
    other = leader_id if leader_id not in (None, core.key.node_id) else None
    if epoch > core.epoch:
        if other is None:
            become_unattached(core, now_ms, epoch)
        else:
            become_follower(core, now_ms, epoch, other)
        return True
    is_open = core.state not in (State.LEADER, State.RESIGNED) and core.followed_leader is None
    if epoch == core.epoch and other is not None and is_open:
        become_follower(core, now_ms, epoch, other)
        return True
    return False
