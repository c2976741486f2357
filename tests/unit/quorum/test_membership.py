"""Voters that come and go."""

from __future__ import annotations

from tests.support.quorum_driver import Driver, key

from tidelog.model.errors import ErrorCode
from tidelog.quorum import messages as m
from tidelog.quorum.events import LeaveOffice, SendResponse
from tidelog.quorum.states import State
from tidelog.quorum.voters import Endpoint


def sole_leader() -> Driver:
    driver = Driver(1)
    driver.tick()
    driver.flush()
    return driver


def add(driver: Driver, number: int, **fields: bool) -> m.Response | None:
    endpoints = (Endpoint("PLAINTEXT", "host", 9092),)
    return driver.ask(
        m.AddRaftVoterRequest(key(number), endpoints, 5_000, cluster_id="ours", **fields)
    )


def remove(driver: Driver, number: int) -> m.Response | None:
    return driver.ask(m.RemoveRaftVoterRequest(key(number), "ours"))


def grow(driver: Driver, number: int) -> None:
    """An observer that has caught up becomes a voter."""
    add(driver, number)
    driver.fetch_by(number, driver.log.end_offset, 1)
    driver.flush()
    driver.fetch_by(number, driver.log.end_offset, 1)
    assert driver.quorum.voters.get(key(number).node_id) is not None


def answers(driver: Driver) -> list[ErrorCode]:
    kinds = (m.AddRaftVoterResponse, m.RemoveRaftVoterResponse)
    found = [each.response for each in driver.of(SendResponse)]
    return [response.error for response in found if isinstance(response, kinds)]


def test_a_new_voter_must_have_caught_up() -> None:
    driver = sole_leader()
    assert add(driver, 2) is None
    driver.fetch_by(2, 0, -1)
    assert driver.voter_ids() == [1]
    driver.fetch_by(2, 1, 1)
    assert driver.voter_ids() == [1, 2]


def test_a_change_counts_from_its_append_and_is_answered_at_its_commit() -> None:
    driver = sole_leader()
    add(driver, 2)
    driver.fetch_by(2, 1, 1)
    assert driver.voter_ids() == [1, 2]
    driver.flush()
    assert driver.quorum.high_watermark == 1, "two of two are needed now"
    driver.fetch_by(2, 2, 1)
    assert driver.quorum.high_watermark == 2
    assert answers(driver) == [ErrorCode.NONE]


def test_who_does_not_want_to_wait_for_the_commit_is_answered_at_the_append() -> None:
    driver = sole_leader()
    add(driver, 2, ack_when_committed=False)
    driver.fetch_by(2, 1, 1)
    assert answers(driver) == [ErrorCode.NONE]
    driver.fetch_by(2, 2, 1)
    assert answers(driver) == []


def test_the_new_voters_endpoints_are_kept() -> None:
    driver = sole_leader()
    grow(driver, 2)
    driver.restart()
    voter = driver.quorum.voters.get(key(2).node_id)
    assert voter is not None
    assert voter.endpoints == (Endpoint("PLAINTEXT", "host", 9092),)


def test_one_change_at_a_time() -> None:
    driver = sole_leader()
    add(driver, 2)
    busy = add(driver, 3)
    assert busy is not None
    assert busy.error is ErrorCode.REQUEST_TIMED_OUT
    driver.fetch_by(2, 1, 1)
    busy = add(driver, 3)
    assert busy is not None
    assert busy.error is ErrorCode.REQUEST_TIMED_OUT


def test_a_newcomer_that_never_catches_up_is_given_up() -> None:
    driver = sole_leader()
    add(driver, 2)
    driver.tick()
    assert answers(driver) == [ErrorCode.REQUEST_TIMED_OUT]
    assert add(driver, 3) is None


def test_a_voter_is_not_added_twice() -> None:
    driver = sole_leader()
    response = add(driver, 1)
    assert response is not None
    assert response.error is ErrorCode.DUPLICATE_VOTER


def test_only_a_leader_that_has_committed_changes_voters() -> None:
    driver = Driver(1, 2, 3)
    refused = add(driver, 4)
    assert refused is not None
    assert refused.error is ErrorCode.NOT_LEADER_OR_FOLLOWER
    driver.lead()
    refused = add(driver, 4)
    assert refused is not None
    assert refused.error is ErrorCode.REQUEST_TIMED_OUT


def test_the_last_voter_stays() -> None:
    refused = remove(sole_leader(), 1)
    assert refused is not None
    assert refused.error is ErrorCode.INVALID_REQUEST


def test_who_is_no_voter_is_not_removed() -> None:
    refused = remove(sole_leader(), 7)
    assert refused is not None
    assert refused.error is ErrorCode.VOTER_NOT_FOUND


def test_a_removal_waits_until_a_majority_of_those_left_follows() -> None:
    driver = Driver(1, 2, 3)
    driver.lead()
    driver.fetch_by(2, 1, 1)
    driver.now += 5_000.0
    assert remove(driver, 2) is None
    assert driver.voter_ids() == [1, 2, 3], "replica 3 was never heard of"
    driver.fetch_by(3, 1, 1)
    assert driver.voter_ids() == [1, 3]


def test_a_leader_that_removed_itself_leads_until_that_is_committed() -> None:
    driver = Driver(1, 2, 3)
    driver.lead()
    for number in (2, 3):
        driver.fetch_by(number, 1, 1)
    assert remove(driver, 1) is None
    assert driver.voter_ids() == [2, 3]
    driver.fetch_by(2, 2, 1)
    assert driver.state() is State.LEADER
    assert driver.quorum.high_watermark == 1
    driver.fetch_by(3, 2, 1)
    assert driver.state() is State.RESIGNED
    assert driver.of(LeaveOffice)
    assert answers(driver) == [ErrorCode.NONE]
    driver.tick_role()
    assert driver.state() is State.OBSERVER


def test_who_asked_is_told_when_the_leader_steps_down() -> None:
    driver = sole_leader()
    add(driver, 2)
    driver.follow(5, 9)
    assert answers(driver) == [ErrorCode.NOT_LEADER_OR_FOLLOWER]


def test_a_node_with_another_directory_is_another_replica() -> None:
    driver = sole_leader()
    grow(driver, 2)
    before = driver.quorum.high_watermark
    driver.quorum.propose(driver.now, [b"a"])
    driver.flush()
    stranger = m.FetchRequest(
        key(2).__class__(key(2).node_id, key(77).directory_id),
        driver.quorum.epoch,
        driver.log.end_offset,
        driver.log.last_epoch,
        driver.quorum.high_watermark,
        500,
        1 << 20,
        "ours",
    )
    driver.ask(stranger)
    assert driver.quorum.high_watermark == before
