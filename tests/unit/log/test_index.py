"""The sparse index files: contents, look-ups, what a crash leaves of them."""

from __future__ import annotations

import struct

import pytest
from tests.unit.log.logs import a_batch, append, fill, open_log, settings

from tidelog.log.index import OFFSET_ENTRY, PENDING_LIMIT, SparseIndex
from tidelog.sim.disk import SimDisk


def an_index(disk: SimDisk, entries: int) -> SparseIndex:
    """Entries (10, 100), (20, 200), …"""
    index = SparseIndex(disk, "index", OFFSET_ENTRY)
    for number in range(1, entries + 1):
        index.append(number * 10, number * 100)
    return index


@pytest.mark.parametrize("entries", [0, 1, 2, 255, 256, 257, 511, 512, 513, 2000])
@pytest.mark.parametrize("is_written", [False, True])
def test_the_last_entry_not_above_the_target_is_found(
    sim_disk: SimDisk, entries: int, is_written: bool
) -> None:
    index = an_index(sim_disk, entries)
    if is_written:
        index.write_pending()
    assert len(index) == entries
    for number in range(0, entries + 1, max(1, entries // 50)):
        expected = (number * 10, number * 100) if number else None
        assert index.floor(number * 10 + 9) == expected
        assert index.floor(number * 100 + 99, field=1) == expected
        assert index.count_up_to(number * 10, field=0) == number
    assert index.last() == ((entries * 10, entries * 100) if entries else None)


def test_entries_are_written_in_groups(sim_disk: SimDisk) -> None:
    index = an_index(sim_disk, PENDING_LIMIT - 1)
    assert not sim_disk.exists("index")
    index.append(10**6, 10**7)
    assert index.written == PENDING_LIMIT
    assert len(sim_disk.files()["index"].cached) == PENDING_LIMIT * 8


def test_a_full_disk_keeps_entries_in_memory(sim_disk: SimDisk) -> None:
    sim_disk.faults.capacity_bytes = 0
    index = an_index(sim_disk, PENDING_LIMIT + 3)
    assert index.written == 0
    assert index.floor(10 * PENDING_LIMIT) == (10 * PENDING_LIMIT, 100 * PENDING_LIMIT)
    sim_disk.faults.heal()
    index.write_pending()
    assert index.written == PENDING_LIMIT + 3


def test_the_file_of_a_segment_that_was_there_before_is_overwritten(sim_disk: SimDisk) -> None:
    an_index(sim_disk, 40).write_pending()
    index = an_index(sim_disk, 3)
    index.write_pending()
    assert len(sim_disk.files()["index"].cached) == 24


@pytest.mark.parametrize("kept", [0, 3, 5, 8])
def test_entries_can_be_forgotten(sim_disk: SimDisk, kept: int) -> None:
    index = an_index(sim_disk, 5)
    index.write_pending()
    for number in range(6, 9):
        index.append(number * 10, number * 100)
    index.keep(kept)
    assert len(index) == kept
    index.append(1000, 10_000)
    index.write_pending()
    again = SparseIndex(sim_disk, "index", OFFSET_ENTRY)
    assert again.load()
    assert (len(again), again.last()) == (kept + 1, (1000, 10_000))


def test_what_a_crash_left_is_told_from_what_it_spoilt(sim_disk: SimDisk) -> None:
    index = an_index(sim_disk, 20)
    index.write_pending()
    image = sim_disk.files()["index"]
    image.cached[8 * 8 : 10 * 8] = bytes(16)
    again = SparseIndex(sim_disk, "index", OFFSET_ENTRY)
    assert again.load()
    assert again.prefix(below=10**6, field=1, first_above=(-1, 0)) == 8
    assert again.prefix(below=500, field=1, first_above=(-1, 0)) == 4


def test_a_file_of_half_an_entry_is_odd(sim_disk: SimDisk) -> None:
    an_index(sim_disk, 2).write_pending()
    del sim_disk.files()["index"].cached[13:]
    assert not SparseIndex(sim_disk, "index", OFFSET_ENTRY).load()


def test_offset_entries_are_kafkas(sim_disk: SimDisk) -> None:
    """The *last* offset of a batch and the batch's position, every so many bytes."""
    log = open_log(sim_disk, config=settings(index_interval_bytes=400))
    fill(log, 12)
    log.close_cleanly()
    size = log.size_bytes() // 12
    data = bytes(sim_disk.files()[f"orders-0/{0:020d}.index"].cached)
    entries = list(struct.iter_unpack(">ii", data))
    step = 400 // size + 1
    assert entries == [(2 * n + 1, n * size) for n in range(step, 12, step)]


def test_time_entries_are_kafkas(sim_disk: SimDisk) -> None:
    """The largest timestamp so far and the last offset of the batch that brought it; a closed
    segment ends with its largest."""
    log = open_log(sim_disk, config=settings(index_interval_bytes=0))
    for time in (50, 40, 60, 60, 55, 70, 10, 90):
        append(log, a_batch(timestamps=[time, 1]))
    log.roll()
    data = bytes(sim_disk.files()[f"orders-0/{0:020d}.timeindex"].cached)
    assert list(struct.iter_unpack(">qi", data)) == [(50, 1), (60, 5), (70, 11), (90, 15)]


def test_a_segment_of_one_batch_has_a_time_entry_when_it_is_closed(sim_disk: SimDisk) -> None:
    log = open_log(sim_disk)
    append(log, a_batch(timestamps=[5, 9]))
    log.roll()
    data = bytes(sim_disk.files()[f"orders-0/{0:020d}.timeindex"].cached)
    assert list(struct.iter_unpack(">qi", data)) == [(9, 1)]


def test_a_file_that_the_disk_will_not_cut_is_cut_with_the_next_write(sim_disk: SimDisk) -> None:
    index = an_index(sim_disk, 10)
    index.write_pending()
    sim_disk.faults.write_error_rate = 1.0
    index.keep(2)
    assert len(index) == 2
    assert index.floor(1_000) == (20, 200)
    sim_disk.faults.heal()
    index.append(25, 250)
    index.write_pending()
    again = SparseIndex(sim_disk, "index", OFFSET_ENTRY)
    assert again.load()
    assert len(again) == 3
    assert again.last() == (25, 250)
