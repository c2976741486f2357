"""A disk that is full when a test says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidelog.log.disk import DiskFull
from tidelog.testing.disk import FillableDisk, Room


@pytest.fixture
def room() -> Room:
    return Room()


@pytest.fixture
def disk(tmp_path: Path, room: Room) -> FillableDisk:
    return FillableDisk(tmp_path, room)


def test_a_file_does_not_grow_on_a_full_disk(disk: FillableDisk, room: Room) -> None:
    file = disk.open("a", create=True)
    file.write(0, [b"1234"])
    room.is_full = True
    with pytest.raises(DiskFull):
        file.write(4, [b"5"])
    with pytest.raises(DiskFull):
        file.write(2, [b"345"])
    assert file.size() == 4
    room.is_full = False
    file.write(4, [b"5"])
    assert file.read(0, 9) == b"12345"


def test_what_is_there_can_be_overwritten_cut_and_read(disk: FillableDisk, room: Room) -> None:
    file = disk.open("a", create=True)
    file.write(0, [b"1234"])
    room.is_full = True
    file.write(1, [b"xx"])
    file.truncate(3)
    assert disk.open("a", create=True).read(0, 9) == b"1xx"


def test_nothing_new_is_created_on_a_full_disk(disk: FillableDisk, room: Room) -> None:
    disk.make_directory("old")
    room.is_full = True
    disk.make_directory("old")
    with pytest.raises(DiskFull):
        disk.make_directory("new")
    with pytest.raises(DiskFull):
        disk.open("old/new", create=True)
    assert disk.list("old") == []


def test_closing_gives_back_every_descriptor(disk: FillableDisk) -> None:
    files = [disk.open(name, create=True) for name in "abc"]
    files[0].write(0, [b"1"])
    disk.delete("b")
    disk.close()
    assert disk.open_descriptors() == 0
