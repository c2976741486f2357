"""A flip in a closed segment of a running log is found without a reader."""

from __future__ import annotations

from random import Random

import pytest
from tests.unit.log.cleaning import clean, close_segment, compacted, keyed, settle
from tests.unit.log.logs import append, fill, flush, open_log, read, settings

from tidelog.broker.scrubbing import SLICE_BYTES
from tidelog.log.log import Log
from tidelog.log.scrub import Scrub
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import Offset
from tidelog.sim.disk import SimDisk, SimFile


@pytest.fixture
def disk() -> SimDisk:
    return SimDisk(Random(1))


def a_log(disk: SimDisk) -> Log:
    log = open_log(disk, config=settings(segment_bytes=1000, retention_bytes=1))
    fill(log, 60)
    flush(log)
    assert len(log.closed_segments()) > 4
    return log


def flip(disk: SimDisk, log: Log, number: int, position: int) -> None:
    image = disk.files()[log.closed_segments()[number].file.path]
    image.cached[position] ^= 0x10


def scrub(log: Log, *, max_bytes: int = 300) -> int:
    """Returns the bytes checked."""
    work = Scrub(log)
    checked = 0
    while not work.is_finished:
        checked += work.step(max_bytes)
    assert not work.reports
    return checked


def test_a_sound_log_is_read_once_but_for_its_active_segment(disk: SimDisk) -> None:
    log = a_log(disk)
    assert scrub(log) == sum(segment.size for segment in log.closed_segments())
    assert not log.damage


@pytest.mark.parametrize("max_bytes", [1, 300, 1 << 20])
def test_a_flip_anywhere_is_found_though_this_process_wrote_it(
    disk: SimDisk, max_bytes: int
) -> None:
    log = a_log(disk)
    size = log.closed_segments()[0].size
    random = Random(2)
    for number in range(3):
        flip(disk, log, number, random.randrange(size))
    scrub(log, max_bytes=max_bytes)
    assert len(log.damage) == 3
    assert log.first_damaged_offset() == log.damage[0].first_offset
    scrub(log, max_bytes=max_bytes)
    assert len(log.damage) == 3, "it is reported once"


def test_a_file_that_was_cut_short_or_lengthened_is_found(disk: SimDisk) -> None:
    log = a_log(disk)
    first, second = log.closed_segments()[:2]
    del disk.files()[first.file.path].cached[-30:]
    second.size += 10
    disk.files()[second.file.path].cached += bytes(10)
    scrub(log)
    short, long = log.damage
    assert short.next_offset == first.end_offset
    assert not long.has_offsets


def test_a_segment_that_has_lost_its_end_is_reported_once(disk: SimDisk) -> None:
    log = a_log(disk)
    log.close_cleanly()
    segment = log.closed_segments()[1]
    (last, _), end = segment.cut_point(Offset(segment.end_offset - 1)), segment.end_offset
    del disk.files()[segment.file.path].cached[last:]
    log = open_log(disk, config=settings(segment_bytes=1000), clean=True)
    for _ in range(3):
        scrub(log)
        (damage,) = log.damage
        assert (damage.kind, damage.next_offset) == ("missing", end)
    assert read(log, damage.first_offset) is ErrorCode.CORRUPT_MESSAGE
    assert len(log.damage) == 1


def test_a_slice_is_as_small_as_asked(disk: SimDisk) -> None:
    log = a_log(disk)
    work = Scrub(log)
    batch = log.size_bytes() // 60
    while not work.is_finished:
        assert work.step(250) <= 250 + batch


@pytest.mark.parametrize("is_end_sound", [True, False])
def test_damage_that_reaches_far_is_sought_through_in_slices(
    disk: SimDisk, monkeypatch: pytest.MonkeyPatch, *, is_end_sound: bool
) -> None:
    log = open_log(disk, config=settings(segment_bytes=8 << 20))
    fill(log, 100, size=100_000)
    segment = log.closed_segments()[0]
    image = disk.files()[segment.file.path]
    end = segment.size - (300_000 if is_end_sound else 0)
    image.cached[250_000:end] = Random(3).randbytes(end - 250_000)
    read_at_once: list[int] = []
    read = SimFile.read

    def counted(file: SimFile, position: int, size: int) -> bytes:
        read_at_once[-1] += size
        return read(file, position, size)

    monkeypatch.setattr(SimFile, "read", counted)
    work, checked = Scrub(log), 0
    while not work.is_finished:
        read_at_once.append(0)
        checked += work.step(SLICE_BYTES)
    assert max(read_at_once) <= 1 << 20
    assert checked == sum(each.size for each in log.closed_segments())
    (damage,) = log.damage
    assert damage.position == segment.cut_point(Offset(damage.first_offset))[0] == 200_083
    assert (damage.end_position < segment.size) == is_end_sound


def test_what_a_reader_finds_while_the_scrub_seeks_is_reported_once(disk: SimDisk) -> None:
    log = open_log(disk, config=settings(segment_bytes=8 << 20))
    fill(log, 100, size=100_000)
    segment = log.closed_segments()[0]
    disk.files()[segment.file.path].cached[100:4_000_000] = bytes(3_999_900)
    work = Scrub(log)
    work.step(SLICE_BYTES)
    work.step(SLICE_BYTES)
    assert not log.damage
    assert read(log, 0) is ErrorCode.CORRUPT_MESSAGE
    while not work.is_finished:
        work.step(SLICE_BYTES)
    assert len(log.damage) == 1


@pytest.mark.parametrize("steps", [0, 1, 2, 5])
def test_what_is_deleted_cut_or_replaced_meanwhile_is_passed_over(
    disk: SimDisk, steps: int
) -> None:
    log = a_log(disk)
    work = Scrub(log)
    for _ in range(steps):
        work.step(200)
    log.apply_retention(1000)
    settle(log)
    work.step(200)
    log.truncate_to(Offset(log.log_start_offset + 1))
    work.step(200)
    fill(log, 40)
    while not work.is_finished:
        work.step(200)
    assert not log.damage
    assert not work.reports


def test_a_compacted_log_is_sound(disk: SimDisk) -> None:
    log = open_log(disk, config=compacted())
    for number in range(60):
        append(log, keyed([(b"key %d" % (number % 3), b"value %d" % number)]))
    close_segment(log)
    work = Scrub(log)
    work.step(200)
    clean(log)
    while not work.is_finished:
        work.step(200)
    scrub(log)
    assert not log.damage
    assert not work.reports
