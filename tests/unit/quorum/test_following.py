"""How a follower's log comes to be the leader's."""

from __future__ import annotations

import pytest
from tests.support.quorum_driver import Driver

from tidelog.model.errors import ErrorCode
from tidelog.model.ids import LeaderEpoch, NodeId, Offset
from tidelog.quorum import messages as m
from tidelog.quorum.batches import Batch, VotersChange
from tidelog.quorum.events import ApplyCommitted, FlushLog, LoadSnapshot, RequestFailed
from tidelog.quorum.ports import ElectionState, EpochEnd, SnapshotId
from tidelog.quorum.snapshots import encode_snapshot
from tidelog.quorum.states import State
from tidelog.quorum.voters import VoterSet

EPOCH = LeaderEpoch(4)


def follower(*epochs: int) -> Driver:
    """Of leader 2 in epoch 4, with one record of each epoch given."""
    driver = Driver(1, 2, 3)
    for epoch in epochs:
        driver.log.append(Batch(driver.log.end_offset, LeaderEpoch(epoch), (b"old",)))
    driver.log.flushed(driver.log.end_offset)
    driver.store.save(ElectionState(LeaderEpoch(3)))
    driver.start()
    driver.follow(2, 4)
    return driver


def fetched(**fields: object) -> m.FetchResponse:
    told = {"high_watermark": Offset(0), **fields}
    return m.FetchResponse(ErrorCode.NONE, NodeId(2), EPOCH, **told)  # type: ignore[arg-type]


def fetch_under_way(driver: Driver) -> tuple[int, m.FetchRequest]:
    ((number, _, request),) = driver.sent(m.FetchRequest)
    return number, request


def record(offset: int, epoch: int = 4) -> Batch:
    return Batch(Offset(offset), LeaderEpoch(epoch), (b"new",))


def test_a_fetch_names_the_end_of_the_log_and_its_epoch() -> None:
    driver = follower(1, 1, 3)
    _, request = fetch_under_way(driver)
    assert (request.fetch_offset, request.last_fetched_epoch, request.epoch) == (3, 3, 4)


def test_the_next_fetch_waits_until_the_last_is_flushed() -> None:
    driver = follower()
    number, _ = fetch_under_way(driver)
    driver.respond(number, fetched(batches=(record(0),)))
    assert driver.of(FlushLog)
    assert not driver.sent(m.FetchRequest)
    driver.flush()
    _, request = fetch_under_way(driver)
    assert request.fetch_offset == 1


def test_committed_records_are_applied_once_they_are_durable_here() -> None:
    driver = follower()
    number, _ = fetch_under_way(driver)
    driver.respond(number, fetched(batches=(record(0),), high_watermark=Offset(1)))
    assert not driver.of(ApplyCommitted)
    driver.flush()
    assert driver.of(ApplyCommitted) == [ApplyCommitted(Offset(1))]
    assert driver.quorum.read_committed(Offset(0)) == (record(0),)


def test_a_log_is_cut_to_where_the_leaders_epoch_ends() -> None:
    driver = follower(1, 3, 3, 3)
    number, _ = fetch_under_way(driver)
    driver.respond(number, fetched(diverging=EpochEnd(LeaderEpoch(3), Offset(2))))
    assert driver.log.end_offset == 2
    assert fetch_under_way(driver)[1].fetch_offset == 2


def test_a_log_is_cut_to_where_its_own_epoch_ends_if_that_is_earlier() -> None:
    driver = follower(1, 3, 3)
    number, _ = fetch_under_way(driver)
    driver.respond(number, fetched(diverging=EpochEnd(LeaderEpoch(2), Offset(3))))
    assert driver.log.end_offset == 1


def test_committed_records_are_never_cut() -> None:
    driver = follower()
    number, _ = fetch_under_way(driver)
    driver.respond(number, fetched(batches=(record(0),), high_watermark=Offset(1)))
    driver.flush()
    number, _ = fetch_under_way(driver)
    with pytest.raises(AssertionError, match="below what is committed"):
        driver.respond(number, fetched(diverging=EpochEnd(LeaderEpoch(0), Offset(0))))


def test_a_change_of_voters_is_cut_off_with_its_record() -> None:
    driver = follower()
    number, _ = fetch_under_way(driver)
    change = Batch(Offset(0), LeaderEpoch(3), control=VotersChange(VoterSet.of_ids((2, 3))))
    driver.respond(number, fetched(batches=(change,)))
    assert driver.state() is State.OBSERVER
    driver.flush()
    number, _ = fetch_under_way(driver)
    driver.respond(number, fetched(diverging=EpochEnd(LeaderEpoch(-1), Offset(0))))
    assert driver.state() is State.FOLLOWER
    assert driver.voter_ids() == [1, 2, 3]


def test_a_lost_fetch_is_sent_again_soon() -> None:
    driver = follower()
    number, request = fetch_under_way(driver)
    driver.step(RequestFailed(number))
    assert not driver.sent(m.FetchRequest)
    driver.tick()
    assert fetch_under_way(driver)[1] == request


def test_a_leader_that_does_not_answer_is_given_up() -> None:
    driver = follower()
    driver.tick_role()
    assert driver.state() is State.PROSPECTIVE


def test_a_leader_that_says_it_leads_no_longer_is_not_waited_for() -> None:
    driver = follower()
    number, _ = fetch_under_way(driver)
    refused = m.FetchResponse(ErrorCode.NOT_LEADER_OR_FOLLOWER, None, EPOCH)
    driver.respond(number, refused)
    assert driver.state() is State.UNATTACHED
    assert driver.quorum.describe()["timer_ms"] <= driver.now + 1_000


def test_an_observer_asks_around_until_it_knows_the_leader() -> None:
    driver = Driver(2, 3)
    driver.tick()
    ((number, destination, request),) = driver.sent(m.FetchRequest)
    assert destination in (2, 3)
    fenced = m.FetchResponse(ErrorCode.FENCED_LEADER_EPOCH, NodeId(3), EPOCH)
    driver.respond(number, fenced)
    assert (driver.quorum.state, driver.quorum.leader_id) == (State.OBSERVER, 3)
    ((_, destination, request),) = driver.sent(m.FetchRequest)
    assert (destination, request.epoch) == (3, 4)


def test_an_observer_that_became_a_voter_follows() -> None:
    driver = Driver(2, 3)
    driver.tick()
    ((number, _, _),) = driver.sent(m.FetchRequest)
    driver.respond(number, m.FetchResponse(ErrorCode.FENCED_LEADER_EPOCH, NodeId(2), EPOCH))
    number, _ = fetch_under_way(driver)
    change = Batch(Offset(0), EPOCH, control=VotersChange(VoterSet.of_ids((1, 2, 3))))
    driver.respond(number, fetched(batches=(change,)))
    assert driver.state() is State.FOLLOWER
    assert driver.voter_ids() == [1, 2, 3]


def snapshot_answer(data: bytes, position: int, size: int) -> m.FetchSnapshotResponse:
    snapshot_id = SnapshotId(Offset(7), LeaderEpoch(3))
    return m.FetchSnapshotResponse(
        ErrorCode.NONE, NodeId(2), EPOCH, snapshot_id, len(data), position, data[position:][:size]
    )


def test_a_snapshot_comes_in_pieces_and_replaces_the_log() -> None:
    driver = follower(1, 1)
    number, _ = fetch_under_way(driver)
    driver.respond(number, fetched(snapshot_id=SnapshotId(Offset(7), LeaderEpoch(3))))
    data = encode_snapshot(VoterSet.of_ids((1, 2)), b"the state")
    positions = []
    while pieces := driver.sent(m.FetchSnapshotRequest):
        number, _, request = pieces[0]
        positions.append(request.position)
        driver.respond(number, snapshot_answer(data, request.position, 30))
    assert positions == list(range(0, len(data), 30))
    (loaded,) = driver.of(LoadSnapshot)
    assert (loaded.state, loaded.snapshot_id.end_offset) == (b"the state", 7)
    assert (driver.log.start_offset, driver.log.end_offset) == (7, 7)
    assert driver.voter_ids() == [1, 2]
    _, fetch = fetch_under_way(driver)
    assert (fetch.fetch_offset, fetch.last_fetched_epoch) == (7, 3)


def test_a_damaged_snapshot_is_not_installed() -> None:
    driver = follower()
    number, _ = fetch_under_way(driver)
    driver.respond(number, fetched(snapshot_id=SnapshotId(Offset(7), LeaderEpoch(3))))
    data = bytearray(encode_snapshot(VoterSet.of_ids((1, 2)), b"the state"))
    data[-1] ^= 1
    ((number, _, _),) = driver.sent(m.FetchSnapshotRequest)
    driver.respond(number, snapshot_answer(bytes(data), 0, len(data)))
    assert not driver.of(LoadSnapshot)
    assert driver.log.end_offset == 0
    driver.tick()
    assert fetch_under_way(driver)[1].fetch_offset == 0


def test_a_snapshot_that_is_gone_is_asked_for_anew() -> None:
    driver = follower()
    number, _ = fetch_under_way(driver)
    gone = SnapshotId(Offset(7), LeaderEpoch(3))
    driver.respond(number, fetched(snapshot_id=gone))
    ((number, _, _),) = driver.sent(m.FetchSnapshotRequest)
    refused = m.FetchSnapshotResponse(ErrorCode.SNAPSHOT_NOT_FOUND, NodeId(2), EPOCH, gone)
    driver.respond(number, refused)
    driver.tick()
    assert fetch_under_way(driver)[1].fetch_offset == 0
