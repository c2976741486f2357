"""Whatever happens to the bytes: nothing damaged is served, and damage costs only what it hit."""

from __future__ import annotations

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.log.logs import a_batch, append, flush, open_log, read
from tests.unit.log.logs import settings as log_settings

from tidelog.log.disk import FileSpan
from tidelog.log.log import Log
from tidelog.model.errors import ErrorCode
from tidelog.sim.disk import SimDisk
from tidelog.wire.batch import BatchHeader, iter_batches

CONFIG = log_settings(segment_bytes=1500, index_interval_bytes=150)
BATCHES = 24


def a_log(*, flushed: int, unflushed: int) -> tuple[SimDisk, dict[int, bytes]]:
    """A disk with a log of so many batches below and above the mark; each batch by offset."""
    disk = SimDisk(Random(0))
    log = open_log(disk, config=CONFIG)
    for number in range(flushed + unflushed):
        append(log, a_batch(number % 3 + 1, value=b"%d" % number * 9), epoch=number // 9)
        if number + 1 == flushed:
            flush(log)
            log.checkpoint()
            flush(log)
    return disk, contents(log)


def contents(log: Log) -> dict[int, bytes]:
    """Every batch that is served, by base offset; every offset is asked for."""
    batches: dict[int, bytes] = {}
    for offset in range(log.log_end_offset):
        span = read(log, offset)
        if isinstance(span, FileSpan):
            for header, batch in iter_batches(memoryview(span.read())):
                batches[header.base_offset] = bytes(batch)
        else:
            assert span is ErrorCode.CORRUPT_MESSAGE
    return batches


def positions(disk: SimDisk) -> list[tuple[str, int, BatchHeader]]:
    """Where each batch lies."""
    found = []
    for path, image in disk.files().items():
        if path.endswith(".log"):
            position = 0
            for header, _ in iter_batches(memoryview(bytes(image.cached))):
                found.append((path, position, header))
                position += header.size
    return found


@settings(max_examples=150, deadline=None)
@given(data=st.data(), clean=st.booleans())
def test_a_flipped_bit_below_the_mark_costs_one_batch(data: st.DataObject, clean: bool) -> None:
    disk, before = a_log(flushed=BATCHES, unflushed=0)
    if clean:
        open_log(disk, config=CONFIG).close_cleanly()
    path, position, header = data.draw(st.sampled_from(positions(disk)))
    byte = data.draw(st.integers(0, header.size - 1))
    disk.files()[path].cached[position + byte] ^= 1 << data.draw(st.integers(0, 7))
    log = open_log(disk, clean=clean, config=CONFIG)
    after = contents(log)
    log.validate()
    assert log.log_end_offset == sum(h.records_count for _, _, h in positions_of(before))
    assert {base: after[base] for base in after} == {base: before[base] for base in after}
    assert sorted(set(before) - set(after)) == [header.base_offset]
    assert log.damage


def positions_of(batches: dict[int, bytes]) -> list[tuple[str, int, BatchHeader]]:
    return [("", 0, next(iter_batches(memoryview(batch)))[0]) for batch in batches.values()]


@settings(max_examples=150, deadline=None)
@given(data=st.data(), clean=st.booleans())
def test_overwritten_bytes_below_the_mark_cost_only_the_batches_they_hit(
    data: st.DataObject, clean: bool
) -> None:
    disk, before = a_log(flushed=BATCHES, unflushed=0)
    if clean:
        open_log(disk, config=CONFIG).close_cleanly()
    where = positions(disk)
    path = data.draw(st.sampled_from(sorted({path for path, _, _ in where})))
    image = disk.files()[path].cached
    start = data.draw(st.integers(0, len(image) - 1))
    end = data.draw(st.integers(start + 1, min(len(image), start + 600)))
    garbage = data.draw(st.sampled_from([bytes(end - start), Random(start).randbytes(end - start)]))
    hit = {
        header.base_offset
        for at, position, header in where
        if at == path and position < end and position + header.size > start
    }
    image[start:end] = garbage
    log = open_log(disk, clean=clean, config=CONFIG)
    after = contents(log)
    log.validate()
    assert {base: after[base] for base in after} == {base: before[base] for base in after}
    assert set(before) - set(after) <= hit
    assert log.log_end_offset == sum(h.records_count for _, _, h in positions_of(before))
    append(log, a_batch(), epoch=BATCHES)
    assert contents(log).keys() >= after.keys()


@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_a_log_cut_short_anywhere_is_a_prefix_and_never_below_the_mark(
    data: st.DataObject,
) -> None:
    disk, before = a_log(flushed=10, unflushed=10)
    paths = [path for path in disk.files() if path.endswith(".log")]
    path = data.draw(st.sampled_from(paths))
    image = disk.files()[path].cached
    del image[data.draw(st.integers(0, len(image))) :]
    log = open_log(disk, config=CONFIG)
    after = contents(log)
    log.validate()
    flushed = sum(header.records_count for _, _, header in positions_of(before)[:10])
    assert log.log_end_offset >= flushed
    assert {base: after[base] for base in after} == {base: before[base] for base in after}
    above = [base for base in before if base >= flushed]
    kept = [base for base in after if base >= flushed]
    assert kept == above[: len(kept)]


@settings(max_examples=100, deadline=None)
@given(data=st.data(), clean=st.booleans())
def test_damage_to_other_files_costs_nothing(data: st.DataObject, clean: bool) -> None:
    disk, before = a_log(flushed=BATCHES, unflushed=0)
    log = open_log(disk, config=CONFIG)
    log.close_cleanly()
    by_time = [log.offset_for_timestamp(time) for time in range(999, 1005)]
    kinds = (".index", ".timeindex", ".snapshot", "-checkpoint")
    paths = [path for path in disk.files() if path.endswith(kinds)]
    for path in data.draw(st.lists(st.sampled_from(paths), min_size=1, max_size=4, unique=True)):
        image = disk.files()[path].cached
        how = data.draw(st.sampled_from(["gone", "cut", "flipped", "zeros", "longer"]))
        if how == "gone":
            disk.take_away(path)
        elif how == "cut":
            del image[data.draw(st.integers(0, len(image))) :]
        elif how == "flipped" and image:
            image[data.draw(st.integers(0, len(image) - 1))] ^= 1 << data.draw(st.integers(0, 7))
        elif how == "zeros":
            image[:] = bytes(len(image))
        else:
            image.extend(Random(1).randbytes(data.draw(st.integers(1, 40))))
    again = open_log(disk, clean=clean, config=CONFIG)
    assert contents(again) == before
    assert again.producers == log.producers
    assert again.epochs.entries() == log.epochs.entries()
    assert [again.offset_for_timestamp(time) for time in range(999, 1005)] == by_time
    assert not again.damage
