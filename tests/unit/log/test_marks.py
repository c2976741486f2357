"""The flushed mark survives its own writing."""

from __future__ import annotations

from random import Random

import pytest

from tidelog.log.disk import DiskFull
from tidelog.log.marks import Mark, MarkFile, Note
from tidelog.model.ids import Offset
from tidelog.sim.disk import SimDisk


def mark_at(sequence: int) -> Mark:
    return Mark(sequence, sequence * 10, 0, sequence * 100, 0, 123, 7, 5, is_clean=True)


def a_file(disk: SimDisk) -> MarkFile:
    disk.make_directory("log")
    return MarkFile(disk, "log")


def test_the_newest_mark_is_read(sim_disk: SimDisk) -> None:
    file = a_file(sim_disk)
    assert file.load() is None
    for sequence in range(5):
        file.write(mark_at(sequence))
        file.settle()
        assert MarkFile(sim_disk, "log").load() == mark_at(sequence)


def test_a_power_failure_while_a_mark_is_written_leaves_it_or_the_one_before() -> None:
    for seed in range(50):
        disk = SimDisk(Random(seed))
        file = a_file(disk)
        for sequence in range(seed % 4 + 1):
            file.settle()
            file.write(mark_at(sequence))
        disk.directory("log").sync()
        disk.directory("").sync()
        disk.lose_power()
        again = MarkFile(disk, "log")
        assert again.load() in (
            [None, mark_at(0)] if not sequence else [mark_at(sequence - 1), mark_at(sequence)]
        )
        assert not again.is_damaged


def test_both_slots_are_never_at_risk_at_once(sim_disk: SimDisk) -> None:
    file = a_file(sim_disk)
    file.write(mark_at(0))
    with pytest.raises(AssertionError, match="at risk"):
        file.write(mark_at(1))


def test_a_disk_that_became_full_has_room_for_marks_and_note(sim_disk: SimDisk) -> None:
    file = a_file(sim_disk)
    file.create()
    sim_disk.faults.capacity_bytes = sim_disk.used_bytes()
    for sequence in range(2):
        file.write(mark_at(sequence))
        file.settle()
    file.write_note(Note(1, Offset(17)))
    again = MarkFile(sim_disk, "log")
    assert again.load() == mark_at(1)
    assert again.note == Note(1, Offset(17))


def test_a_file_without_room_for_all_is_made_again_when_there_is(sim_disk: SimDisk) -> None:
    file = a_file(sim_disk)
    sim_disk.faults.capacity_bytes = sim_disk.used_bytes() + 1_000
    with pytest.raises(DiskFull):
        file.create()
    again = MarkFile(sim_disk, "log")
    assert again.load() is None
    assert not again.is_damaged
    sim_disk.faults.heal()
    again.create()
    sim_disk.faults.capacity_bytes = sim_disk.used_bytes()
    again.settle()
    again.write(mark_at(1))
    assert MarkFile(sim_disk, "log").load() == mark_at(1)


def test_a_short_file_of_an_earlier_release_leaves_the_mark_before_on_a_full_disk(
    sim_disk: SimDisk,
) -> None:
    file = a_file(sim_disk)
    file.write(mark_at(0))
    file.settle()
    cut = sim_disk.open("log/flushed")
    cut.truncate(100)
    sim_disk.faults.capacity_bytes = sim_disk.used_bytes()
    with pytest.raises(DiskFull):
        file.write(mark_at(1))
    assert MarkFile(sim_disk, "log").load() == mark_at(0)
    file.write(mark_at(2))
    assert MarkFile(sim_disk, "log").load() == mark_at(2)
    file.settle()
    sim_disk.faults.heal()
    file.write(mark_at(3))
    assert MarkFile(sim_disk, "log").load() == mark_at(3)


def test_a_flipped_bit_is_noticed_and_the_other_slot_serves(sim_disk: SimDisk) -> None:
    file = a_file(sim_disk)
    for sequence in range(2):
        file.write(mark_at(sequence))
        file.settle()
    image = sim_disk.files()["log/flushed"]
    end = len(bytes(image.cached).rstrip(b"\0"))
    assert end > 4096 + 60
    for position in range(4096, end):
        image.cached[position] ^= 4
        assert MarkFile(sim_disk, "log").load() == mark_at(0)
        image.cached[position] ^= 4


def test_a_mark_with_both_slots_spoilt_is_known_to_be_damaged(sim_disk: SimDisk) -> None:
    file = a_file(sim_disk)
    for sequence in range(2):
        file.write(mark_at(sequence))
        file.settle()
    image = sim_disk.files()["log/flushed"]
    image.cached[8] ^= 1
    image.cached[4096 + 8] ^= 1
    again = MarkFile(sim_disk, "log")
    assert again.load() is None
    assert again.is_damaged
