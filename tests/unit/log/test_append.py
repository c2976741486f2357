"""What may be appended, what becomes of it, and what a full disk does to it."""

from __future__ import annotations

import errno
from pathlib import Path

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
    together,
)

from tidelog.log.disk import Buffer, DiskFull
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import LeaderEpoch
from tidelog.runtime.file_disk import FileDisk
from tidelog.sim.disk import SimDisk
from tidelog.wire.batch import CONTROL_BIT, TIMESTAMP_TYPE_BIT, TRANSACTIONAL_BIT, read_header, seal


def altered(batch: memoryview, position: int, data: bytes, *, sealed: bool = True) -> memoryview:
    batch[position : position + len(data)] = data
    if sealed:
        seal(batch)
    return batch


def int32(number: int) -> bytes:
    return number.to_bytes(4, "big", signed=True)


def test_offsets_follow_on_and_the_answer_names_them(tmp_path: Path) -> None:
    log = open_log(FileDisk(tmp_path))
    first = append(log, a_batch(3))
    second = append(log, a_batch(2))
    assert (first.error, first.base_offset, first.last_offset) == (ErrorCode.NONE, 0, 2)
    assert (second.base_offset, second.last_offset, second.log_start_offset) == (3, 4, 0)
    assert log.log_end_offset == 5
    log.validate()


def test_offset_and_leader_epoch_are_stamped_and_nothing_else(tmp_path: Path) -> None:
    log = open_log(FileDisk(tmp_path))
    append(log, a_batch(3))
    sent = a_batch(2, value=b"payload")
    copy = bytes(sent)
    log.append(sent, leader_epoch=LeaderEpoch(7), now_ms=0)
    stored = bytes(read(log, 3).read())  # type: ignore[union-attr]
    assert (read_header(stored).base_offset, read_header(stored).leader_epoch) == (3, 7)
    assert stored[16:] == copy[16:]
    assert stored[8:12] == copy[8:12]


def test_a_deposed_leader_appends_nothing(tmp_path: Path) -> None:
    log = open_log(FileDisk(tmp_path))
    append(log, a_batch(), epoch=3)
    assert append(log, a_batch(), epoch=2).error is ErrorCode.FENCED_LEADER_EPOCH
    assert append(log, a_batch(), epoch=3).base_offset == 1


def test_several_batches_of_one_request_are_one_write(tmp_path: Path) -> None:
    log = open_log(FileDisk(tmp_path))
    result = append(log, a_batch(2), a_batch(3), a_batch(1))
    assert (result.base_offset, result.last_offset) == (0, 5)
    assert offsets_in(read(log, 0)) == [0, 2, 5]


@pytest.mark.parametrize(
    ("batch", "error"),
    [
        (a_batch()[:40], ErrorCode.CORRUPT_MESSAGE),
        (a_batch()[:-1], ErrorCode.CORRUPT_MESSAGE),
        (altered(a_batch(), 65, b"\xff", sealed=False), ErrorCode.CORRUPT_MESSAGE),
        (altered(a_batch(), 8, int32(10)), ErrorCode.CORRUPT_MESSAGE),
        (altered(a_batch(), 8, int32(-1)), ErrorCode.CORRUPT_MESSAGE),
        (altered(a_batch(), 16, b"\x01"), ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT),
        (altered(a_batch(), 16, b"\x03"), ErrorCode.CORRUPT_MESSAGE),
        (altered(a_batch(), 57, int32(0)), ErrorCode.INVALID_RECORD),
        (altered(a_batch(), 57, int32(2)), ErrorCode.INVALID_RECORD),
        (altered(a_batch(), 23, int32(-1)), ErrorCode.INVALID_RECORD),
        (altered(a_batch(), 22, bytes([CONTROL_BIT])), ErrorCode.INVALID_RECORD),
        (altered(a_batch(), 22, bytes([TRANSACTIONAL_BIT])), ErrorCode.INVALID_TXN_STATE),
        (altered(a_batch(), 22, bytes([TIMESTAMP_TYPE_BIT])), ErrorCode.INVALID_TIMESTAMP),
        (altered(a_batch(), 22, b"\x05"), ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        (a_batch(producer=(5, -1, 0)), ErrorCode.INVALID_RECORD),
        (a_batch(producer=(5, 0, -1)), ErrorCode.INVALID_RECORD),
        (a_batch(producer=(-2, 0, 0)), ErrorCode.INVALID_RECORD),
        (a_batch(value=b"x" * 2000), ErrorCode.MESSAGE_TOO_LARGE),
        (memoryview(bytearray()), ErrorCode.INVALID_RECORD),
    ],
)
def test_a_bad_batch_is_refused_and_takes_its_request_with_it(
    tmp_path: Path, batch: memoryview, error: ErrorCode
) -> None:
    log = open_log(FileDisk(tmp_path), config=settings(max_message_bytes=1000))
    append(log, a_batch(2))
    assert append(log, batch).error is error
    if len(batch):
        assert append(log, a_batch(), batch).error is error
    assert log.log_end_offset == 2
    assert append(log, a_batch()).base_offset == 2


def test_a_refusal_names_no_offset(tmp_path: Path) -> None:
    refused = append(open_log(FileDisk(tmp_path)), a_batch()[:40])
    assert (refused.base_offset, refused.last_offset, refused.log_start_offset) == (-1, -1, -1)


def test_a_request_larger_than_a_segment_is_refused(tmp_path: Path) -> None:
    log = open_log(FileDisk(tmp_path), config=settings(segment_bytes=1024))
    batches = [a_batch(value=b"x" * 400) for _ in range(3)]
    assert append(log, *batches).error is ErrorCode.RECORD_LIST_TOO_LARGE


def test_a_full_segment_makes_room_for_the_next(tmp_path: Path) -> None:
    log = open_log(FileDisk(tmp_path), config=settings(segment_bytes=2000))
    fill(log, 30)
    names = sorted(path.name for path in (tmp_path / "orders-0").glob("*.log"))
    assert names[0] == "00000000000000000000.log"
    assert len(names) > 2
    assert all(path.stat().st_size <= 2000 for path in (tmp_path / "orders-0").glob("*.log"))
    assert [offset for offset, _ in everything(log)] == list(range(60))
    log.validate()


def test_a_segment_is_closed_when_its_first_record_is_too_old(tmp_path: Path) -> None:
    log = open_log(FileDisk(tmp_path), config=settings(segment_ms=1000))
    append(log, a_batch(timestamps=[5000]))
    append(log, a_batch(timestamps=[6000]))
    assert len(log.describe()["segments"]) == 1
    append(log, a_batch(timestamps=[6001]))
    assert [segment["base_offset"] for segment in log.describe()["segments"]] == [0, 2]


def test_records_without_a_timestamp_age_by_the_clock(tmp_path: Path) -> None:
    log = open_log(FileDisk(tmp_path), config=settings(segment_ms=1000))
    append(log, a_batch(timestamps=[-1]), now_ms=100)
    append(log, a_batch(timestamps=[-1]), now_ms=1100)
    append(log, a_batch(timestamps=[-1]), now_ms=1101)
    assert [segment["base_offset"] for segment in log.describe()["segments"]] == [0, 2]


def test_a_full_disk_refuses_an_append_whole_and_takes_the_next_after_room_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = open_log(FileDisk(tmp_path))
    append(log, a_batch(2, producer=(5, 0, 0)))
    file = type(log._active.file)
    whole_write = file.write

    def half_write(self: object, position: int, parts: list[Buffer]) -> None:
        whole_write(self, position, [b"".join(parts)[:100]])  # type: ignore[arg-type]
        raise DiskFull(f"{errno.ENOSPC}")

    monkeypatch.setattr(file, "write", half_write)
    with pytest.raises(DiskFull):
        append(log, a_batch(2, producer=(5, 0, 2)), a_batch(1, producer=(5, 0, 4)))
    monkeypatch.undo()
    log.validate()
    assert log.log_end_offset == 2
    assert (tmp_path / "orders-0" / f"{0:020d}.log").stat().st_size == log.size_bytes()
    again = append(log, a_batch(2, producer=(5, 0, 2)), a_batch(1, producer=(5, 0, 4)))
    assert (again.base_offset, again.last_offset, again.is_duplicate) == (2, 4, False)


def test_a_disk_that_fills_up_during_a_roll_leaves_the_log_as_it_was(sim_disk: SimDisk) -> None:
    log = open_log(sim_disk, config=settings(segment_bytes=2000))
    fill(log, 10)
    flush(log)
    end = log.log_end_offset
    for room in range(0, 6 * 512, 512):
        sim_disk.faults.capacity_bytes = sim_disk.used_bytes() + room
        try:
            while True:
                append(log, a_batch(2))
        except DiskFull:
            pass
        log.validate()
    sim_disk.faults.heal()
    grown = int(log.log_end_offset)
    assert append(log, a_batch(2)).base_offset == grown
    flush(log)
    assert [offset for offset, _ in everything(log)] == list(range(grown + 2))
    assert grown > end
    reopened = open_log(sim_disk, config=settings(segment_bytes=2000))
    assert reopened.log_end_offset == log.log_end_offset
    assert not reopened.damage


def test_the_callers_buffer_may_be_reused(tmp_path: Path) -> None:
    log = open_log(FileDisk(tmp_path))
    buffer = together(a_batch(1, value=b"first"))
    log.append(buffer, leader_epoch=LeaderEpoch(0), now_ms=0)
    buffer[:] = bytes(len(buffer))
    assert everything(log) == [(0, b"first")]
