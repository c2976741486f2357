"""Who gets a vote, and what becomes of those who ask."""

from __future__ import annotations

from tests.support.quorum_driver import Driver, key

from tidelog.model.errors import ErrorCode
from tidelog.model.ids import LeaderEpoch, NodeId, Offset
from tidelog.quorum import messages as m
from tidelog.quorum.batches import Batch
from tidelog.quorum.events import RequestFailed
from tidelog.quorum.ports import ElectionState
from tidelog.quorum.settings import QuorumSettings
from tidelog.quorum.states import State
from tidelog.quorum.voters import ReplicaKey


def with_log(driver: Driver, *epochs: int) -> None:
    """A log with one record of each epoch given."""
    for epoch in epochs:
        driver.log.append(Batch(driver.log.end_offset, LeaderEpoch(epoch), (b"x",)))
    driver.log.flushed(driver.log.end_offset)
    driver.store.save(ElectionState(LeaderEpoch(max(epochs))))
    driver.start()
    driver.now += QuorumSettings().fetch_timeout_ms


def test_a_vote_is_durable_before_it_is_given() -> None:
    driver = Driver(1, 2, 3)
    assert driver.vote_for(2, 3).is_granted
    assert driver.store.state == ElectionState(LeaderEpoch(3), voted=key(2))


def test_nobody_votes_twice_in_an_epoch() -> None:
    driver = Driver(1, 2, 3)
    assert driver.vote_for(2, 1).is_granted
    assert not driver.vote_for(3, 1).is_granted
    assert driver.vote_for(3, 2).is_granted


def test_a_shorter_log_gets_no_vote() -> None:
    driver = Driver(1, 2, 3)
    with_log(driver, 1, 1, 2)
    assert not driver.vote_for(2, 5, log=(2, 2)).is_granted
    assert not driver.vote_for(2, 6, log=(9, 1)).is_granted
    assert driver.vote_for(2, 7, log=(3, 2)).is_granted


def test_a_log_of_a_later_epoch_is_better_however_short() -> None:
    driver = Driver(1, 2, 3)
    with_log(driver, 1, 1, 1)
    assert driver.vote_for(2, 5, log=(1, 2)).is_granted


def test_a_refused_vote_still_moves_the_epoch() -> None:
    driver = Driver(1, 2, 3)
    with_log(driver, 4)
    response = driver.vote_for(2, 9)
    assert (response.is_granted, response.leader_epoch) == (False, 9)
    assert driver.store.state.epoch == 9


def test_an_older_epoch_is_fenced() -> None:
    driver = Driver(1, 2, 3)
    driver.follow(3, 5)
    response = driver.vote_for(2, 4)
    assert response.error is ErrorCode.FENCED_LEADER_EPOCH
    assert (response.leader_id, response.leader_epoch) == (3, 5)


def test_a_vote_for_another_directory_is_refused() -> None:
    driver = Driver(1, 2, 3)
    other = ReplicaKey(NodeId(1), key(99).directory_id)
    assert driver.vote_for(2, 1, voter=other).error is ErrorCode.INVALID_VOTER_KEY


def test_a_pre_vote_binds_nobody() -> None:
    driver = Driver(1, 2, 3)
    assert driver.vote_for(2, 0, pre_vote=True).is_granted
    assert driver.vote_for(3, 0, pre_vote=True).is_granted
    assert driver.store.state == ElectionState()
    assert driver.state() is State.UNATTACHED


def test_who_hears_from_a_leader_grants_no_pre_vote() -> None:
    driver = Driver(1, 2, 3)
    driver.follow(2, 4)
    ((number, _, _),) = driver.sent(m.FetchRequest)
    assert driver.vote_for(3, 4, pre_vote=True).is_granted, "it has not heard from it yet"
    driver.respond(number, m.FetchResponse(ErrorCode.NONE, NodeId(2), LeaderEpoch(4), Offset(0)))
    response = driver.vote_for(3, 4, pre_vote=True)
    assert (response.is_granted, response.leader_id) == (False, 2)


def test_a_pre_vote_comes_before_the_new_epoch() -> None:
    driver = Driver(1, 2, 3)
    driver.tick_role()
    assert driver.state() is State.PROSPECTIVE
    assert all(vote.pre_vote and vote.epoch == 0 for _, _, vote in driver.sent(m.VoteRequest))
    assert driver.store.state.epoch == 0
    number = driver.sent(m.VoteRequest)[0][0]
    driver.respond(number, m.VoteResponse(ErrorCode.NONE, None, LeaderEpoch(0), True))
    assert driver.state() is State.CANDIDATE
    assert driver.store.state == ElectionState(LeaderEpoch(1), voted=driver.key)
    assert not any(vote.pre_vote for _, _, vote in driver.sent(m.VoteRequest))


def test_a_lost_pre_vote_leaves_the_epoch_alone() -> None:
    driver = Driver(1, 2, 3)
    driver.tick_role()
    for number, _, _ in driver.sent(m.VoteRequest):
        driver.respond(number, m.VoteResponse(ErrorCode.NONE, None, LeaderEpoch(0)))
    assert driver.state() is State.UNATTACHED
    assert driver.quorum.epoch == 0


def test_a_vote_that_comes_after_its_round_does_not_count() -> None:
    driver = Driver(1, 2, 3)
    driver.tick_role()
    (late, _, _), _ = driver.sent(m.VoteRequest)
    driver.tick_role()
    assert driver.state() is State.UNATTACHED
    driver.respond(late, m.VoteResponse(ErrorCode.NONE, None, LeaderEpoch(0), True))
    assert driver.state() is State.UNATTACHED


def test_a_vote_that_could_not_be_asked_for_is_asked_for_again() -> None:
    driver = Driver(1, 2, 3)
    driver.tick_role()
    (number, destination, request), _ = driver.sent(m.VoteRequest)
    driver.step(RequestFailed(number))
    driver.tick()
    assert [(to, vote) for _, to, vote in driver.sent(m.VoteRequest)] == [(destination, request)]


def test_a_candidate_that_lost_asks_again_from_the_start() -> None:
    driver = Driver(1, 2, 3)
    driver.tick_role()
    driver.respond(
        driver.sent(m.VoteRequest)[0][0],
        m.VoteResponse(ErrorCode.NONE, None, LeaderEpoch(0), True),
    )
    for number, _, _ in driver.sent(m.VoteRequest):
        driver.respond(number, m.VoteResponse(ErrorCode.NONE, None, LeaderEpoch(1)))
    assert driver.state() is State.CANDIDATE
    driver.tick_role()
    assert (driver.quorum.state, driver.quorum.epoch) == (State.PROSPECTIVE, 1)


def test_a_candidate_follows_who_was_elected_instead() -> None:
    driver = Driver(1, 2, 3)
    driver.tick_role()
    driver.respond(
        driver.sent(m.VoteRequest)[0][0],
        m.VoteResponse(ErrorCode.NONE, None, LeaderEpoch(0), True),
    )
    driver.follow(3, 1)
    assert (driver.quorum.state, driver.quorum.leader_id) == (State.FOLLOWER, 3)


def test_an_observer_votes_but_never_stands() -> None:
    driver = Driver(2, 3)
    assert driver.vote_for(2, 5).is_granted
    assert not driver.vote_for(3, 5).is_granted
    assert driver.state() is State.OBSERVER
    driver.restart()
    assert not driver.vote_for(3, 5).is_granted
