"""Reads: which batches, how many, and what is not served."""

from __future__ import annotations

from pathlib import Path

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

from tidelog.log.disk import FileSpan
from tidelog.log.log import Log
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import Offset
from tidelog.model.safeguards import ALL_SAFEGUARDS, Safeguard
from tidelog.runtime.file_disk import FileDisk


def reopened(tmp_path: Path, log: Log) -> Log:
    """After a clean stop: nothing is in memory but what reads bring."""
    log.close_cleanly()
    return open_log(FileDisk(tmp_path), clean=True, config=log.settings)


def flip(tmp_path: Path, position: int, *, base: int = 0) -> None:
    path = tmp_path / "orders-0" / f"{base:020d}.log"
    data = bytearray(path.read_bytes())
    data[position] ^= 0x40
    path.write_bytes(data)


@pytest.mark.parametrize("is_reopened", [False, True])
def test_a_read_begins_with_the_batch_that_holds_the_offset(
    tmp_path: Path, is_reopened: bool
) -> None:
    log = open_log(FileDisk(tmp_path))
    fill(log, 300, count=3)
    if is_reopened:
        log = reopened(tmp_path, log)
    for offset in range(900):
        headers = headers_in(read(log, offset, max_bytes=500))
        assert headers[0].base_offset == offset // 3 * 3


@pytest.mark.parametrize("is_reopened", [False, True])
@pytest.mark.parametrize("max_bytes", [1, 200, 1000, 5000, 100_000])
def test_reads_one_after_the_other_give_every_batch_once(
    tmp_path: Path, max_bytes: int, is_reopened: bool
) -> None:
    log = open_log(FileDisk(tmp_path), config=settings(segment_bytes=20_000))
    fill(log, 400, count=2)
    if is_reopened:
        log = reopened(tmp_path, log)
    offset = 0
    while offset < log.log_end_offset:
        span = read(log, offset, max_bytes=max_bytes)
        headers = headers_in(span)
        assert isinstance(span, FileSpan)
        assert len(headers) == 1 or span.size <= max_bytes
        assert headers[0].base_offset == offset
        offset = headers[-1].next_offset


@pytest.mark.parametrize("is_reopened", [False, True])
def test_a_read_takes_as_many_batches_as_fit(tmp_path: Path, is_reopened: bool) -> None:
    log = open_log(FileDisk(tmp_path))
    fill(log, 300)
    size = log.size_bytes() // 300
    if is_reopened:
        log = reopened(tmp_path, log)
    for start in range(0, 250, 7):
        for fitting in (1, 2, 30):
            span = read(log, start * 2, max_bytes=fitting * size + size - 1)
            assert len(headers_in(span)) == fitting


def test_without_at_least_one_a_batch_too_large_is_not_answered(tmp_path: Path) -> None:
    log = open_log(FileDisk(tmp_path))
    fill(log, 200)
    for current in (log, reopened(tmp_path, log)):
        for offset in (0, 100, 398):
            span = current.read(
                Offset(offset), max_bytes=10, limit_offset=Offset(400), at_least_one=False
            )
            assert span is None


@pytest.mark.parametrize("is_reopened", [False, True])
def test_nothing_at_or_beyond_the_limit_is_read(tmp_path: Path, is_reopened: bool) -> None:
    log = open_log(FileDisk(tmp_path), config=settings(segment_bytes=20_000))
    fill(log, 200)
    if is_reopened:
        log = reopened(tmp_path, log)
    for limit in range(0, 400, 2):
        assert read(log, limit, limit=limit) is None
        if limit:
            assert headers_in(read(log, limit - 1, limit=limit))[-1].next_offset == limit
            early = headers_in(read(log, max(0, limit - 30), limit=limit))
            assert early[-1].next_offset <= limit


def test_a_limit_within_a_batch_leaves_the_batch_out(tmp_path: Path) -> None:
    log = open_log(FileDisk(tmp_path))
    append(log, a_batch(2))
    append(log, a_batch(3))
    assert offsets_in(read(log, 0, limit=4)) == [0]
    assert read(log, 2, limit=4) is None


def test_offsets_outside_the_log_are_out_of_range(tmp_path: Path) -> None:
    log = open_log(FileDisk(tmp_path))
    fill(log, 3)
    assert read(log, -1) is ErrorCode.OFFSET_OUT_OF_RANGE
    assert read(log, 7) is ErrorCode.OFFSET_OUT_OF_RANGE
    assert read(log, 6) is None


def test_a_deleted_segment_stays_readable_for_whoever_holds_a_span(tmp_path: Path) -> None:
    disk = FileDisk(tmp_path)
    log = open_log(disk)
    fill(log, 3)
    span = read(log, 0)
    disk.delete("orders-0")
    assert offsets_in(span) == [0, 2, 4]


def test_a_missing_index_is_rebuilt_when_it_is_needed(tmp_path: Path) -> None:
    log = open_log(FileDisk(tmp_path), config=settings(segment_bytes=20_000))
    fill(log, 400)
    log.close_cleanly()
    before = {path: path.read_bytes() for path in (tmp_path / "orders-0").glob("*index")}
    for path in before:
        path.unlink()
    log = open_log(FileDisk(tmp_path), clean=True, config=log.settings)
    assert [offset for offset, _ in everything(log)] == list(range(800))
    assert log.offset_for_timestamp(1003) is not None
    log.checkpoint()
    assert {path: path.read_bytes() for path in before} == before
    assert not log.damage


def test_an_index_that_leads_astray_is_not_followed(tmp_path: Path) -> None:
    log = open_log(FileDisk(tmp_path))
    fill(log, 400)
    log.close_cleanly()
    path = tmp_path / "orders-0" / f"{0:020d}.index"
    right = path.read_bytes()
    for position in range(3, 200, 7):
        wrong = bytearray(right)
        wrong[position] ^= 0x10
        path.write_bytes(wrong)
        log = open_log(FileDisk(tmp_path), clean=True)
        for offset in range(0, 800, 19):
            assert headers_in(read(log, offset, max_bytes=700))[0].base_offset == offset // 2 * 2
        assert not log.damage


# --- damage -----------------------------------------------------------------------------------


def test_damaged_bytes_are_not_served_and_what_lies_around_them_is(tmp_path: Path) -> None:
    log = open_log(FileDisk(tmp_path))
    fill(log, 100)
    size = log.size_bytes() // 100
    log.close_cleanly()
    flip(tmp_path, 40 * size + 70)
    log = open_log(FileDisk(tmp_path), clean=True)
    before = headers_in(read(log, 10))
    assert (before[0].base_offset, before[-1].next_offset) == (10, 80)
    assert read(log, 80) is ErrorCode.CORRUPT_MESSAGE
    assert read(log, 81) is ErrorCode.CORRUPT_MESSAGE
    after = headers_in(read(log, 82))
    assert (after[0].base_offset, after[-1].next_offset) == (82, 200)
    (damage,) = log.damage
    assert (damage.first_offset, damage.next_offset) == (80, 82)
    assert (damage.position, damage.end_position) == (40 * size, 41 * size)
    assert (tmp_path / "orders-0" / f"{0:020d}.log").stat().st_size == 100 * size


def test_damage_is_reported_once(tmp_path: Path) -> None:
    log = open_log(FileDisk(tmp_path))
    fill(log, 20)
    log.close_cleanly()
    flip(tmp_path, 100)
    log = open_log(FileDisk(tmp_path), clean=True)
    for _ in range(3):
        assert read(log, 0) is ErrorCode.CORRUPT_MESSAGE
        assert read(log, 2) is not ErrorCode.CORRUPT_MESSAGE
    assert len(log.damage) == 1
    assert "offsets 0 to 1" in str(log.damage[0])


def test_a_flip_anywhere_in_a_batch_is_noticed_and_costs_only_that_batch(tmp_path: Path) -> None:
    log = open_log(FileDisk(tmp_path))
    fill(log, 60)
    size = log.size_bytes() // 60
    log.close_cleanly()
    for byte in range(size):
        flip(tmp_path, 30 * size + byte)
        log = open_log(FileDisk(tmp_path), clean=True)
        assert headers_in(read(log, 0))[-1].next_offset == 60
        assert read(log, 60) is ErrorCode.CORRUPT_MESSAGE
        assert read(log, 61) is ErrorCode.CORRUPT_MESSAGE
        assert headers_in(read(log, 62))[-1].next_offset == 120
        assert [(damage.first_offset, damage.next_offset) for damage in log.damage] == [(60, 62)]
        flip(tmp_path, 30 * size + byte)


def test_damage_in_the_last_batch_does_not_shorten_the_log(tmp_path: Path) -> None:
    log = open_log(FileDisk(tmp_path))
    fill(log, 20)
    size = log.size_bytes() // 20
    log.close_cleanly()
    flip(tmp_path, 19 * size + 9)
    log = open_log(FileDisk(tmp_path), clean=True)
    assert log.log_end_offset == 40
    assert read(log, 38) is ErrorCode.CORRUPT_MESSAGE
    assert headers_in(read(log, 0))[-1].next_offset == 38
    assert append(log, a_batch()).base_offset == 40
    assert offsets_in(read(log, 40)) == [40]
    flush(log)
    log.validate()


def test_what_this_process_wrote_is_not_read_twice(tmp_path: Path) -> None:
    log = open_log(FileDisk(tmp_path))
    fill(log, 20)
    flip(tmp_path, 100)
    assert offsets_in(read(log, 0))[0] == 0


def test_without_the_safeguard_damage_is_served(tmp_path: Path) -> None:
    log = open_log(FileDisk(tmp_path))
    fill(log, 20)
    log.close_cleanly()
    flip(tmp_path, 100)
    without = ALL_SAFEGUARDS - {Safeguard.CRC_ON_FETCH}
    log = open_log(FileDisk(tmp_path), clean=True, safeguards=without)
    assert isinstance(read(log, 0), FileSpan)
