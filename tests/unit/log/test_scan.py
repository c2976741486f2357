"""Walking files of batches, and what is remembered of their damage."""

from __future__ import annotations

from random import Random

import pytest
from tests.support.stamping import stamp
from tests.unit.log.logs import a_batch

from tidelog.log import scan
from tidelog.log.damage import Damage, Holes, Ranges
from tidelog.log.disk import File
from tidelog.model.ids import LeaderEpoch, Offset
from tidelog.sim.disk import SimDisk


def a_file(disk: SimDisk, sizes: list[int]) -> tuple[File, list[int]]:
    """Batches of one record with values of these sizes; and their positions, with the end."""
    positions, data = [0], bytearray()
    for offset, size in enumerate(sizes):
        batch = a_batch(value=Random(size).randbytes(size))
        stamp(batch, Offset(offset), LeaderEpoch(0))
        data += batch
        positions.append(len(data))
    file = disk.open("file", create=True)
    file.write(0, [data])
    return file, positions


@pytest.mark.parametrize("walk", [scan.walk, scan.walk_checked])
def test_every_batch_is_met_whatever_its_size(sim_disk: SimDisk, walk: object) -> None:
    sizes = [10, 5000, 70_000, 1, 1, 3_000_000, 0, *range(3900, 4100, 7), 66_000, 8100, 8200]
    file, positions = a_file(sim_disk, sizes)
    met = list(walk(file, 0, positions[-1]))  # type: ignore[operator]
    assert [at for at, _ in met] == positions[:-1]
    assert [header.base_offset for _, header in met] == list(range(len(sizes)))


@pytest.mark.parametrize("walk", [scan.walk, scan.walk_checked])
def test_a_walk_ends_where_nothing_is_readable(sim_disk: SimDisk, walk: object) -> None:
    file, positions = a_file(sim_disk, [100, 100, 100])
    for cut in range(positions[2] + 1, positions[3]):
        met = list(walk(file, 0, cut))  # type: ignore[operator]
        assert [at for at, _ in met] == positions[:3]
        assert met[-1] == (positions[2], None)


def test_only_a_checked_walk_minds_the_payload(sim_disk: SimDisk) -> None:
    file, positions = a_file(sim_disk, [100, 100, 100])
    file.write(positions[1] + 90, [b"\xff\xfe\xff"])
    assert len(list(scan.walk(file, 0, positions[-1]))) == 3
    assert list(scan.walk_checked(file, 0, positions[-1]))[-1] == (positions[1], None)


def test_a_batch_is_found_behind_damage_wherever_it_begins(sim_disk: SimDisk) -> None:
    for garbage in (1, 15, 16, 17, 60, 61, 5000, 2**20 - 30, 2**20, 2**20 + 30):
        batch = a_batch(value=b"found")
        stamp(batch, Offset(77), LeaderEpoch(0))
        file = sim_disk.open(f"{garbage}", create=True)
        file.write(0, [Random(garbage).randbytes(garbage), batch])
        end = garbage + len(batch)
        found = scan.find_batch(file, 0, end, low=50, high=100)
        assert found is not None
        assert (found[0], found[1].base_offset) == (garbage, 77)
        assert scan.find_batch(file, 0, end, low=78, high=100) is None
        assert scan.find_batch(file, 0, end, low=0, high=77) is None
        assert scan.find_batch(file, 0, end - 1, low=50, high=100) is None


@pytest.mark.parametrize("max_bytes", [1, 100, 3000])
def test_a_search_in_parts_finds_what_a_search_at_once_does(
    sim_disk: SimDisk, max_bytes: int
) -> None:
    file, positions = a_file(sim_disk, [50] * 40)
    file.write(1, [bytes(positions[20])])
    end, position, parts = positions[-1], 1, 0
    header = None
    while header is None and position < end:
        position, header = scan.seek_batch(file, position, end, low=1, high=40, max_bytes=max_bytes)
        parts += 1
    assert header is not None
    assert (position, header) == scan.find_batch(file, 1, end, low=1, high=40)
    assert parts >= positions[20] // max(max_bytes, 61)


def test_zeros_hold_no_batch(sim_disk: SimDisk) -> None:
    file = sim_disk.open("file", create=True)
    file.write(0, [bytes(100_000)])
    assert scan.find_batch(file, 0, 100_000, low=0, high=2**31) is None


def test_ranges_merge_where_they_touch() -> None:
    ranges = Ranges()
    ranges.add(10, 20)
    ranges.add(30, 40)
    assert ranges.covers(12, 18)
    assert not ranges.covers(12, 32)
    ranges.add(20, 30)
    assert ranges.covers(10, 40)
    assert not ranges.covers(10, 41)
    ranges.cut(35)
    assert ranges.covers(10, 35)
    assert not ranges.covers(10, 36)
    assert ranges.covers(50, 50)


def test_ranges_are_bounded_and_keep_the_newest() -> None:
    ranges = Ranges()
    for number in range(2000):
        ranges.add(number * 10, number * 10 + 5)
    assert ranges.covers(19_990, 19_995)
    assert not ranges.covers(0, 5)


def test_a_hole_takes_the_place_of_those_it_reaches_into() -> None:
    holes = Holes()
    for start, end in ((10, 20), (40, 50), (15, 45)):
        holes.add(Damage("quarantined", "file", start, end, start, end, "test"))
    found = holes.first_from(0)
    assert found is not None
    assert (found.position, found.end_position) == (15, 45)
    assert holes.with_offset(12) is None
    assert holes.first_from(45) is None


def test_a_batch_whose_offset_the_next_one_contradicts_is_not_believed() -> None:
    """The offset lies outside the checksum."""
    file, positions = a_file(SimDisk(Random(0)), [50, 50, 50, 50])
    file.write(positions[1], [(9).to_bytes(8, "big")])
    found = scan.find_batch(file, 1, positions[-1], low=1, high=20)
    assert found is not None
    assert found[0] == positions[2]
