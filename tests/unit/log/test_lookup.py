"""Offsets by timestamp."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.log.logs import a_batch, append, fill, open_log, settings

from tidelog.log import lookup
from tidelog.log.disk import DiskError
from tidelog.log.log import Log
from tidelog.model.ids import LeaderEpoch
from tidelog.runtime.file_disk import FileDisk
from tidelog.sim.disk import SimDisk
from tidelog.wire.compression import Compression
from tidelog.wire.records import Record, encode_batch

TIMES = [50, 40, 45, 60, 60, 10, 70, 65, 90, 20, 80, 90, 95, 30, 5]


def with_times(tmp_path: Path, *, per_batch: int, segment_bytes: int = 1024) -> Log:
    """Records of these timestamps, in this order, over and over, each time a thousand later."""
    config = settings(segment_bytes=segment_bytes)
    log = open_log(FileDisk(tmp_path), config=config)
    for start in range(0, 40 * len(TIMES), per_batch):
        numbers = range(start, min(start + per_batch, 40 * len(TIMES)))
        append(log, a_batch(timestamps=[time_of(number) for number in numbers]))
    return log


def time_of(number: int) -> int:
    return number // len(TIMES) * 1000 + TIMES[number % len(TIMES)]


@pytest.mark.parametrize("per_batch", [1, 4])
@pytest.mark.parametrize("segment_bytes", [1024, 1 << 20])
@pytest.mark.parametrize("is_reopened", [False, True])
def test_the_first_record_not_before_a_timestamp_is_found(
    tmp_path: Path, per_batch: int, segment_bytes: int, is_reopened: bool
) -> None:
    log = with_times(tmp_path, per_batch=per_batch, segment_bytes=segment_bytes)
    if is_reopened:
        log.close_cleanly()
        log = open_log(FileDisk(tmp_path), clean=True, config=log.settings)
    times = [time_of(number) for number in range(log.log_end_offset)]
    for asked in [*range(-1, 100), *range(990, 1100), *range(20_000, 20_100), 39_095]:
        found = log.offset_for_timestamp(asked)
        expected = next(number for number, time in enumerate(times) if time >= asked)
        assert found is not None
        assert (found.offset, found.timestamp) == (expected, times[expected])
    assert log.offset_for_timestamp(39_096) is None


def test_the_record_with_the_largest_timestamp_is_the_first_of_its_kind(tmp_path: Path) -> None:
    log = open_log(FileDisk(tmp_path), config=settings(segment_bytes=1024))
    fill(log, 20)
    append(log, a_batch(timestamps=[5000, 9000, 8000, 9000]))
    fill(log, 20)
    found = log.max_timestamp()
    assert found is not None
    assert (found.offset, found.timestamp) == (41, 9000)


def test_the_answer_carries_the_epoch_of_the_record(tmp_path: Path) -> None:
    log = open_log(FileDisk(tmp_path))
    append(log, a_batch(timestamps=[10]), epoch=3)
    append(log, a_batch(timestamps=[20]), epoch=5)
    assert log.offset_for_timestamp(10) == (0, 10, 3)
    assert log.offset_for_timestamp(11) == (1, 20, 5)


def test_a_compressed_batch_is_opened(tmp_path: Path) -> None:
    log = open_log(FileDisk(tmp_path))
    records = [Record(offset=0, timestamp=time, value=b"x" * 100) for time in (10, 20, 30)]
    batch = encode_batch(records, base_offset=0, compression=Compression.GZIP)
    log.append(memoryview(batch), leader_epoch=LeaderEpoch(0), now_ms=0)
    assert log.offset_for_timestamp(15) == (1, 20, 0)


def test_of_a_batch_that_will_not_open_the_first_offset_must_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = open_log(FileDisk(tmp_path))
    append(log, a_batch(timestamps=[1]))
    append(log, a_batch(timestamps=[10, 20, 30]))
    monkeypatch.setattr(lookup, "MAX_OPENED_BYTES", 10)
    assert log.offset_for_timestamp(15) == (1, 30, 0)


def test_records_without_timestamps_are_found_by_none(tmp_path: Path) -> None:
    log = open_log(FileDisk(tmp_path), config=settings(segment_bytes=1024))
    for _ in range(30):
        append(log, a_batch(timestamps=[-1, -1]))
    assert log.max_timestamp() is None
    assert log.offset_for_timestamp(0) is None


@pytest.mark.parametrize("entries", range(4))
def test_a_time_index_that_has_lost_entries_is_not_believed(tmp_path: Path, entries: int) -> None:
    log = with_times(tmp_path, per_batch=1)
    log.close_cleanly()
    for path in (tmp_path / "orders-0").glob("*.timeindex"):
        path.write_bytes(path.read_bytes()[: entries * 12])
    log = open_log(FileDisk(tmp_path), clean=True, config=log.settings)
    for number in range(0, log.log_end_offset, 11):
        found = log.offset_for_timestamp(time_of(number))
        assert found is not None
        assert found.offset == next(n for n in range(1000) if time_of(n) >= time_of(number))


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("byte", [0, 5, 7, 8, 10, 11])
def test_a_time_index_with_a_flipped_bit_hides_nothing(
    tmp_path: Path, clean: bool, byte: int
) -> None:
    """Of the segment in use: an entry that seems to lead beyond its end is damaged, not young."""
    times = [50, 40, 60, 55, 70, 10, 90, 20]
    config = settings(index_interval_bytes=0)
    log = open_log(FileDisk(tmp_path), config=config)
    for time in times:
        append(log, a_batch(timestamps=[time]))
    log.close_cleanly()
    (path,) = (tmp_path / "orders-0").glob("*.timeindex")
    (mark,) = (tmp_path / "orders-0").glob("flushed*")
    whole, flushed = path.read_bytes(), mark.read_bytes()
    assert len(whole) >= 3 * 12
    for entry in range(len(whole) // 12):
        for bit in range(8):
            damaged = bytearray(whole)
            damaged[entry * 12 + byte] ^= 1 << bit
            path.write_bytes(damaged)
            mark.write_bytes(flushed)
            log = open_log(FileDisk(tmp_path), clean=clean, config=config)
            found = [log.offset_for_timestamp(time) for time in times]
            expected = [next(n for n, late in enumerate(times) if late >= time) for time in times]
            assert [one.offset for one in found if one] == expected
            log.close_cleanly()


def test_a_look_up_that_the_disk_failed_does_not_spoil_the_next(sim_disk: SimDisk) -> None:
    """What a read error leaves half loaded is not taken for an index without timestamps."""
    config = settings(segment_bytes=1024)
    log = open_log(sim_disk, config=config)
    fill(log, 40)
    expected = log.offset_for_timestamp(1010)
    log.close_cleanly()
    again = open_log(sim_disk, config=config, clean=True)
    sim_disk.faults.read_error_rate = 0.5
    failures = 0
    for _ in range(20):
        try:
            assert again.offset_for_timestamp(1010) == expected
        except DiskError:
            failures += 1
    assert failures
    sim_disk.faults.heal()
    assert again.offset_for_timestamp(1010) == expected
    assert again.max_timestamp() == log.max_timestamp()
