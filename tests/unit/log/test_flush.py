"""What must be synced, when it counts as durable, and the clean stop."""

from __future__ import annotations

from random import Random

from tests.unit.log.logs import a_batch, append, everything, fill, flush, open_log, read, settings

from tidelog.model.errors import ErrorCode
from tidelog.model.safeguards import ALL_SAFEGUARDS, Safeguard
from tidelog.sim.disk import SimDisk


def paths(log: object) -> list[str]:
    ticket = log.flush_targets()  # type: ignore[attr-defined]
    return [target.path.removeprefix("orders-0/") for target in ticket.targets] if ticket else []


def test_a_new_log_must_have_its_names_synced(sim_disk: SimDisk) -> None:
    log = open_log(sim_disk)
    assert log.has_new_files
    append(log, a_batch())
    assert paths(log) == ["orders-0", "", f"{0:020d}.log"]
    flush(log)
    assert not log.has_new_files


def test_a_flush_covers_what_was_appended_before_it_began(sim_disk: SimDisk) -> None:
    log = open_log(sim_disk)
    append(log, a_batch(2))
    ticket = log.flush_targets()
    assert ticket is not None
    append(log, a_batch(3))
    assert log.flushed_offset == 0
    log.flushed(ticket)
    assert log.flushed_offset == 2
    assert paths(log) == [f"{0:020d}.log", "flushed"]
    flush(log)
    assert log.flushed_offset == 5
    assert log.flush_targets() is None


def test_a_roll_leaves_both_segments_to_be_synced(sim_disk: SimDisk) -> None:
    log = open_log(sim_disk)
    append(log, a_batch(2))
    flush(log)
    append(log, a_batch(2))
    log.roll()
    append(log, a_batch(2))
    old, new = f"{0:020d}", f"{4:020d}"
    expected = [f"{old}.log", f"{old}.index", f"{old}.timeindex", f"{new}.snapshot"]
    assert paths(log) == [*expected, "orders-0", f"{new}.log", "flushed"]
    flush(log)
    assert log.flushed_offset == 6


def test_a_roll_during_a_flush_is_left_to_the_next(sim_disk: SimDisk) -> None:
    log = open_log(sim_disk)
    append(log, a_batch(2))
    ticket = log.flush_targets()
    assert ticket is not None
    append(log, a_batch(2))
    log.roll()
    append(log, a_batch(2))
    log.flushed(ticket)
    assert log.flushed_offset == 2
    assert f"{0:020d}.log" in paths(log)


def test_a_ticket_not_redeemed_is_handed_out_again(sim_disk: SimDisk) -> None:
    log = open_log(sim_disk)
    append(log, a_batch(2))
    assert paths(log) == paths(log)


def test_a_checkpoint_alone_is_no_reason_to_flush(sim_disk: SimDisk) -> None:
    log = open_log(sim_disk)
    append(log, a_batch(2))
    flush(log)
    log.checkpoint()
    flush(log)
    append(log, a_batch(2))
    flush(log)
    log.checkpoint()
    assert log.flush_targets() is None


def test_the_mark_is_not_rewritten_before_its_last_writing_is_durable(sim_disk: SimDisk) -> None:
    log = open_log(sim_disk)
    for _ in range(3):
        append(log, a_batch(2))
        flush(log)
        log.checkpoint()
        append(log, a_batch(2))
        ticket = log.flush_targets()
        assert ticket is not None
        assert ticket.has_mark
        log.checkpoint()
        log.flushed(ticket)


def test_a_checkpoint_on_a_full_disk_is_postponed(sim_disk: SimDisk) -> None:
    log = open_log(sim_disk)
    fill(log, 50)
    flush(log)
    sim_disk.faults.capacity_bytes = sim_disk.used_bytes()
    log.checkpoint()
    sim_disk.faults.heal()
    log.checkpoint()
    log.close_cleanly()
    assert open_log(sim_disk, clean=True).log_end_offset == 100


def test_after_a_power_failure_all_that_was_flushed_is_there() -> None:
    for seed in range(30):
        disk = SimDisk(Random(seed))
        config = settings(segment_bytes=2000)
        log = open_log(disk, config=config)
        fill(log, 25)
        flush(log)
        if seed % 2:
            log.checkpoint()
        fill(log, 3)
        disk.lose_power()
        log = open_log(disk, config=config)
        log.validate()
        assert log.log_end_offset >= 50
        assert len(everything(log)) == log.log_end_offset


def test_without_directory_sync_a_flushed_file_may_be_gone() -> None:
    lost = 0
    for seed in range(30):
        disk = SimDisk(Random(seed))
        log = open_log(disk, safeguards=ALL_SAFEGUARDS - {Safeguard.DIRECTORY_SYNC})
        fill(log, 5)
        flush(log)
        disk.lose_power()
        lost += open_log(disk).log_end_offset < 10
    assert lost


def test_a_clean_stop_needs_no_look_at_the_log(sim_disk: SimDisk) -> None:
    config = settings(segment_bytes=2000)
    log = open_log(sim_disk, config=config)
    for sequence in range(40):
        append(log, a_batch(producer=(9, 0, sequence)), epoch=sequence // 15)
    log.close_cleanly()
    state = log.describe()
    sim_disk.lose_process()
    for path, image in sim_disk.files().items():
        if path.endswith(".log"):
            image.cached[:] = bytes(len(image.cached))
    log = open_log(sim_disk, clean=True, config=config)
    assert log.describe() == state | {"flushed_offset": 40}
    repeat = append(log, a_batch(producer=(9, 0, 39)), epoch=2)
    assert (repeat.base_offset, repeat.is_duplicate) == (39, True)


def test_closing_twice_or_without_appends_changes_nothing(sim_disk: SimDisk) -> None:
    log = open_log(sim_disk)
    fill(log, 5)
    log.close_cleanly()
    syncs = sim_disk.syncs
    log.close_cleanly()
    log = open_log(sim_disk, clean=True)
    log.close_cleanly()
    assert sim_disk.syncs == syncs


def test_a_clean_stop_that_the_files_contradict_is_not_believed(sim_disk: SimDisk) -> None:
    log = open_log(sim_disk)
    fill(log, 5)
    log.close_cleanly()
    log = open_log(sim_disk, clean=True)
    fill(log, 5)
    log = open_log(sim_disk, clean=True)
    assert log.log_end_offset == 20


def test_an_empty_log_closes_and_opens(sim_disk: SimDisk) -> None:
    open_log(sim_disk).close_cleanly()
    sim_disk.lose_power()
    log = open_log(sim_disk, clean=True)
    assert (log.log_start_offset, log.log_end_offset, log.flushed_offset) == (0, 0, 0)
    assert read(log, 0) is None
    assert read(log, 1) is ErrorCode.OFFSET_OUT_OF_RANGE
    assert log.max_timestamp() is None
    assert log.offset_for_timestamp(0) is None
