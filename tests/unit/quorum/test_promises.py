"""A voter that has heard its leader elects nobody else for a while, and the leader knows it."""

from __future__ import annotations

from math import inf

from tests.support.quorum_driver import Driver, key

from tidelog.model.errors import ErrorCode
from tidelog.model.ids import LeaderEpoch, NodeId, Offset
from tidelog.quorum import messages as m
from tidelog.quorum.events import SendResponse
from tidelog.quorum.leadership import Progress
from tidelog.quorum.settings import QuorumSettings
from tidelog.quorum.states import State

TIMEOUT_MS = QuorumSettings().fetch_timeout_ms
EPOCH = LeaderEpoch(1)


def answer(driver: Driver, error: ErrorCode = ErrorCode.NONE, *, epoch: int = EPOCH) -> None:
    """Of leader 2, to the fetch that was sent in the last step."""
    ((number, destination, _),) = driver.sent(m.FetchRequest)
    assert destination == 2
    leader_id = NodeId(2) if error is ErrorCode.NONE else None
    response = m.FetchResponse(error, leader_id, LeaderEpoch(epoch), Offset(0), number=5)
    driver.respond(number, response)


def bound_voter() -> Driver:
    """It has just heard leader 2 of epoch 1."""
    driver = Driver(1, 2, 3)
    driver.follow(2, EPOCH)
    driver.now = 100.0
    answer(driver)
    return driver


# --- the voter --------------------------------------------------------------------------------


def test_a_fetch_says_which_answer_was_heard_last() -> None:
    driver = Driver(1, 2, 3)
    driver.follow(2, EPOCH)
    ((_, _, first),) = driver.sent(m.FetchRequest)
    answer(driver)
    ((_, _, second),) = driver.sent(m.FetchRequest)
    assert (first.heard, second.heard) == (0, 5)


def test_a_voter_that_has_heard_its_leader_elects_nobody_else() -> None:
    driver = bound_voter()
    assert not driver.vote_for(3, 1, pre_vote=True).is_granted
    refused = driver.vote_for(3, 2)
    assert (refused.is_granted, refused.leader_epoch) == (False, 2), "the epoch moves all the same"
    driver.now = 100.0 + TIMEOUT_MS - 1
    assert not driver.vote_for(3, 3).is_granted
    driver.now += 1
    assert driver.vote_for(3, 4).is_granted


def test_nor_does_it_stand_itself() -> None:
    driver = bound_voter()
    driver.vote_for(3, 2)
    assert driver.state() is State.UNATTACHED
    driver.tick_role()
    assert driver.now >= 100.0 + TIMEOUT_MS
    assert driver.state() is State.PROSPECTIVE


def test_its_leader_itself_may_be_elected_again() -> None:
    driver = bound_voter()
    assert driver.vote_for(2, 2).is_granted


def test_a_leader_that_resigns_frees_its_voters() -> None:
    driver = bound_voter()
    driver.ask(m.EndQuorumEpochRequest(NodeId(2), EPOCH, (), "ours"))
    assert driver.vote_for(3, 2).is_granted


def test_a_leader_that_says_it_is_none_frees_its_voters() -> None:
    driver = bound_voter()
    answer(driver, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert driver.vote_for(3, 2).is_granted


def test_a_leader_that_has_heard_of_a_higher_epoch_frees_its_voters() -> None:
    driver = bound_voter()
    answer(driver, ErrorCode.FENCED_LEADER_EPOCH, epoch=3)
    assert driver.vote_for(3, 3).is_granted


def test_a_voter_that_comes_back_waits_as_if_it_had_just_promised() -> None:
    driver = bound_voter()
    driver.restart()
    assert not driver.vote_for(3, 2).is_granted
    driver.now += TIMEOUT_MS
    assert driver.vote_for(3, 3).is_granted


def test_a_voter_without_history_votes_at_once() -> None:
    assert Driver(1, 2, 3).vote_for(3, 1).is_granted


# --- the leader -------------------------------------------------------------------------------


def test_a_leader_is_certain_for_a_timeout_from_when_an_answer_left_that_came() -> None:
    driver = Driver(1, 2, 3)
    driver.lead()
    assert driver.quorum.office_until_ms is None
    driver.now = elected_ms = driver.now + 10
    first = driver.fetch_by(2, 0, -1)
    assert first is not None
    driver.now += 70
    driver.fetch_by(2, 1, 1, heard=first.number)
    assert driver.quorum.has_office
    assert driver.quorum.office_until_ms == elected_ms + TIMEOUT_MS


def test_a_fetch_that_is_sent_again_promises_nothing_new() -> None:
    driver = Driver(1, 2, 3)
    driver.lead()
    first = driver.fetch_by(2, 0, -1)
    assert first is not None
    driver.fetch_by(2, 1, 1, heard=first.number)
    until_ms = driver.quorum.office_until_ms
    driver.now += 1_000
    driver.fetch_by(2, 1, 1, heard=first.number)
    assert driver.quorum.office_until_ms == until_ms


def test_answers_to_fetches_that_waited_count_from_when_they_left() -> None:
    driver = Driver(1, 2, 3)
    driver.lead()
    first = driver.fetch_by(2, 0, -1)
    assert first is not None
    driver.fetch_by(2, 1, 1, heard=first.number, hw=1)
    driver.now = sent_ms = driver.now + 499
    driver.quorum.propose(driver.now, [b"a"])
    driver.fetch_by(2, 1, 1, heard=first.number, hw=1)
    (parked,) = driver.of(SendResponse)
    assert isinstance(parked.response, m.FetchResponse)
    driver.fetch_by(2, 2, 1, heard=parked.response.number, hw=1)
    assert driver.quorum.office_until_ms == sent_ms + TIMEOUT_MS


def test_who_has_heard_nothing_has_promised_nothing() -> None:
    driver = Driver(1, 2, 3)
    driver.lead()
    driver.fetch_by(2, 1, 1)
    assert driver.quorum.has_office
    assert driver.quorum.office_until_ms == -inf


def test_an_answer_that_was_overtaken_counts_for_less() -> None:
    progress = Progress(key(2))
    first, second = progress.answered(10.0), progress.answered(20.0)
    progress.heard(second)
    progress.heard(first)
    assert progress.bound_since_ms == 20.0
    assert progress.unheard == {}


def test_answers_that_never_come_are_forgotten() -> None:
    progress = Progress(key(2))
    numbers = [progress.answered(float(now)) for now in range(100)]
    assert len(progress.unheard) < 20
    progress.heard(numbers[0])
    assert progress.bound_since_ms == -inf
    progress.heard(numbers[-1])
    assert progress.bound_since_ms == 99.0


def test_numbers_begin_again_where_the_wire_has_no_more() -> None:
    progress = Progress(key(2), last_number=2**31 - 2)
    assert [progress.answered(1.0), progress.answered(2.0)] == [2**31 - 1, 1]
