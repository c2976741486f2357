"""A log made shorter on purpose."""

from __future__ import annotations

from random import Random

import pytest
from tests.unit.log.cleaning import BUFFER_BYTES, NOW_MS, close_segment, compacted, keyed, settle
from tests.unit.log.logs import (
    a_batch,
    append,
    everything,
    fill,
    flush,
    open_log,
    settings,
    without_room_for_marks,
)

from tidelog.log.cleaner import Cleaning
from tidelog.log.disk import DiskFull
from tidelog.log.marks import Mark
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import LeaderEpoch, Offset
from tidelog.sim.disk import SimDisk
from tidelog.sim.disk_faults import PowerLost


@pytest.mark.parametrize("offset", [0, 1, 2, 31, 40, 77, 99, 100, 150])
def test_a_truncated_log_ends_with_the_last_batch_before_the_offset(
    sim_disk: SimDisk, offset: int
) -> None:
    log = open_log(sim_disk, config=settings(segment_bytes=2000))
    fill(log, 50)
    flush(log)
    log.truncate_to(Offset(offset))
    end = min(offset // 2 * 2, 100)
    assert (log.log_end_offset, log.flushed_offset) == (end, end)
    assert [number for number, _ in everything(log)] == list(range(end))
    log.validate()
    assert append(log, a_batch(3)).base_offset == end
    latest = log.max_timestamp()
    assert latest is not None
    assert latest.timestamp == max(1002, 1000 + end - 1)


def test_indexes_after_a_truncation_are_as_if_the_rest_had_never_been(sim_disk: SimDisk) -> None:
    config = settings(segment_bytes=4000)
    log = open_log(sim_disk, config=config)
    fill(log, 100)
    log.truncate_to(Offset(70))
    fill(log, 40)
    log.close_cleanly()
    other = SimDisk(Random(1))
    never = open_log(other, config=config)
    fill(never, 75)
    never.close_cleanly()
    files, expected = sim_disk.files(), other.files()
    names = [path for path in expected if path.endswith(("index", ".log", "checkpoint"))]
    assert {path: bytes(files[path].cached) for path in names} == {
        path: bytes(expected[path].cached) for path in names
    }


def test_producers_and_epochs_are_truncated_too(sim_disk: SimDisk) -> None:
    log = open_log(sim_disk, config=settings(segment_bytes=1024))
    for sequence in range(50):
        append(log, a_batch(producer=(1, 0, sequence)), epoch=sequence // 20)
    log.truncate_to(Offset(30))
    assert log.epochs.entries() == [(0, 0), (1, 20)]
    assert append(log, a_batch(producer=(1, 0, 29)), epoch=1).is_duplicate
    early = append(log, a_batch(producer=(1, 0, 31)), epoch=1)
    assert early.error is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert append(log, a_batch(producer=(1, 0, 30)), epoch=4).base_offset == 30
    assert log.epoch_end_offset(LeaderEpoch(3)) == (1, 30)


def test_a_flush_that_began_before_a_truncation_says_nothing_of_what_came_after(
    sim_disk: SimDisk,
) -> None:
    log = open_log(sim_disk)
    fill(log, 10)
    ticket = log.flush_targets()
    assert ticket is not None
    log.truncate_to(Offset(6))
    fill(log, 7)
    log.flushed(ticket)
    assert log.flushed_offset <= 6


def test_a_power_failure_within_a_truncation_leaves_a_log_of_either_length() -> None:
    for changes in range(30):
        for seed in range(4):
            disk = SimDisk(Random(seed))
            config = settings(segment_bytes=2000)
            log = open_log(disk, config=config)
            fill(log, 40)
            flush(log)
            log.checkpoint()
            fill(log, 1)
            flush(log)
            disk.faults.changes_left = changes
            try:
                log.truncate_to(Offset(30))
                disk.faults.changes_left = None
                fill(log, 4)
            except PowerLost:
                pass
            disk.lose_power()
            log = open_log(disk, config=config)
            assert not [damage for damage in log.damage if damage.kind != "cut"]
            assert 30 <= log.log_end_offset <= 82
            assert [offset for offset, _ in everything(log)] == list(range(log.log_end_offset))


def test_a_truncation_tried_again_after_a_full_disk_leaves_no_mark_above_the_log(
    sim_disk: SimDisk,
) -> None:
    log = open_log(sim_disk)
    fill(log, 10)
    flush(log)
    without_room_for_marks(sim_disk)
    sim_disk.faults.capacity_bytes = sim_disk.used_bytes()
    for _ in range(2):
        with pytest.raises(DiskFull):
            log.truncate_to(Offset(6))
        assert log.log_end_offset == 20
    sim_disk.faults.heal()
    log.truncate_to(Offset(6))
    sim_disk.lose_process()
    log = open_log(sim_disk)
    assert (log.log_end_offset, log.damage) == (6, [])


@pytest.mark.interpreted
def test_a_new_beginning_that_found_no_room_leaves_a_log_that_can_go_on(sim_disk: SimDisk) -> None:
    log = open_log(sim_disk)
    fill(log, 10)
    flush(log)
    mark_file = log.directory.mark_file
    write = mark_file.write
    written: list[Mark] = []

    def write_until_full(mark: Mark) -> None:
        written.append(mark)
        if len(written) > 2:
            raise DiskFull("no space left on device")
        write(mark)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(mark_file, "write", write_until_full)
        with pytest.raises(DiskFull):
            log.start_at(Offset(100))
    assert written[-1].flushed_offset == 100
    assert log.flushed_offset == log.log_end_offset == 0
    log.start_at(Offset(100))
    fill(log, 2)
    flush(log)
    log.validate()
    sim_disk.lose_process()
    log = open_log(sim_disk)
    assert (log.log_start_offset, log.log_end_offset, log.damage) == (100, 104, [])


@pytest.mark.parametrize("is_durable", [True, False])
def test_a_cut_through_the_batch_that_holds_the_start_leaves_nothing_before_it(
    sim_disk: SimDisk, is_durable: bool
) -> None:
    log = open_log(sim_disk)
    append(log, a_batch(5))
    append(log, a_batch(5))
    log.advance_start(Offset(7))
    if is_durable:
        flush(log)
    log.truncate_to(Offset(8))
    log.validate()
    assert (log.log_start_offset, log.log_end_offset, log.flushed_offset) == (7, 7, 7)
    sim_disk.lose_power()
    again = open_log(sim_disk)
    assert (again.log_start_offset, again.log_end_offset) == (7, 7)


@pytest.mark.parametrize("is_durable", [True, False])
def test_a_cut_below_a_start_that_a_former_leader_told_begins_anew_there(
    sim_disk: SimDisk, is_durable: bool
) -> None:
    log = open_log(sim_disk)
    append(log, a_batch(5))
    append(log, a_batch(5))
    log.advance_start(Offset(7))
    if is_durable:
        flush(log)
    log.truncate_to(Offset(5))
    log.validate()
    assert (log.log_start_offset, log.log_end_offset, log.flushed_offset) == (5, 5, 5)
    assert append(log, a_batch(2)).base_offset == 5


@pytest.mark.parametrize("offset", [0, 1, 20])
def test_a_cut_where_segments_are_missing_begins_anew_at_the_start(
    sim_disk: SimDisk, offset: int
) -> None:
    config = settings(segment_bytes=2000)
    log = open_log(sim_disk, config=config)
    fill(log, 50)
    flush(log)
    log.checkpoint()
    flush(log)
    paths = sorted(path for path in sim_disk.files() if path.endswith(".log"))
    for path in paths[:2]:
        sim_disk.delete(path)
    log = open_log(sim_disk, config=config)
    assert log.first_damaged_offset() == 0
    log.truncate_to(Offset(offset))
    log.validate()
    assert (log.log_start_offset, log.log_end_offset) == (0, 0)
    assert log.first_damaged_offset() is None
    assert append(log, a_batch(3)).base_offset == 0
    flush(log)
    sim_disk.lose_power()
    assert [number for number, _ in everything(open_log(sim_disk, config=config))] == [0, 1, 2]


def test_bytes_between_two_segments_that_nobody_wrote_are_no_loss(sim_disk: SimDisk) -> None:
    """A follower cuts where offsets were lost and fetches them again: here it would cut for ever,
    since a cut at the next segment's beginning leaves the bytes before it where they are."""
    config = settings(segment_bytes=1024)
    log = open_log(sim_disk, config=config)
    fill(log, 20)
    flush(log)
    log.close_cleanly()
    first = min(path for path in sim_disk.files() if path.endswith(".log"))
    noise = sim_disk.open(first)
    noise.write(noise.size(), (b"noise" * 100,))
    log = open_log(sim_disk, config=config)
    assert len(everything(log)) == 40
    assert log.damage, "the noise was not met"
    assert log.first_damaged_offset() is None


@pytest.mark.parametrize("offset", [30, 40])
def test_a_log_begins_anew_while_segments_below_its_start_are_compacted(
    sim_disk: SimDisk, offset: int
) -> None:
    """To end the pass is to let go of those segments, among them the one it was to be cut in."""
    log = open_log(sim_disk, config=compacted())
    for number in range(30):
        append(log, keyed([(b"key", b"value %d" % number * 5)]))
    close_segment(log)
    append(log, keyed([(b"key", b"new")]))
    cleaning = Cleaning(log, limit_offset=log.log_end_offset, buffer_bytes=BUFFER_BYTES)
    while not cleaning.is_swapping:
        assert not cleaning.step(NOW_MS, 1 << 20)
        flush(log)
    log.advance_start(Offset(30))
    for _ in range(3):
        flush(log)
    assert (log.log_start_offset, log._bases[0]) == (30, 0)
    log.start_at(Offset(offset))
    append(log, keyed([(b"key", b"newer")]))
    settle(log)
    log.validate()
    sim_disk.lose_power()
    log = open_log(sim_disk, config=compacted())
    assert (log.log_start_offset, everything(log)) == (offset, [(offset, b"newer")])
