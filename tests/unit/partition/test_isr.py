"""Proposals for the in-sync set: one at a time, and nobody is forgotten whom one may have added."""

from __future__ import annotations

import pytest
from tests.unit.partition.replicas import KEY, a_state

from tidelog.model.errors import ErrorCode
from tidelog.model.ids import LeaderEpoch, NodeId
from tidelog.partition.isr import IMAGE_PATIENCE_MS, RETRY_MS, Isr, Member, ProposeIsr


def propose(isr: Isr, *nodes: int) -> ProposeIsr:
    members = tuple(Member(NodeId(node), 10 * node) for node in nodes)
    return isr.propose(KEY, LeaderEpoch(5), members)


@pytest.fixture
def isr() -> Isr:
    return Isr(a_state(isr=(1, 2)))


def test_a_proposed_member_is_one_until_the_image_says_otherwise(isr: Isr) -> None:
    proposal = propose(isr, 1, 2, 3)
    assert (isr.committed, isr.maximal) == ((1, 2), (1, 2, 3))
    isr.answered(proposal, ErrorCode.NONE, 0)
    assert isr.maximal == (1, 2, 3)
    assert not isr.may_propose(RETRY_MS)
    isr.follow(a_state(isr=(1, 2, 3), partition_epoch=1))
    assert (isr.committed, isr.maximal, isr.in_flight) == ((1, 2, 3), (1, 2, 3), None)


def test_a_member_proposed_away_is_one_until_the_image_says_otherwise(isr: Isr) -> None:
    propose(isr, 1)
    assert isr.maximal == (1, 2)


def test_a_refused_proposal_never_was(isr: Isr) -> None:
    proposal = propose(isr, 1, 2, 3)
    isr.answered(proposal, ErrorCode.INELIGIBLE_REPLICA, 0)
    assert isr.maximal == (1, 2)
    assert not isr.may_propose(0)
    assert isr.may_propose(RETRY_MS)


def test_a_lost_proposal_is_made_again_and_a_refusal_then_proves_nothing(isr: Isr) -> None:
    proposal = propose(isr, 1, 2, 3)
    isr.answered(proposal, ErrorCode.NETWORK_EXCEPTION, 0)
    assert isr.again(RETRY_MS - 1) is None
    assert isr.next_deadline() == RETRY_MS
    assert isr.again(RETRY_MS) == proposal
    isr.answered(proposal, ErrorCode.INELIGIBLE_REPLICA, RETRY_MS)
    assert isr.maximal == (1, 2, 3)
    second = propose(isr, 1, 2)
    isr.answered(second, ErrorCode.INELIGIBLE_REPLICA, RETRY_MS)
    assert isr.maximal == (1, 2, 3)
    isr.follow(a_state(isr=(1, 2), partition_epoch=1))
    assert list(isr.maximal) == [1, 2]


def test_based_on_old_facts_it_waits_for_the_new_ones_but_not_for_ever(isr: Isr) -> None:
    proposal = propose(isr, 1, 2, 3)
    isr.answered(proposal, ErrorCode.INVALID_UPDATE_VERSION, 0)
    assert isr.maximal == (1, 2, 3)
    assert isr.again(IMAGE_PATIENCE_MS - 1) is None
    assert isr.again(IMAGE_PATIENCE_MS) == proposal


def test_an_answer_that_comes_after_the_image_changes_nothing(isr: Isr) -> None:
    proposal = propose(isr, 1, 2, 3)
    isr.follow(a_state(isr=(1, 2, 3), partition_epoch=1))
    isr.answered(proposal, ErrorCode.INELIGIBLE_REPLICA, 0)
    assert isr.maximal == (1, 2, 3)


def test_an_older_image_changes_nothing(isr: Isr) -> None:
    isr.follow(a_state(isr=(1, 2, 3), partition_epoch=2))
    isr.follow(a_state(isr=(1,), partition_epoch=1))
    assert isr.committed == (1, 2, 3)


def test_a_proposal_of_what_is_so_already_does_not_wait_for_an_image(isr: Isr) -> None:
    lost = propose(isr, 1, 2, 3)
    isr.answered(lost, ErrorCode.NETWORK_EXCEPTION, 0)
    isr.answered(lost, ErrorCode.INELIGIBLE_REPLICA, 0)
    same = propose(isr, 1, 2)
    isr.answered(same, ErrorCode.NONE, 0)
    assert (isr.in_flight, isr.maximal) == (None, (1, 2, 3))
    assert not isr.may_propose(0)
    assert isr.may_propose(RETRY_MS)
    assert propose(isr, 1, 2, 3).nodes == (1, 2, 3)
