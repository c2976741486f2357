"""The table of states: complete, drawn in the documentation, and obeyed."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.quorum_driver import Driver

from tidelog.model.errors import ErrorCode
from tidelog.model.ids import LeaderEpoch, NodeId, Offset
from tidelog.quorum import messages as m
from tidelog.quorum.events import AnnounceLeader, LeaveOffice, ResignationWanted, TakeOffice
from tidelog.quorum.settings import QuorumSettings
from tidelog.quorum.states import MEANING, TRANSITIONS, State, check_step

DOCUMENT = Path(__file__).parents[3] / "docs" / "elections.md"


def drawn() -> str:
    """The table as the documentation has it."""
    lines = ["```mermaid", "stateDiagram-v2"]
    lines += [
        f"    {before.value} --> {after.value}: {cause.replace(';', ',')}"
        for (before, after), cause in TRANSITIONS.items()
    ]
    lines += ["```", "", "| state | meaning |", "|---|---|"]
    lines += [f"| `{state.value}` | {meaning} |" for state, meaning in MEANING.items()]
    return "\n".join(lines)


def test_the_diagram_in_the_documentation_is_current() -> None:
    assert drawn() in DOCUMENT.read_text()


def test_every_state_has_a_meaning_a_way_in_and_a_way_out() -> None:
    assert set(MEANING) == set(State)
    assert {after for _, after in TRANSITIONS} == set(State)
    assert {before for before, _ in TRANSITIONS} == set(State)


def test_a_step_that_is_not_in_the_table_is_refused() -> None:
    check_step(State.CANDIDATE, State.LEADER)
    with pytest.raises(AssertionError, match="from Follower to Leader"):
        check_step(State.FOLLOWER, State.LEADER)


def test_a_voter_without_history_is_unattached() -> None:
    assert Driver(1, 2, 3).quorum.state is State.UNATTACHED


def test_a_replica_that_is_no_voter_observes() -> None:
    assert Driver(2, 3).quorum.state is State.OBSERVER


def test_a_voter_remembers_its_vote_when_it_comes_back() -> None:
    driver = Driver(1, 2, 3)
    assert driver.vote_for(2, 1).is_granted
    driver.restart()
    assert driver.state() is State.VOTED
    driver.now += QuorumSettings().fetch_timeout_ms
    assert not driver.vote_for(3, 1).is_granted
    assert driver.vote_for(2, 1).is_granted


def test_a_leader_comes_back_as_resigned() -> None:
    driver = Driver(1, 2, 3)
    driver.lead()
    assert driver.state() is State.LEADER
    driver.restart()
    assert driver.state() is State.RESIGNED
    assert driver.quorum.epoch == 1
    assert driver.quorum.leader_id is None


def test_a_follower_comes_back_as_a_follower() -> None:
    driver = Driver(1, 2, 3)
    driver.follow(2, 4)
    driver.restart()
    assert (driver.quorum.state, driver.quorum.leader_id) == (State.FOLLOWER, 2)
    driver.tick()
    ((_, destination, request),) = driver.sent(m.FetchRequest)
    assert (destination, request.epoch) == (2, 4)


def test_the_only_voter_leads_at_once() -> None:
    driver = Driver(1)
    assert driver.quorum.next_deadline() == 0.0
    driver.tick()
    assert driver.state() is State.LEADER
    assert not driver.of(TakeOffice)
    driver.flush()
    assert driver.of(TakeOffice) == [TakeOffice(LeaderEpoch(1))]


def test_the_leader_is_announced_whenever_it_changes() -> None:
    driver = Driver(1, 2, 3)
    driver.follow(2, 4)
    assert driver.of(AnnounceLeader) == [AnnounceLeader(NodeId(2), LeaderEpoch(4))]
    driver.follow(2, 4)
    assert driver.of(AnnounceLeader) == []
    driver.vote_for(3, 5)
    assert driver.of(AnnounceLeader) == [AnnounceLeader(None, LeaderEpoch(5))]


def test_a_leader_that_resigns_names_the_longest_log_first() -> None:
    driver = Driver(1, 2, 3)
    driver.lead()
    driver.fetch_by(3, 1, 1)
    driver.step(ResignationWanted())
    assert driver.state() is State.RESIGNED
    assert driver.of(LeaveOffice) == [LeaveOffice(LeaderEpoch(1))]
    (_, first, request), (_, second, _) = driver.sent(m.EndQuorumEpochRequest)
    assert (first, second) == (2, 3)
    assert [successor.node_id for successor in request.successors] == [3, 2]


def test_the_only_voter_does_not_resign() -> None:
    driver = Driver(1)
    driver.tick()
    driver.flush()
    driver.step(ResignationWanted())
    assert driver.state() is State.LEADER


def test_the_first_successor_stands_at_once() -> None:
    driver = Driver(1, 2, 3)
    driver.follow(2, 4)
    driver.ask(m.EndQuorumEpochRequest(NodeId(2), LeaderEpoch(4), (driver.key,), cluster_id="ours"))
    assert driver.state() is State.UNATTACHED
    assert driver.quorum.describe()["timer_ms"] == driver.now


def test_what_is_said_in_another_cluster_changes_nothing() -> None:
    driver = Driver(1, 2, 3)
    request = m.BeginQuorumEpochRequest(driver.key, NodeId(2), LeaderEpoch(9), (), "theirs")
    response = driver.ask(request)
    assert response is not None
    assert response.error is ErrorCode.INCONSISTENT_CLUSTER_ID
    assert driver.quorum.epoch == 0


def test_only_a_leader_takes_proposals() -> None:
    driver = Driver(1, 2, 3)
    proposal, effects = driver.quorum.propose(0.0, [b"a"])
    assert (proposal.error, effects) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, [])
    driver.lead()
    proposal, _ = driver.quorum.propose(0.0, [b"a", b"b"])
    assert (proposal.base_offset, proposal.last_offset) == (Offset(1), Offset(2))


if __name__ == "__main__":
    print(drawn())
