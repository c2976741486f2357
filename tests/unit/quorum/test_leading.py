"""What a leader answers, what it calls committed, and when it gives up."""

from __future__ import annotations

from uuid import UUID

from tests.support.quorum_driver import Driver, key

from tidelog.model.errors import ErrorCode
from tidelog.model.ids import LeaderEpoch, NodeId, Offset
from tidelog.quorum import messages as m
from tidelog.quorum.batches import Batch, LeaderChange
from tidelog.quorum.events import ApplyCommitted, FlushLog, SendResponse, TakeOffice
from tidelog.quorum.ports import ElectionState, EpochEnd
from tidelog.quorum.states import State
from tidelog.quorum.voters import ReplicaKey


def leader_of_three() -> Driver:
    driver = Driver(1, 2, 3)
    driver.lead()
    return driver


def propose(driver: Driver, *records: bytes) -> None:
    _, driver.effects = driver.quorum.propose(driver.now, records)


def test_the_first_record_of_a_leader_says_who_leads() -> None:
    driver = leader_of_three()
    (batch,) = driver.log.batches
    assert isinstance(batch.control, LeaderChange)
    assert batch.control.leader == driver.key
    assert [granting.node_id for granting in batch.control.granting] == [1, 2]


def test_what_a_majority_has_fetched_is_committed() -> None:
    driver = leader_of_three()
    driver.fetch_by(2, 1, 1)
    assert driver.of(ApplyCommitted) == [ApplyCommitted(Offset(1))]
    assert driver.of(TakeOffice)
    propose(driver, b"a", b"b")
    driver.flush()
    assert not driver.of(ApplyCommitted)
    driver.fetch_by(3, 3, 1)
    assert driver.of(ApplyCommitted) == [ApplyCommitted(Offset(3))]


def test_what_the_leader_has_not_flushed_does_not_count() -> None:
    driver = leader_of_three()
    driver.fetch_by(2, 1, 1)
    propose(driver, b"a")
    assert driver.of(FlushLog)
    driver.fetch_by(2, 2, 1)
    assert driver.quorum.high_watermark == 1
    driver.flush()
    assert driver.quorum.high_watermark == 2


def test_a_majority_without_the_leader_is_a_majority() -> None:
    driver = leader_of_three()
    propose(driver, b"a")
    driver.fetch_by(2, 2, 1)
    driver.fetch_by(3, 2, 1)
    assert driver.quorum.high_watermark == 2


def test_records_of_an_older_epoch_are_not_committed_by_count() -> None:
    driver = Driver(1, 2, 3)
    for _ in range(2):
        driver.log.append(Batch(driver.log.end_offset, LeaderEpoch(1), (b"x",)))
    driver.log.flushed(Offset(2))
    driver.store.save(ElectionState(LeaderEpoch(2)))
    driver.start()
    driver.lead()
    driver.fetch_by(2, 2, 1)
    assert driver.quorum.high_watermark == 0, "two have both records, of epoch 1"
    driver.fetch_by(2, 3, 3)
    assert driver.quorum.high_watermark == 3


def test_a_fetch_waits_until_there_is_news() -> None:
    driver = leader_of_three()
    driver.fetch_by(3, 1, 1, hw=1)
    driver.fetch_by(2, 1, 1, hw=1)
    assert not driver.of(SendResponse)
    propose(driver, b"a")
    answers = [answer.response for answer in driver.of(SendResponse)]
    assert [len(a.batches) for a in answers if isinstance(a, m.FetchResponse)] == [1, 1]


def test_a_fetch_is_answered_with_nothing_when_its_time_is_up() -> None:
    driver = leader_of_three()
    driver.fetch_by(2, 1, 1, hw=1)
    driver.tick()
    (answer,) = driver.of(SendResponse)
    assert isinstance(answer.response, m.FetchResponse)
    assert (answer.response.error, answer.response.batches) == (ErrorCode.NONE, ())


def test_a_fetch_of_another_epoch_is_refused() -> None:
    driver = leader_of_three()
    older, newer = driver.fetch_by(2, 0, -1, epoch=0), driver.fetch_by(2, 0, -1, epoch=9)
    assert older is not None
    assert newer is not None
    assert older.error is ErrorCode.FENCED_LEADER_EPOCH
    assert (older.leader_id, older.leader_epoch) == (1, 1)
    assert newer.error is ErrorCode.UNKNOWN_LEADER_EPOCH
    assert driver.quorum.epoch == 1


def test_a_follower_does_not_answer_fetches() -> None:
    driver = Driver(1, 2, 3)
    driver.follow(2, 4)
    response = driver.fetch_by(3, 0, -1)
    assert response is not None
    assert (response.error, response.leader_id) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, 2)


def test_a_log_that_parts_from_ours_is_told_where() -> None:
    driver = leader_of_three()
    for records in (b"a", b"b"):
        propose(driver, records)
    assert driver.fetch_by(2, 9, 1) == m.FetchResponse(
        ErrorCode.NONE,
        NodeId(1),
        LeaderEpoch(1),
        Offset(0),
        Offset(0),
        diverging=EpochEnd(LeaderEpoch(1), Offset(3)),
        number=1,
    )
    response = driver.fetch_by(2, 2, 0)
    assert response is not None
    assert response.diverging == EpochEnd(LeaderEpoch(-1), Offset(0))


def test_a_diverging_fetch_acknowledges_nothing() -> None:
    driver = leader_of_three()
    driver.fetch_by(2, 9, 1)
    assert driver.quorum.high_watermark == 0


def test_a_leader_without_followers_resigns() -> None:
    driver = leader_of_three()
    driver.now = 1_000.0 + driver.now
    driver.fetch_by(2, 1, 1, hw=1)
    timeout = driver.quorum.next_deadline()
    assert timeout is not None
    while driver.state() is State.LEADER:
        driver.tick()
    assert driver.state() is State.RESIGNED
    assert driver.store.state.leader_id == 1


def test_one_follower_of_two_keeps_the_leader() -> None:
    driver = leader_of_three()
    for _ in range(20):
        driver.now += 1_500.0
        driver.fetch_by(2, 1, 1)
        driver.tick()
    assert driver.state() is State.LEADER


def test_a_leader_that_hears_of_a_higher_epoch_lets_go_of_those_who_wait() -> None:
    driver = leader_of_three()
    driver.fetch_by(2, 1, 1, hw=1)
    driver.vote_for(3, 7, log=(5, 5))
    first = driver.of(SendResponse)[0].response
    assert first == m.FetchResponse(ErrorCode.NOT_LEADER_OR_FOLLOWER, None, LeaderEpoch(7))
    assert driver.state() is State.VOTED


def test_the_quorum_is_described_by_its_leader() -> None:
    driver = leader_of_three()
    driver.fetch_by(2, 1, 1)
    driver.fetch_by(9, 0, -1)
    response = driver.ask(m.DescribeQuorumRequest())
    assert isinstance(response, m.DescribeQuorumResponse)
    assert [(v.replica.node_id, v.log_end_offset) for v in response.voters] == [
        (1, 1),
        (2, 1),
        (3, -1),
    ]
    assert [observer.replica for observer in response.observers] == [key(9)]
    assert response.high_watermark == 1


def test_a_second_directory_of_a_node_that_is_heard_of_is_refused() -> None:
    """Two processes with one id: who came first keeps its place, and its parked fetch."""
    driver = Driver(1, 2, 3)
    driver.lead()
    driver.fetch_by(2, 0, -1)
    impostor = ReplicaKey(NodeId(2), UUID(int=99))
    asked = m.FetchRequest(
        impostor, driver.quorum.epoch, Offset(0), LeaderEpoch(-1), Offset(0), 500, 1 << 20, "ours"
    )
    refused = driver.ask(asked)
    assert isinstance(refused, m.FetchResponse)
    assert refused.error is ErrorCode.INVALID_VOTER_KEY
    driver.now += 2000
    assert driver.ask(asked) != refused, "the other has been silent long enough"
