"""The vote survives every power failure, or was never given."""

from __future__ import annotations

from random import Random

import pytest
from tests.support.quorum_driver import key

from tidelog.log.disk import SyncFailed
from tidelog.metadata.vote_file import FILE, VoteDamaged, VoteFile
from tidelog.model.ids import LeaderEpoch, NodeId
from tidelog.quorum.ports import ElectionState
from tidelog.sim.disk import SimDisk
from tidelog.sim.disk_faults import PowerLost

STATES = [
    ElectionState(LeaderEpoch(1), voted=key(2)),
    ElectionState(LeaderEpoch(1), voted=key(2), leader_id=NodeId(2)),
    ElectionState(LeaderEpoch(7), leader_id=NodeId(3)),
    ElectionState(LeaderEpoch(8)),
]


def new_disk(seed: int) -> SimDisk:
    disk = SimDisk(Random(seed))
    disk.make_directory("metadata")
    disk.directory("").sync()
    return disk


def test_a_new_replica_has_promised_nothing() -> None:
    assert VoteFile(new_disk(0), "metadata").load() == ElectionState()


@pytest.mark.parametrize("state", STATES, ids=str)
def test_what_is_saved_is_loaded_again(state: ElectionState) -> None:
    disk = new_disk(0)
    VoteFile(disk, "metadata").save(state)
    assert VoteFile(disk, "metadata").load() == state


@pytest.mark.parametrize("seed", range(50))
def test_a_saved_vote_survives_a_power_failure(seed: int) -> None:
    disk = new_disk(seed)
    for state in STATES:
        VoteFile(disk, "metadata").save(state)
        disk.lose_power()
        assert VoteFile(disk, "metadata").load() == state


@pytest.mark.parametrize("seed", range(50))
def test_a_file_half_written_at_a_power_failure_leaves_the_old_state(
    seed: int,
) -> None:
    disk = new_disk(seed)
    VoteFile(disk, "metadata").save(STATES[0])
    file = disk.open(f"metadata/{FILE}.new", create=True)
    file.write(0, [b"half a st"])
    disk.lose_power()
    assert VoteFile(disk, "metadata").load() == STATES[0]
    VoteFile(disk, "metadata").save(STATES[2])
    assert VoteFile(disk, "metadata").load() == STATES[2]


@pytest.mark.parametrize("changes", range(12))
def test_a_power_failure_within_a_save_leaves_the_old_state_or_the_new(changes: int) -> None:
    for seed in range(10):
        disk = new_disk(seed)
        VoteFile(disk, "metadata").save(STATES[0])
        disk.faults.changes_left = changes
        try:
            VoteFile(disk, "metadata").save(STATES[2])
        except PowerLost:
            expected = (STATES[0], STATES[2])
        else:
            expected = (STATES[2], STATES[2])
        disk.faults.heal()
        disk.lose_power()
        assert VoteFile(disk, "metadata").load() in expected


@pytest.mark.parametrize("data", [b"", b"{}", b"[]", b"\xff", b'{"data_version": 9}', b"null"])
def test_a_file_that_makes_no_sense_is_no_vote(data: bytes) -> None:
    disk = new_disk(0)
    disk.open(f"metadata/{FILE}", create=True).write(0, [data])
    with pytest.raises(VoteDamaged):
        VoteFile(disk, "metadata").load()


def test_a_vote_whose_sync_failed_is_written_again_before_it_counts() -> None:
    kept = {False: set[LeaderEpoch](), True: set[LeaderEpoch]()}
    for seed in range(40):
        for is_renewed in kept:
            disk = new_disk(seed)
            votes = VoteFile(disk, "metadata")
            votes.save(STATES[0])
            disk.faults.sync_error_rate = 0.5
            try:
                votes.save(STATES[2])
                continue  # nothing failed
            except SyncFailed:
                disk.lose_process()
            disk.faults.sync_error_rate = 0.0
            believed = VoteFile(disk, "metadata").load().epoch
            if is_renewed:
                VoteFile(disk, "metadata").renew()
            disk.lose_power()
            kept[is_renewed].add(LeaderEpoch(believed - VoteFile(disk, "metadata").load().epoch))
    assert kept == {False: {0, 6}, True: {0}}


def test_without_room_a_vote_is_not_renewed_and_stays() -> None:
    disk = new_disk(0)
    VoteFile(disk, "metadata").save(STATES[0])
    disk.faults.capacity_bytes = disk.used_bytes()
    VoteFile(disk, "metadata").renew()
    assert VoteFile(disk, "metadata").load() == STATES[0]
