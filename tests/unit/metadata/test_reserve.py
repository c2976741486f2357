"""Room for the metadata on a full disk."""

from __future__ import annotations

from random import Random

import pytest

from tidelog.log.disk import DiskFull
from tidelog.metadata.reserve import FILE, Reserve, ReservedDisk
from tidelog.metadata.vote_file import VoteFile
from tidelog.model.ids import LeaderEpoch, NodeId
from tidelog.quorum.ports import ElectionState
from tidelog.sim.disk import SimDisk

SIZE = 100_000


@pytest.fixture
def disk() -> SimDisk:
    made = SimDisk(Random(1))
    made.make_directory("metadata")
    return made


def fill(disk: SimDisk) -> None:
    disk.faults.capacity_bytes = disk.used_bytes()


def election(epoch: int) -> ElectionState:
    return ElectionState(LeaderEpoch(epoch), None, NodeId(1))


def test_a_vote_finds_room_on_a_full_disk(disk: SimDisk) -> None:
    reserve = Reserve(disk, SIZE)
    reserve.make()
    fill(disk)
    votes = VoteFile(ReservedDisk(disk, reserve), "metadata")
    for epoch in range(1, 20):
        votes.save(election(epoch))
        assert votes.load() == election(epoch)
    assert not reserve.is_whole
    with pytest.raises(DiskFull):
        disk.open("else", create=True).write(0, [bytes(SIZE)])


def test_without_a_reserve_it_does_not(disk: SimDisk) -> None:
    votes = VoteFile(ReservedDisk(disk, Reserve(disk, 0)), "metadata")
    fill(disk)
    with pytest.raises(DiskFull):
        votes.save(election(1))


def test_the_reserve_is_made_again_when_there_is_all_of_its_room(disk: SimDisk) -> None:
    reserve = Reserve(disk, SIZE)
    reserve.make()
    fill(disk)
    assert reserve.give_up()
    assert not reserve.give_up()
    disk.open("else", create=True).write(0, [bytes(5_000)])
    reserve.make()
    assert not reserve.is_whole
    assert not disk.exists(FILE), "what was claimed is given back"
    disk.delete("else")
    reserve.make()
    assert reserve.is_whole


def test_a_reserve_cut_short_by_a_crash_is_not_whole(disk: SimDisk) -> None:
    disk.open(FILE, create=True).write(0, [bytes(SIZE - 1)])
    reserve = Reserve(disk, SIZE)
    assert not reserve.is_whole
    reserve.make()
    assert Reserve(disk, SIZE).is_whole


def test_a_node_that_keeps_no_reserve_any_more_deletes_the_one_it_had(disk: SimDisk) -> None:
    Reserve(disk, SIZE).make()
    assert disk.exists(FILE)
    assert Reserve(disk, 0).is_whole
    assert not disk.exists(FILE)
