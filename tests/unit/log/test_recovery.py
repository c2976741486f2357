"""What a crash leaves, what is made of it, and what is never touched."""

from __future__ import annotations

import shutil
from pathlib import Path
from random import Random

import pytest
from tests.unit.log.logs import (
    a_batch,
    append,
    everything,
    fill,
    flush,
    headers_in,
    offsets_in,
    open_log,
    read,
    settings,
)

from tidelog.log.log import Log
from tidelog.model.errors import ErrorCode
from tidelog.model.safeguards import ALL_SAFEGUARDS, Safeguard
from tidelog.runtime.file_disk import FileDisk
from tidelog.sim.disk import SimDisk
from tidelog.sim.disk_faults import PowerLost

CONFIG = settings(segment_bytes=4000)


def log_file(tmp_path: Path, base: int = 0, kind: str = "log") -> Path:
    return tmp_path / "orders-0" / f"{base:020d}.{kind}"


def flip(path: Path, position: int) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 0x20
    path.write_bytes(data)


def crashed(tmp_path: Path, *, flushed: int, unflushed: int) -> tuple[Log, int]:
    """A log killed with so many batches below and above the mark on disk, and a batch's size."""
    log = open_log(FileDisk(tmp_path), config=CONFIG)
    fill(log, flushed)
    flush(log)
    log.checkpoint()
    fill(log, unflushed)
    return log, log.size_bytes() // (flushed + unflushed)


def recovered(tmp_path: Path, safeguards: frozenset[Safeguard] = ALL_SAFEGUARDS) -> Log:
    log = open_log(FileDisk(tmp_path), config=CONFIG, safeguards=safeguards)
    log.validate()
    assert log.flushed_offset == log.log_end_offset
    return log


def bases(tmp_path: Path) -> list[int]:
    return sorted(int(path.stem) for path in (tmp_path / "orders-0").glob("*.log"))


# --- above the mark ---------------------------------------------------------------------------


def test_a_killed_process_loses_nothing(tmp_path: Path) -> None:
    crashed(tmp_path, flushed=30, unflushed=30)
    log = recovered(tmp_path)
    assert [offset for offset, _ in everything(log)] == list(range(120))
    assert not log.damage


def test_a_torn_tail_is_cut_at_every_byte(tmp_path: Path) -> None:
    _, size = crashed(tmp_path, flushed=3, unflushed=2)
    data = log_file(tmp_path).read_bytes()
    for length in range(3 * size, len(data) + 1, 7):
        log_file(tmp_path).write_bytes(data[:length])
        copy = tmp_path / "copy"
        shutil.copytree(tmp_path / "orders-0", copy / "orders-0")
        log = recovered(copy)
        whole = length // size
        assert log.log_end_offset == whole * 2
        assert log_file(copy).stat().st_size == whole * size
        assert [damage.kind for damage in log.damage] == ["cut"] * (length % size > 0)
        assert append(log, a_batch()).base_offset == whole * 2
        assert not list((copy / "orders-0").glob("*.torn"))
        shutil.rmtree(copy)


def test_zeros_at_the_end_are_cut(tmp_path: Path) -> None:
    crashed(tmp_path, flushed=3, unflushed=1)
    with log_file(tmp_path).open("ab") as file:
        file.write(bytes(1000))
    assert recovered(tmp_path).log_end_offset == 8


def test_whole_batches_beyond_the_cut_are_kept_as_evidence(tmp_path: Path) -> None:
    _, size = crashed(tmp_path, flushed=5, unflushed=6)
    flip(log_file(tmp_path), 7 * size + 80)
    cut = log_file(tmp_path).read_bytes()[7 * size :]
    log = recovered(tmp_path)
    assert log.log_end_offset == 14
    assert log_file(tmp_path, kind="torn").read_bytes() == cut
    (damage,) = log.damage
    assert damage.kind == "cut"
    assert damage.evidence == f"orders-0/{0:020d}.torn"
    assert "kept in" in str(damage)
    fill(log, 3)
    assert [offset for offset, _ in everything(log)] == list(range(20))


def test_a_second_crash_does_not_overwrite_the_first_ones_evidence(tmp_path: Path) -> None:
    for _ in range(2):
        log, size = crashed(tmp_path, flushed=1, unflushed=4)
        flip(log_file(tmp_path), log.size_bytes() - 3 * size + 80)
        recovered(tmp_path)
    assert sorted(path.name for path in (tmp_path / "orders-0").glob("*.torn*")) == [
        f"{0:020d}.torn",
        f"{0:020d}.torn.1",
    ]


def test_segments_after_the_cut_go_too(tmp_path: Path) -> None:
    _, size = crashed(tmp_path, flushed=5, unflushed=100)
    assert len(bases(tmp_path)) > 3
    flip(log_file(tmp_path), 10 * size + 80)
    log = recovered(tmp_path)
    assert log.log_end_offset == 20
    assert bases(tmp_path) == [0]
    assert not list((tmp_path / "orders-0").glob("*[1-9].*index"))
    assert len(list((tmp_path / "orders-0").glob("*.torn"))) > 3
    assert not [path for path in (tmp_path / "orders-0").glob("*.snapshot") if int(path.stem) > 20]


def test_a_segment_missing_above_the_mark_ends_the_log(tmp_path: Path) -> None:
    crashed(tmp_path, flushed=5, unflushed=100)
    second, third, *_ = bases(tmp_path)[1:]
    log_file(tmp_path, second).unlink()
    log = recovered(tmp_path)
    assert log.log_end_offset == second
    assert log_file(tmp_path, third, "torn").exists()


def test_an_empty_last_segment_is_taken_up(tmp_path: Path) -> None:
    log, _ = crashed(tmp_path, flushed=5, unflushed=5)
    log.roll()
    log = recovered(tmp_path)
    assert bases(tmp_path) == [0, 20]
    assert append(log, a_batch()).base_offset == 20


def test_a_batch_out_of_place_ends_the_log(tmp_path: Path) -> None:
    _, size = crashed(tmp_path, flushed=2, unflushed=3)
    data = log_file(tmp_path).read_bytes()
    log_file(tmp_path).write_bytes(data[: 3 * size] + data[4 * size :])
    assert recovered(tmp_path).log_end_offset == 6


def test_a_log_without_a_mark_is_scanned_from_its_begin(tmp_path: Path) -> None:
    _, size = crashed(tmp_path, flushed=10, unflushed=0)
    (tmp_path / "orders-0" / "flushed").unlink()
    flip(log_file(tmp_path), 4 * size + 80)
    assert recovered(tmp_path).log_end_offset == 8


def test_without_the_safeguard_a_torn_tail_is_kept(tmp_path: Path) -> None:
    _, size = crashed(tmp_path, flushed=2, unflushed=2)
    log_file(tmp_path).write_bytes(log_file(tmp_path).read_bytes()[:-10])
    log = recovered(tmp_path, ALL_SAFEGUARDS - {Safeguard.TORN_TAIL_CUT})
    assert log.log_end_offset == 8
    span = read(log, 6)
    assert span is not None
    assert not isinstance(span, ErrorCode)
    assert span.size == size
    assert span.read().endswith(bytes(10))


# --- below the mark ---------------------------------------------------------------------------


def test_damage_below_the_mark_is_kept_and_the_log_goes_on_after_it(tmp_path: Path) -> None:
    _, size = crashed(tmp_path, flushed=10, unflushed=2)
    before = log_file(tmp_path).read_bytes()
    for byte in range(0, size, 3):
        path = log_file(tmp_path)
        path.write_bytes(before)
        flip(path, 4 * size + byte)
        log = recovered(tmp_path)
        assert log.log_end_offset == 24
        assert read(log, 8) is ErrorCode.CORRUPT_MESSAGE
        assert offsets_in(read(log, 0)) == [0, 2, 4, 6]
        assert headers_in(read(log, 10))[-1].next_offset == 24
        assert path.stat().st_size == 12 * size
        assert [(hole.first_offset, hole.next_offset) for hole in log.damage] == [(8, 10)]


def test_without_the_safeguard_damage_below_the_mark_is_cut(tmp_path: Path) -> None:
    _, size = crashed(tmp_path, flushed=10, unflushed=2)
    flip(log_file(tmp_path), 4 * size + 80)
    log = recovered(tmp_path, ALL_SAFEGUARDS - {Safeguard.QUARANTINE_DAMAGE})
    assert log.log_end_offset == 8
    assert recovered(tmp_path).log_end_offset == 8


def test_flushed_offsets_are_never_given_out_again(tmp_path: Path) -> None:
    _, size = crashed(tmp_path, flushed=10, unflushed=2)
    log_file(tmp_path).write_bytes(log_file(tmp_path).read_bytes()[: 6 * size + 5])
    log = recovered(tmp_path)
    assert log.log_end_offset == 20
    assert headers_in(read(log, 0))[-1].next_offset == 12
    for offset in (12, 15, 19):
        assert read(log, offset) is ErrorCode.CORRUPT_MESSAGE
    assert append(log, a_batch()).base_offset == 20
    assert offsets_in(read(log, 20)) == [20]
    flush(log)
    log.checkpoint()
    again = recovered(tmp_path)
    assert again.log_end_offset == 21
    assert offsets_in(read(again, 20)) == [20]


def test_a_log_whose_files_are_all_gone_goes_on_at_the_mark(tmp_path: Path) -> None:
    crashed(tmp_path, flushed=10, unflushed=0)
    log_file(tmp_path).unlink()
    log = recovered(tmp_path)
    assert (log.log_start_offset, log.log_end_offset) == (0, 20)
    assert read(log, 3) is ErrorCode.CORRUPT_MESSAGE
    assert [damage.kind for damage in log.damage] == ["missing"]


def test_a_segment_missing_below_the_mark_is_a_hole(tmp_path: Path) -> None:
    crashed(tmp_path, flushed=100, unflushed=1)
    second, third, *_ = bases(tmp_path)[1:]
    log_file(tmp_path, second).unlink()
    log = recovered(tmp_path)
    assert log.log_end_offset == 202
    assert read(log, second) is ErrorCode.CORRUPT_MESSAGE
    assert read(log, third - 1) is ErrorCode.CORRUPT_MESSAGE
    assert offsets_in(read(log, third))[0] == third
    assert headers_in(read(log, 0))[-1].next_offset == second


@pytest.mark.parametrize("length", [0, 100, 1000])
def test_a_closed_segment_cut_short_is_a_hole_at_its_end(tmp_path: Path, length: int) -> None:
    crashed(tmp_path, flushed=100, unflushed=1)
    second, third, *_ = bases(tmp_path)[1:]
    path = log_file(tmp_path, second)
    path.write_bytes(path.read_bytes()[:length])
    log = recovered(tmp_path)
    assert log.log_end_offset == 202
    assert read(log, third - 1) is ErrorCode.CORRUPT_MESSAGE
    assert offsets_in(read(log, third))[0] == third
    assert log.damage


def test_a_damaged_mark_makes_every_readable_batch_count_as_flushed(tmp_path: Path) -> None:
    log, size = crashed(tmp_path, flushed=3, unflushed=3)
    flush(log)
    log.checkpoint()
    fill(log, 3)
    mark = tmp_path / "orders-0" / "flushed"
    flip(mark, 12)
    flip(mark, 4096 + 12)
    flip(log_file(tmp_path), 4 * size + 80)
    log_file(tmp_path).write_bytes(log_file(tmp_path).read_bytes()[:-5])
    again = recovered(tmp_path)
    assert again.log_end_offset == 16
    assert read(again, 8) is ErrorCode.CORRUPT_MESSAGE
    assert headers_in(read(again, 10))[-1].next_offset == 16


def test_files_of_others_are_left_alone(tmp_path: Path) -> None:
    crashed(tmp_path, flushed=3, unflushed=0)
    strange = [tmp_path / "orders-0" / name for name in ("note.txt", "12.log", "x.index")]
    for path in strange:
        path.write_text("not ours")
    assert recovered(tmp_path).log_end_offset == 6
    assert [path.read_text() for path in strange] == ["not ours"] * 3


# --- what is rebuilt --------------------------------------------------------------------------


def test_rebuilt_files_equal_the_ones_that_were_lost(tmp_path: Path) -> None:
    log = open_log(FileDisk(tmp_path), config=CONFIG)
    for sequence in range(150):
        append(log, a_batch(timestamps=[sequence * 7 % 90]), epoch=sequence // 40)
    log.close_cleanly()
    directory = tmp_path / "orders-0"
    before = {path: path.read_bytes() for path in directory.iterdir() if path.name != "flushed"}
    for path in before:
        if path.suffix != ".log":
            path.unlink()
    again = recovered(tmp_path)
    for segment in again._segments:
        segment.indexes.load_timestamps()
    append(again, a_batch(), epoch=3)
    again.truncate_to(again.flushed_offset)
    again.close_cleanly()
    newest = max(path for path in before if path.suffix == ".snapshot")
    older = [path for path in before if path.suffix == ".snapshot" and path != newest]
    expected = {path: data for path, data in before.items() if path not in older}
    assert {path: path.read_bytes() for path in expected} == expected


def test_an_index_longer_than_the_log_is_cut_with_it(tmp_path: Path) -> None:
    log, size = crashed(tmp_path, flushed=3, unflushed=12)
    log.checkpoint()
    log_file(tmp_path).write_bytes(log_file(tmp_path).read_bytes()[: 8 * size])
    again = recovered(tmp_path)
    fill(again, 7)
    again.close_cleanly()
    index = log_file(tmp_path, kind="index").read_bytes()
    fresh = open_log(FileDisk(tmp_path / "fresh"), config=CONFIG)
    fill(fresh, 15)
    fresh.close_cleanly()
    assert index == log_file(tmp_path / "fresh", kind="index").read_bytes()


# --- a crash within a crash -------------------------------------------------------------------


def test_a_crash_between_any_two_steps_of_a_roll_loses_nothing_flushed() -> None:
    for changes in range(12):
        for seed in range(6):
            disk = SimDisk(Random(seed))
            log = open_log(disk, config=CONFIG)
            fill(log, 10)
            flush(log)
            fill(log, 2)
            disk.faults.changes_left = changes
            try:
                log.roll()
                fill(log, 2)
                flush(log)
                disk.faults.changes_left = None
            except PowerLost:
                pass
            flushed = log.flushed_offset
            disk.lose_power()
            log = open_log(disk, config=CONFIG)
            log.validate()
            assert log.log_end_offset >= flushed
            assert [offset for offset, _ in everything(log)] == list(range(log.log_end_offset))
            assert not [damage for damage in log.damage if damage.kind != "cut"]


def test_a_crash_between_any_two_steps_of_a_recovery_changes_nothing_flushed() -> None:
    for changes in range(25):
        for seed in range(6):
            disk = SimDisk(Random(seed))
            log = open_log(disk, config=CONFIG)
            fill(log, 10)
            flush(log)
            log.checkpoint()
            fill(log, 40)
            disk.lose_power()
            disk.faults.changes_left = changes
            try:
                fill(open_log(disk, config=CONFIG), 3)
            except PowerLost:
                pass
            disk.faults.changes_left = None
            disk.lose_power()
            log = open_log(disk, config=CONFIG)
            log.validate()
            assert log.log_end_offset >= 20
            assert [offset for offset, _ in everything(log)] == list(range(log.log_end_offset))
            assert not [damage for damage in log.damage if damage.kind != "cut"]
