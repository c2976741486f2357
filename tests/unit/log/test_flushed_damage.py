"""Damage to what was flushed since the last mark, met after the process was killed: the log knows
what it had made durable, keeps what follows the damage, and gives no offset out a second time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from tests.unit.log.logs import (
    a_batch,
    append,
    everything,
    fill,
    flush,
    offsets_in,
    open_log,
    read,
    settings,
)

from tidelog.log.durability import MARK_EVERY
from tidelog.log.log import Log
from tidelog.log.marks import MarkFile
from tidelog.log.paths import FLUSHED
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import LeaderEpoch, Offset
from tidelog.model.safeguards import ALL_SAFEGUARDS, Safeguard
from tidelog.runtime.file_disk import FileDisk
from tidelog.sim.disk import SimDisk

CONFIG = settings(segment_bytes=4000)
BATCHES = 60
RECORDS = 2 * BATCHES

Spoiling = Callable[[bytearray, int], None]


def killed(tmp_path: Path, *, epoch: int = 0) -> None:
    """Every batch is flushed before the next is appended, and no mark is asked for: then the
    process is gone."""
    log = open_log(FileDisk(tmp_path), config=CONFIG)
    for number in range(BATCHES):
        times = range(1000 + 2 * number, 1002 + 2 * number)
        append(log, a_batch(2, timestamps=times), epoch=epoch)
        flush(log)
    assert log.flushed_offset == RECORDS


def reopened(tmp_path: Path, safeguards: frozenset[Safeguard] = ALL_SAFEGUARDS) -> Log:
    log = open_log(FileDisk(tmp_path), config=CONFIG, safeguards=safeguards)
    log.validate()
    return log


def segments(tmp_path: Path) -> list[Path]:
    return sorted((tmp_path / "orders-0").glob("*.log"))


def batch_size(tmp_path: Path) -> int:
    return sum(path.stat().st_size for path in segments(tmp_path)) // BATCHES


def spoil(path: Path, how: Spoiling, at: int) -> None:
    data = bytearray(path.read_bytes())
    how(data, at)
    path.write_bytes(data)


def readable(log: Log) -> set[int]:
    """The offsets of all batches that can be read, from wherever one tries."""
    found: set[int] = set()
    for offset in range(0, int(log.log_end_offset), 2):
        span = read(log, offset)
        if span is not None and not isinstance(span, ErrorCode):
            found.update(offsets_in(span))
    return found


def flip_payload(data: bytearray, at: int) -> None:
    data[at + 70] ^= 0x20


def flip_length(data: bytearray, at: int) -> None:
    data[at + 9] ^= 0x20


def flip_offset(data: bytearray, at: int) -> None:
    data[at + 7] ^= 0x20


def raise_epoch(data: bytearray, at: int) -> None:
    data[at + 15] ^= 0x01


def zero_the_batch(data: bytearray, at: int) -> None:
    data[at : at + 100] = bytes(100)


SPOILINGS = (flip_payload, flip_length, flip_offset, raise_epoch, zero_the_batch)


@pytest.mark.parametrize("how", SPOILINGS, ids=lambda how: how.__name__)
@pytest.mark.parametrize("number", [0, 1, 2, -1], ids=["first", "second", "third", "last"])
def test_one_spoiled_batch_costs_that_batch_and_no_other(
    tmp_path: Path, how: Spoiling, number: int
) -> None:
    killed(tmp_path)
    path, size = segments(tmp_path)[number], batch_size(tmp_path)
    within = min(3, path.stat().st_size // size - 2)
    spoil(path, how, within * size)
    log = reopened(tmp_path)
    spoiled = int(path.stem) + 2 * within
    assert log.log_end_offset == RECORDS
    assert readable(log) == set(range(0, RECORDS, 2)) - {spoiled}
    assert [damage.kind for damage in log.damage] == ["quarantined"]
    assert (log.damage[0].first_offset, log.damage[0].next_offset) == (spoiled, spoiled + 2)
    assert log.first_damaged_offset() == spoiled
    assert not log.may_lack_records


@pytest.mark.parametrize("how", SPOILINGS[:2], ids=lambda how: how.__name__)
def test_the_offsets_of_a_spoiled_last_batch_are_not_given_out_again(
    tmp_path: Path, how: Spoiling
) -> None:
    killed(tmp_path)
    path, size = segments(tmp_path)[-1], batch_size(tmp_path)
    spoil(path, how, path.stat().st_size - size)
    log = reopened(tmp_path)
    assert log.log_end_offset == RECORDS
    assert append(log, a_batch(2)).base_offset == RECORDS
    flush(log)
    again = reopened(tmp_path)
    assert readable(again) == {*range(0, RECORDS + 2, 2)} - {RECORDS - 2}


def test_without_the_note_everything_behind_the_damage_would_be_cut(tmp_path: Path) -> None:
    killed(tmp_path)
    path, size = segments(tmp_path)[-1], batch_size(tmp_path)
    spoil(path, flip_payload, path.stat().st_size - 3 * size)
    log = reopened(tmp_path, ALL_SAFEGUARDS - {Safeguard.FLUSHES_NOTED})
    assert log.log_end_offset < RECORDS
    assert log.may_lack_records


def test_a_lost_segment_is_reported_and_the_log_goes_on_behind_it(tmp_path: Path) -> None:
    killed(tmp_path)
    lost = segments(tmp_path)[-2]
    following = int(segments(tmp_path)[-1].stem)
    lost.unlink()
    log = reopened(tmp_path)
    assert log.log_end_offset == RECORDS
    gone = set(range(int(lost.stem), following, 2))
    assert readable(log) == set(range(0, RECORDS, 2)) - gone
    assert [damage.kind for damage in log.damage] == ["missing"]


def test_a_lost_last_segment_takes_no_offset_with_it(tmp_path: Path) -> None:
    killed(tmp_path)
    segments(tmp_path)[-1].unlink()
    log = reopened(tmp_path)
    assert log.log_end_offset == RECORDS
    assert append(log, a_batch()).base_offset == RECORDS


@pytest.mark.parametrize("number", [0, -2, -1], ids=["first", "closed", "active"])
def test_a_truncated_segment_loses_only_what_was_truncated(tmp_path: Path, number: int) -> None:
    killed(tmp_path)
    path, size = segments(tmp_path)[number], batch_size(tmp_path)
    kept = path.stat().st_size - 2 * size - 10
    path.write_bytes(path.read_bytes()[:kept])
    log = reopened(tmp_path)
    assert log.log_end_offset == RECORDS
    count = path.stat().st_size // size
    first = int(path.stem) + 2 * (kept // size)
    end = min([int(each.stem) for each in segments(tmp_path) if int(each.stem) > first], default=0)
    gone = set(range(first, end or RECORDS, 2))
    assert count == kept // size
    assert readable(log) == set(range(0, RECORDS, 2)) - gone


@pytest.mark.parametrize("number", [0, -2], ids=["first", "last closed"])
def test_garbage_behind_a_closed_segment_costs_nothing(tmp_path: Path, number: int) -> None:
    killed(tmp_path)
    path = segments(tmp_path)[number]
    path.write_bytes(path.read_bytes() + Random(1).randbytes(500))
    log = reopened(tmp_path)
    assert len(everything(log)) == RECORDS
    assert reopened(tmp_path).first_damaged_offset() is None


def test_garbage_behind_the_active_segment_is_cut(tmp_path: Path) -> None:
    killed(tmp_path)
    path = segments(tmp_path)[-1]
    path.write_bytes(path.read_bytes() + Random(1).randbytes(500))
    log = reopened(tmp_path)
    assert len(everything(log)) == RECORDS
    assert append(log, a_batch()).base_offset == RECORDS
    assert not log.may_lack_records


def test_an_epoch_that_the_partition_never_had_is_damage(tmp_path: Path) -> None:
    killed(tmp_path)
    path, size = segments(tmp_path)[-1], batch_size(tmp_path)
    spoil(path, raise_epoch, path.stat().st_size - size)
    log = Log.open(FileDisk(tmp_path), "orders-0", CONFIG, clean=False, latest_epoch=LeaderEpoch(0))
    assert log.epochs.latest == 0
    assert log.log_end_offset == RECORDS
    assert log.first_damaged_offset() == RECORDS - 2


def test_a_truncation_lowers_the_note_too(tmp_path: Path) -> None:
    """Else what is torn above the new end would be taken for damage."""
    log = open_log(FileDisk(tmp_path), config=CONFIG)
    for _ in range(5):
        fill(log, 1)
        flush(log)
    log.truncate_to(Offset(4))
    fill(log, 2)
    path = segments(tmp_path)[-1]
    path.write_bytes(path.read_bytes()[:-10])
    again = reopened(tmp_path)
    assert again.log_end_offset == 6
    assert [damage.kind for damage in again.damage] == ["cut"]


def without_marks(tmp_path: Path) -> None:
    """Both slots are unreadable, and the note is not."""
    path = tmp_path / "orders-0" / FLUSHED
    data = bytearray(path.read_bytes())
    data[20] ^= 1
    data[4096 + 20] ^= 1
    path.write_bytes(data)


def test_a_note_that_outlived_its_marks_does_not_extend_later_ones(tmp_path: Path) -> None:
    killed(tmp_path)
    without_marks(tmp_path)
    log = reopened(tmp_path)
    assert log.log_end_offset == RECORDS
    log.truncate_to(Offset(10))
    log = reopened(tmp_path)
    assert (log.log_end_offset, log.damage) == (10, [])


def test_a_note_alone_keeps_the_offsets_of_lost_segments_from_being_given_out_again(
    tmp_path: Path,
) -> None:
    killed(tmp_path)
    without_marks(tmp_path)
    for path in segments(tmp_path):
        path.unlink()
    log = reopened(tmp_path)
    assert log.log_end_offset == RECORDS
    assert [damage.kind for damage in log.damage] == ["missing"]


def test_a_mark_is_due_with_the_first_flush_after_a_roll_and_every_so_often(tmp_path: Path) -> None:
    log = open_log(FileDisk(tmp_path), config=settings())
    seen = []
    for _ in range(3 * MARK_EVERY):
        fill(log, 1)
        flush(log)
        mark = MarkFile(FileDisk(tmp_path), "orders-0").load()
        assert mark is not None
        seen.append(mark.flushed_offset)
    assert len(set(seen)) == 3
    log.roll()
    fill(log, 1)
    flush(log)
    mark = MarkFile(FileDisk(tmp_path), "orders-0").load()
    assert mark is not None
    assert mark.flushed_offset == log.flushed_offset
    assert mark.segment_base == log.log_end_offset - 2


def test_a_producer_goes_on_behind_a_batch_that_was_lost_to_damage(tmp_path: Path) -> None:
    """What it sends next is later than anything that is known of it, and no gap of its own."""
    log = open_log(FileDisk(tmp_path), config=CONFIG)
    for sequence in range(0, 10, 2):
        append(log, a_batch(2, producer=(7, 0, sequence)))
        flush(log)
    (path,) = segments(tmp_path)
    spoil(path, flip_payload, path.stat().st_size - path.stat().st_size // 5)
    log = reopened(tmp_path)
    assert log.log_end_offset == 10
    known = append(log, a_batch(2, producer=(7, 0, 6)))
    assert (known.is_duplicate, known.base_offset) == (True, 6)
    later = append(log, a_batch(2, producer=(7, 0, 10)))
    assert (later.error, later.base_offset) == (ErrorCode.NONE, 10)
    gap = append(log, a_batch(2, producer=(7, 0, 14)))
    assert gap.error is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_batch_that_was_lost_to_damage_is_refused_for_that_and_not_as_out_of_order(
    tmp_path: Path,
) -> None:
    """Its producer was not told of it, and sends it again: from before or between what is known."""
    log = open_log(FileDisk(tmp_path), config=CONFIG)
    for pid, sequence in ((8, 0), (7, 0), (7, 2), (7, 4), (8, 2)):
        append(log, a_batch(2, producer=(pid, 0, sequence)))
        flush(log)
    (path,) = segments(tmp_path)
    for damaged in (0, 2):
        spoil(path, flip_length, damaged * (path.stat().st_size // 5))
    log = reopened(tmp_path)
    for lost in ((8, 0, 0), (7, 0, 2)):
        refused = append(log, a_batch(2, producer=lost))
        assert refused.error is ErrorCode.KAFKA_STORAGE_ERROR
    for known, offset in (((7, 0, 0), 2), ((7, 0, 4), 6), ((8, 0, 2), 8)):
        repeated = append(log, a_batch(2, producer=known))
        assert (repeated.is_duplicate, repeated.base_offset) == (True, offset)
    wrong = append(log, a_batch(3, producer=(7, 0, 1)))
    assert wrong.error is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert append(log, a_batch(2, producer=(7, 0, 6))).error is ErrorCode.NONE


def flip_last_batch(disk: SimDisk, log: Log, batches: int) -> None:
    """Of a log with so many batches of one size; then there is room again."""
    disk.faults.heal()
    image = disk.files()[log.directory.path + "/00000000000000000000.log"]
    size = len(image.cached) // batches
    image.cached[-size + 70] ^= 0x20


def assert_lost(log: Log, first: int, end: int) -> None:
    """The log knows what it lacks, and gives no offset out again."""
    assert (log.log_end_offset, log.first_damaged_offset()) == (end, first)
    assert [damage.kind for damage in log.damage] == ["quarantined"]


def test_what_is_flushed_on_a_full_disk_is_known_after_a_kill(sim_disk: SimDisk) -> None:
    """The note of the second flush."""
    log = open_log(sim_disk)
    fill(log, 1)
    flush(log)
    fill(log, 1)
    sim_disk.faults.capacity_bytes = sim_disk.used_bytes()
    flush(log)
    assert log.flushed_offset == 4
    flip_last_batch(sim_disk, log, 2)
    assert_lost(open_log(sim_disk), 2, 4)


def test_the_first_flush_on_a_full_disk_is_known_after_a_kill(sim_disk: SimDisk) -> None:
    """There is no room for the epochs, so no mark either: the note stands alone."""
    log = open_log(sim_disk)
    fill(log, 2)
    sim_disk.faults.capacity_bytes = sim_disk.used_bytes()
    flush(log)
    assert log.flushed_offset == 4
    assert MarkFile(sim_disk, "orders-0").load() is None
    flip_last_batch(sim_disk, log, 2)
    assert_lost(open_log(sim_disk), 2, 4)


def test_a_truncation_makes_a_note_without_a_mark_void(sim_disk: SimDisk) -> None:
    log = open_log(sim_disk)
    fill(log, 3)
    sim_disk.faults.capacity_bytes = sim_disk.used_bytes()
    flush(log)
    sim_disk.faults.heal()
    log.truncate_to(Offset(2))
    again = open_log(sim_disk)
    assert (again.log_end_offset, again.damage) == (2, [])


def test_a_flush_for_which_a_mark_was_due_is_known_though_the_epochs_have_no_room(
    sim_disk: SimDisk,
) -> None:
    log = open_log(sim_disk)
    for _ in range(MARK_EVERY):
        fill(log, 1)
        flush(log)
    append(log, a_batch(2, timestamps=(2000, 2001)), epoch=1)
    sim_disk.faults.capacity_bytes = sim_disk.used_bytes()
    flush(log)
    mark = MarkFile(sim_disk, "orders-0").load()
    assert mark is not None
    assert mark.flushed_offset < log.flushed_offset == 2 * MARK_EVERY + 2
    flip_last_batch(sim_disk, log, MARK_EVERY + 1)
    assert_lost(open_log(sim_disk), 2 * MARK_EVERY, 2 * MARK_EVERY + 2)


def test_what_a_recovery_on_a_full_disk_has_flushed_is_known_after_a_kill(
    sim_disk: SimDisk,
) -> None:
    log = open_log(sim_disk)
    fill(log, 1)
    flush(log)
    append(log, a_batch(2, timestamps=(1002, 1003)), epoch=1)
    sim_disk.faults.capacity_bytes = sim_disk.used_bytes()
    log = open_log(sim_disk)
    assert log.flushed_offset == 4
    flip_last_batch(sim_disk, log, 2)
    assert_lost(open_log(sim_disk), 2, 4)
