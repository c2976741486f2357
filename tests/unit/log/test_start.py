"""A log's start moves forward, durably before anybody is told, and files go last."""

from __future__ import annotations

from itertools import pairwise

import pytest
from tests.unit.log.cleaning import settle
from tests.unit.log.logs import (
    NAME,
    a_batch,
    append,
    everything,
    fill,
    flush,
    offsets_in,
    open_log,
    read,
    settings,
    without_room_for_marks,
)

from tidelog.log.disk import FileSpan
from tidelog.log.log import Log
from tidelog.log.paths import LOG, offsets_of
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import LeaderEpoch, Offset
from tidelog.model.safeguards import ALL_SAFEGUARDS, Safeguard
from tidelog.sim.disk import SimDisk

CONFIG = settings(segment_bytes=600)


def a_log(disk: SimDisk) -> Log:
    """Offsets 0 to 19 in several segments, all flushed and marked."""
    log = open_log(disk, config=CONFIG)
    fill(log, 10)
    settle(log)
    log.checkpoint()
    settle(log)
    return log


def bases(disk: SimDisk) -> list[int]:
    return offsets_of(disk.list(NAME), LOG)


def test_reads_below_the_start_are_out_of_range(sim_disk: SimDisk) -> None:
    log = a_log(sim_disk)
    log.advance_start(Offset(7))
    settle(log)
    assert log.log_start_offset == log.durable_start_offset == 7
    assert read(log, 6) is ErrorCode.OFFSET_OUT_OF_RANGE
    assert offsets_in(read(log, 7))[0] == 6, "the batch that holds the start is served whole"
    assert log.log_end_offset == 20


def test_nobody_sees_the_new_start_before_it_is_durable(sim_disk: SimDisk) -> None:
    log = a_log(sim_disk)
    log.advance_start(Offset(7))
    assert log.log_start_offset == 0
    assert isinstance(read(log, 0), FileSpan)
    assert log.has_new_files
    sim_disk.lose_power()
    assert open_log(sim_disk, config=CONFIG).log_start_offset == 0


def test_the_start_survives_a_crash_once_it_was_flushed(sim_disk: SimDisk) -> None:
    log = a_log(sim_disk)
    log.advance_start(Offset(7))
    flush(log)
    assert log.log_start_offset == 7
    sim_disk.lose_power()
    log = open_log(sim_disk, config=CONFIG)
    assert log.log_start_offset == 7
    assert read(log, 6) is ErrorCode.OFFSET_OUT_OF_RANGE
    assert not log.damage


def test_a_start_read_from_the_cache_of_a_killed_process_is_durable_before_it_is_shown(
    sim_disk: SimDisk,
) -> None:
    log = a_log(sim_disk)
    log.advance_start(Offset(7))
    flush(log)
    log.advance_start(Offset(9))
    log.checkpoint()
    sim_disk.lose_process()
    assert open_log(sim_disk, config=CONFIG).log_start_offset == 9
    sim_disk.lose_power()
    assert open_log(sim_disk, config=CONFIG).log_start_offset == 9


def test_the_start_never_moves_back(sim_disk: SimDisk) -> None:
    log = a_log(sim_disk)
    log.advance_start(Offset(7))
    log.advance_start(Offset(3))
    settle(log)
    assert log.log_start_offset == 7


def test_segments_below_the_start_are_deleted_once_both_slots_of_the_mark_say_so(
    sim_disk: SimDisk,
) -> None:
    log = a_log(sim_disk)
    before = bases(sim_disk)
    log.advance_start(Offset(13))
    flush(log)
    assert log.log_start_offset == 13
    assert bases(sim_disk) == before
    settle(log)
    assert bases(sim_disk) == [base for base in before if base >= 12]
    assert log.size_bytes() == sum(
        len(image.cached) for path, image in sim_disk.files().items() if path.endswith(".log")
    )
    log.validate()


def test_the_log_outlives_the_loss_of_either_slot_of_the_mark(sim_disk: SimDisk) -> None:
    log = a_log(sim_disk)
    log.advance_start(Offset(13))
    settle(log)
    image = sim_disk.files()[f"{NAME}/flushed"]
    whole = bytes(image.cached)
    for slot in (0, 4096):
        image.cached[:] = whole
        image.cached[slot + 20] ^= 1
        log = open_log(sim_disk, config=CONFIG)
        assert log.log_start_offset == 13
        assert [offset for offset, _ in everything(log)] == list(range(12, 20))
        assert not log.damage


def test_a_span_that_somebody_holds_stays_readable(sim_disk: SimDisk) -> None:
    log = a_log(sim_disk)
    span = read(log, 0)
    assert isinstance(span, FileSpan)
    expected = span.read()
    log.advance_start(Offset(20))
    settle(log)
    assert span.read() == expected


def test_deletion_goes_on_after_a_restart(sim_disk: SimDisk) -> None:
    log = a_log(sim_disk)
    log.advance_start(Offset(13))
    flush(log)
    log.close_cleanly()
    for clean in (True, False):
        log = open_log(sim_disk, clean=clean, config=CONFIG)
        assert log.log_start_offset == 13
        assert log._bases[0] == 12
        log.validate()
    settle(log)
    assert bases(sim_disk)[0] == 12


def test_many_segments_are_deleted_a_few_at_a_time(sim_disk: SimDisk) -> None:
    log = open_log(sim_disk, config=settings(segment_bytes=200))
    fill(log, 40)
    settle(log)
    log.advance_start(log.log_end_offset)
    left = []
    while log.has_new_files:
        flush(log)
        left.append(len(bases(sim_disk)))
    assert left[-1] == 1
    assert max(before - after for before, after in pairwise(left)) <= 8


def test_an_unflushed_start_waits_for_its_records(sim_disk: SimDisk) -> None:
    log = a_log(sim_disk)
    fill(log, 3)
    log.advance_start(log.log_end_offset)
    flush(log)
    assert log.log_start_offset <= log.flushed_offset
    settle(log)
    assert log.log_start_offset == log.log_end_offset == 26
    sim_disk.lose_power()
    log = open_log(sim_disk, config=CONFIG)
    assert (log.log_start_offset, log.log_end_offset) == (26, 26)
    assert append(log, a_batch()).base_offset == 26


def test_epochs_below_the_start_are_forgotten(sim_disk: SimDisk) -> None:
    log = open_log(sim_disk, config=CONFIG)
    for epoch in range(10):
        append(log, a_batch(2), epoch=epoch)
    settle(log)
    log.advance_start(Offset(11))
    settle(log)
    first = log._bases[0]
    assert log.epochs.entries()[0] == (first // 2, first)
    assert log.epoch_end_offset(LeaderEpoch(6)) == (6, 14)
    sim_disk.lose_power()
    assert open_log(sim_disk, config=CONFIG).epochs.entries() == log.epochs.entries()


def test_the_largest_timestamp_is_looked_for_above_the_start_only(sim_disk: SimDisk) -> None:
    log = open_log(sim_disk, config=CONFIG)
    append(log, a_batch(timestamps=[50, 90, 20, 30]), a_batch(timestamps=[25, 10]))
    settle(log)
    found = log.max_timestamp()
    assert found is not None
    assert found[:2] == (1, 90)
    log.advance_start(Offset(2))
    settle(log)
    found = log.max_timestamp()
    assert found is not None
    assert found[:2] == (3, 30)


def test_a_full_disk_does_not_keep_the_start_from_moving(sim_disk: SimDisk) -> None:
    """Else nothing could be deleted to make room."""
    log = open_log(sim_disk, config=CONFIG)
    fill(log, 10)
    flush(log)
    sim_disk.faults.capacity_bytes = sim_disk.used_bytes()
    log.advance_start(Offset(7))
    settle(log)
    assert log.log_start_offset == 7


def test_a_full_disk_puts_the_start_off_where_the_marks_lack_room(sim_disk: SimDisk) -> None:
    log = open_log(sim_disk, config=CONFIG)
    fill(log, 10)
    flush(log)
    without_room_for_marks(sim_disk)
    sim_disk.faults.capacity_bytes = sim_disk.used_bytes()
    log.advance_start(Offset(7))
    for _ in range(5):
        flush(log)
    assert log.log_start_offset == 0
    sim_disk.faults.heal()
    settle(log)
    assert log.log_start_offset == 7


def test_a_clean_stop_makes_the_start_durable(sim_disk: SimDisk) -> None:
    log = a_log(sim_disk)
    log.advance_start(Offset(7))
    log.close_cleanly()
    assert log.log_start_offset == 7
    sim_disk.lose_power()
    assert open_log(sim_disk, clean=True, config=CONFIG).log_start_offset == 7


def test_a_start_beyond_the_end_is_our_mistake(sim_disk: SimDisk) -> None:
    log = a_log(sim_disk)
    with pytest.raises(AssertionError):
        log.advance_start(Offset(21))


def test_a_truncation_keeps_the_start(sim_disk: SimDisk) -> None:
    log = a_log(sim_disk)
    log.advance_start(Offset(7))
    settle(log)
    log.truncate_to(Offset(10))
    sim_disk.lose_power()
    log = open_log(sim_disk, config=CONFIG)
    assert (log.log_start_offset, log.log_end_offset) == (7, 10)


def test_without_the_safeguard_a_crash_takes_the_start_back(sim_disk: SimDisk) -> None:
    a_log(sim_disk)
    safeguards = ALL_SAFEGUARDS - {Safeguard.START_DURABLE_BEFORE_DELETE}
    log = open_log(sim_disk, config=CONFIG, safeguards=safeguards)
    log.advance_start(Offset(13))
    assert log.log_start_offset == 13
    sim_disk.lose_power()
    assert open_log(sim_disk, config=CONFIG).log_start_offset == 0
