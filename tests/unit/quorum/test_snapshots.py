"""Logs that begin later."""

from __future__ import annotations

import pytest
from tests.support.quorum_driver import Driver, key

from tidelog.model.errors import ErrorCode
from tidelog.model.ids import LeaderEpoch, Offset
from tidelog.quorum import messages as m
from tidelog.quorum.ports import SnapshotId
from tidelog.quorum.snapshots import decode_snapshot, encode_snapshot
from tidelog.quorum.voters import VoterSet
from tidelog.wire.errors import DecodeError


def leader_with_snapshot() -> Driver:
    """Of one voter: five records, a snapshot of the first four."""
    driver = Driver(1)
    driver.tick()
    driver.flush()
    driver.quorum.propose(driver.now, [b"a", b"b", b"c"])
    driver.flush()
    driver.quorum.snapshot(Offset(4), b"abc")
    driver.quorum.propose(driver.now, [b"d"])
    driver.flush()
    return driver


def piece(driver: Driver, position: int, snapshot_id: SnapshotId) -> m.FetchSnapshotResponse:
    epoch = driver.quorum.epoch
    response = driver.ask(m.FetchSnapshotRequest(key(2), epoch, snapshot_id, position, 16, "ours"))
    assert isinstance(response, m.FetchSnapshotResponse)
    return response


def test_a_snapshot_holds_voters_and_state() -> None:
    voters = VoterSet.of_ids((1, 2, 3))
    assert decode_snapshot(encode_snapshot(voters, b"state")) == (voters, b"state")


@pytest.mark.parametrize("position", [0, 5, 20, -1])
def test_a_changed_bit_in_a_snapshot_is_noticed(position: int) -> None:
    data = bytearray(encode_snapshot(VoterSet.of_ids((1, 2)), b"state"))
    data[position] ^= 0x10
    with pytest.raises(DecodeError):
        decode_snapshot(bytes(data))


def test_half_a_snapshot_is_none() -> None:
    with pytest.raises(DecodeError):
        decode_snapshot(encode_snapshot(VoterSet.of_ids((1,)), b"state")[:5])


def test_only_what_is_committed_goes_into_a_snapshot() -> None:
    driver = Driver(1, 2, 3)
    driver.lead()
    with pytest.raises(AssertionError):
        driver.quorum.snapshot(Offset(1), b"")


def test_the_log_begins_at_its_snapshot() -> None:
    driver = leader_with_snapshot()
    assert (driver.log.start_offset, driver.log.end_offset) == (4, 5)
    assert driver.log.snapshot_id == (4, 1)
    assert driver.quorum.restored_state() == b"abc"


def test_a_replica_starts_from_its_snapshot() -> None:
    driver = leader_with_snapshot()
    driver.restart()
    assert driver.quorum.high_watermark == 4
    driver.tick()
    driver.flush()
    assert driver.quorum.high_watermark == 6


def test_voters_of_a_snapshot_outlive_their_record() -> None:
    driver = Driver(1)
    driver.tick()
    driver.flush()
    driver.ask(m.AddRaftVoterRequest(key(2), (), 5_000, cluster_id="ours"))
    driver.fetch_by(2, 1, 1)
    driver.flush()
    driver.fetch_by(2, 2, 1)
    driver.quorum.snapshot(Offset(2), b"")
    driver.restart()
    assert driver.voter_ids() == [1, 2]


def test_a_fetch_from_before_the_snapshot_is_sent_to_it() -> None:
    driver = leader_with_snapshot()
    for offset, epoch in ((0, -1), (2, 1), (4, 0), (5, 0)):
        response = driver.fetch_by(2, offset, epoch)
        assert response is not None
        assert response.snapshot_id == (4, 1), (offset, epoch)
    assert driver.fetch_by(2, 4, 1) is not None, "it goes on after the snapshot"


def test_pieces_of_a_snapshot_make_it_whole() -> None:
    driver = leader_with_snapshot()
    wanted = SnapshotId(Offset(4), LeaderEpoch(1))
    response = piece(driver, 0, wanted)
    data = response.data
    while len(data) < response.size:
        response = piece(driver, len(data), wanted)
        data += response.data
    assert decode_snapshot(data)[1] == b"abc"


def test_no_piece_of_what_is_not_there() -> None:
    driver = leader_with_snapshot()
    other, wanted = SnapshotId(Offset(3), LeaderEpoch(1)), SnapshotId(Offset(4), LeaderEpoch(1))
    assert piece(driver, 0, other).error is ErrorCode.SNAPSHOT_NOT_FOUND
    assert piece(driver, 9_999, wanted).error is ErrorCode.POSITION_OUT_OF_RANGE
    assert piece(driver, -1, wanted).error is ErrorCode.POSITION_OUT_OF_RANGE


def test_a_parked_fetch_that_the_snapshot_overtook_is_answered_with_nothing() -> None:
    driver = Driver(1)
    driver.tick()
    driver.flush()
    driver.fetch_by(2, 1, 1, hw=9)
    driver.quorum.propose(driver.now, [b"a"])
    driver.flush()
    driver.quorum.snapshot(Offset(2), b"a")
    response = driver.fetch_by(2, 1, 1)
    assert response is not None
    assert response.snapshot_id == (2, 1)
