"""Votes: who gets one, who counts them, and how an epoch begins and ends.

A vote is granted once per epoch, to a replica whose log holds at least what ours does: a log is
better if its last epoch is higher, or with the same epoch if it is longer. As every committed
record is on a majority, whoever is elected by a majority has them all.

A pre-vote is granted by the same comparison, unless there is a leader that the asked replica has
heard from. It promises nothing and is not remembered.
"""

from __future__ import annotations

from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NodeId
from tidelog.quorum import roles
from tidelog.quorum.core import Core
from tidelog.quorum.events import Ticket
from tidelog.quorum.messages import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    VoteRequest,
    VoteResponse,
)
from tidelog.quorum.states import State


def on_vote(core: Core, now_ms: float, ticket: Ticket, request: VoteRequest) -> None:
    error = core.refusal(request.epoch, request.cluster_id)
    if error is None and not request.voter.is_same(core.key):
        error = ErrorCode.INVALID_VOTER_KEY
    if error is not None:
        core.reply(ticket, VoteResponse(error, core.followed_leader, core.epoch))
        return
    if request.epoch > core.epoch:
        roles.become_unattached(core, now_ms, request.epoch)
    is_free = core.may_elect(request.replica.node_id, now_ms)
    is_granted = (
        is_free
        and _is_complete(core, request)
        and (core.state is not State.LEADER if request.pre_vote else _may_vote(core, request))
    )
    if is_granted and not request.pre_vote and core.election.voted is None:
        roles.become_voted(core, now_ms, request.epoch, request.replica)
    core.reply(ticket, VoteResponse(ErrorCode.NONE, core.followed_leader, core.epoch, is_granted))


def _is_complete(core: Core, request: VoteRequest) -> bool:
    theirs = (request.last_epoch, request.last_offset)
    return theirs >= (core.log.last_epoch, core.log.end_offset)


def _may_vote(core: Core, request: VoteRequest) -> bool:
    """The epoch has no leader yet, and the vote is not given, or was given to the same."""
    if core.election.leader_id is not None:
        return False
    return core.election.voted is None or core.election.voted == request.replica


def on_vote_answered(
    core: Core, now_ms: float, voter_id: NodeId, request: VoteRequest, response: VoteResponse
) -> None:
    """The answers of one round only: a new state drops what was outstanding before."""
    if response.error is ErrorCode.INCONSISTENT_CLUSTER_ID:
        return
    leader_id = None if response.is_granted else response.leader_id
    if roles.learn(core, now_ms, response.leader_epoch, leader_id):
        return
    if core.tally is None or request.epoch != core.epoch:
        return
    if response.is_granted:
        core.tally.granted[voter_id] = None
        core.tally.denied.pop(voter_id, None)
    elif voter_id not in core.tally.granted:
        core.tally.denied[voter_id] = None


def conclude(core: Core, now_ms: float) -> None:
    """Draw the consequence of the votes that are in."""
    while core.tally is not None:
        tally, voters = core.tally, core.voters
        can_win = len(voters) - len(tally.denied) >= voters.majority
        if len(tally.granted) >= voters.majority:
            if tally.is_pre_vote:
                roles.become_candidate(core, now_ms)
                continue
            roles.become_leader(core, now_ms)
        elif not can_win and tally.is_pre_vote:
            give_way(core, now_ms)
        elif not can_win:
            core.tally = None
            core.role_deadline_ms = core.backoff_at(now_ms)
        return


def give_way(core: Core, now_ms: float) -> None:
    """A pre-vote was lost: wait a while, less than for a leader that was heard of."""
    roles.become_unattached(core, now_ms, core.epoch)
    core.role_deadline_ms = core.backoff_at(now_ms)


def on_begin_epoch(
    core: Core, now_ms: float, ticket: Ticket, request: BeginQuorumEpochRequest
) -> None:
    error = core.refusal(request.epoch, request.cluster_id)
    if error is None and not request.voter.is_same(core.key):
        error = ErrorCode.INVALID_VOTER_KEY
    if error is None:
        roles.learn(core, now_ms, request.epoch, request.leader_id)
    response = BeginQuorumEpochResponse(error or ErrorCode.NONE, core.followed_leader, core.epoch)
    core.reply(ticket, response)


def on_end_epoch(core: Core, now_ms: float, ticket: Ticket, request: EndQuorumEpochRequest) -> None:
    """The first successor asks for votes at once, the next ones a little later."""
    error = core.refusal(request.epoch, request.cluster_id)
    if error is None:
        roles.learn(core, now_ms, request.epoch, request.leader_id)
        if core.followed_leader == request.leader_id != core.key.node_id:
            core.promise = None
            roles.lose_leader(core, now_ms, _turn_at(core, now_ms, request))
    core.reply(
        ticket,
        EndQuorumEpochResponse(error or ErrorCode.NONE, core.followed_leader, core.epoch),
    )


def _turn_at(core: Core, now_ms: float, request: EndQuorumEpochRequest) -> float:
    for place, successor in enumerate(request.successors):
        if successor.is_same(core.key):
            step_ms = core.settings.election_backoff_max_ms
            return now_ms + place * step_ms * (0.5 + core.random.random() / 2)
    return core.election_timeout_at(now_ms)
