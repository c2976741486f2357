"""Bytes behind the last batch of a closed segment: no part of the log, whatever they look like."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from tests.support.stamping import stamp
from tests.unit.log.cleaning import clean, compacted, keyed, latest, records_of, settle
from tests.unit.log.logs import (
    EPOCH,
    a_batch,
    append,
    everything,
    fill,
    flush,
    open_log,
    read,
    settings,
    together,
)

from tidelog.log.disk import FileSpan
from tidelog.log.log import Log
from tidelog.model.ids import Offset
from tidelog.runtime.file_disk import FileDisk

_SEGMENT = 1


def segment_path(directory: Path, number: int = _SEGMENT) -> Path:
    return sorted((directory / "orders-0").glob("*.log"))[number]


def random_bytes(path: Path, next_path: Path) -> bytes:
    return Random(1).randbytes(300)


def zeros(path: Path, next_path: Path) -> bytes:
    return bytes(300)


def a_stray_batch(path: Path, next_path: Path) -> bytes:
    """Whole and valid, with the offset that is due: that of the next segment's first batch."""
    batch = bytearray(a_batch(2, value=b"stray"))
    stamp(memoryview(batch), Offset(int(next_path.stem)), EPOCH)
    return bytes(batch)


def its_own_last_bytes(path: Path, next_path: Path) -> bytes:
    return path.read_bytes()[-100:]


GARBAGE = [random_bytes, zeros, a_stray_batch, its_own_last_bytes]


def a_log(tmp_path: Path, *, is_clean: bool) -> Log:
    log = open_log(FileDisk(tmp_path), config=settings(segment_bytes=1000))
    fill(log, 40)
    flush(log)
    log.checkpoint()
    flush(log)
    if is_clean:
        log.close_cleanly()
    return log


@pytest.mark.parametrize("garbage", GARBAGE)
@pytest.mark.parametrize("is_clean", [False, True])
def test_they_cost_no_offset_and_are_reported_once(
    tmp_path: Path, garbage: object, is_clean: bool
) -> None:
    log = a_log(tmp_path, is_clean=is_clean)
    before = everything(log)
    path, next_path = segment_path(tmp_path), segment_path(tmp_path, _SEGMENT + 1)
    data = path.read_bytes()
    assert callable(garbage)
    path.write_bytes(data + garbage(path, next_path))
    log = open_log(FileDisk(tmp_path), clean=is_clean, config=log.settings)
    for _ in range(2):
        assert everything(log) == before
        assert log.first_damaged_offset() is None
    for offset in range(len(before)):
        span = read(log, offset)
        assert isinstance(span, FileSpan)
    (damage,) = log.damage
    assert (damage.position, damage.first_offset) == (len(data), int(next_path.stem))
    assert not damage.has_offsets
    said = "no offsets: extra bytes after the segment's last batch; no records affected"
    assert str(damage).endswith(said)
    log.validate()


def test_a_log_cut_before_them_goes_on_without_them(tmp_path: Path) -> None:
    log = a_log(tmp_path, is_clean=True)
    path, next_path = segment_path(tmp_path), segment_path(tmp_path, _SEGMENT + 1)
    path.write_bytes(path.read_bytes() + bytes(300))
    log = open_log(FileDisk(tmp_path), clean=True, config=log.settings)
    log.truncate_to(Offset(int(next_path.stem) - 2))
    append(log, together(a_batch(2), a_batch(1)))
    log.close_cleanly()
    again = open_log(FileDisk(tmp_path), clean=True, config=log.settings)
    assert [offset for offset, _ in everything(again)] == list(range(again.log_end_offset))
    assert not again.damage


def test_a_segment_with_them_is_compacted(tmp_path: Path) -> None:
    log = open_log(FileDisk(tmp_path), config=compacted())
    for number in range(40):
        append(log, keyed([(b"key %d" % (number % 3), b"value %d" % number)]))
    settle(log)
    log.close_cleanly()
    wanted = latest(records_of(log))
    path = segment_path(tmp_path, 0)
    path.write_bytes(path.read_bytes() + bytes(300))
    log = open_log(FileDisk(tmp_path), clean=True, config=log.settings)
    size = log.size_bytes()
    clean(log)
    assert log.size_bytes() < size - 300
    assert latest(records_of(log)) == wanted
    assert len(log.damage) == 1
