"""What the log deletes is closed at once, so that the disk has its room back: on real files."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from pathlib import Path
from weakref import ref

import pytest
from tests.support.open_files import deleted_but_open
from tests.unit.log.cleaning import clean, close_segment, compacted, keyed, settle
from tests.unit.log.logs import append, fill, flush, open_log, read, settings

from tidelog.log.cleaner import Cleaning
from tidelog.log.disk import FileSpan
from tidelog.log.log import Log
from tidelog.model.ids import Offset
from tidelog.runtime.file_disk import FileDisk


@pytest.fixture(autouse=True)
def _without_collector() -> Iterator[None]:
    """Nothing may depend on when Python looks for cycles."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def a_log(directory: Path) -> Log:
    """Of several segments, all of whose files have been read."""
    log = open_log(FileDisk(directory), config=settings(segment_bytes=600, retention_ms=50))
    fill(log, 10)
    settle(log)
    for offset in range(10):
        assert isinstance(read(log, offset), FileSpan)
    log.offset_for_timestamp(1005)
    assert len(log._segments) > 3
    return log


def test_retention_closes_what_it_deletes(tmp_path: Path) -> None:
    log = a_log(tmp_path)
    first = ref(log._segments[0])
    assert log.apply_retention(1070)
    settle(log)
    assert deleted_but_open(tmp_path) == []
    assert first() is None, "nothing refers to the segment any more"


def test_truncation_closes_what_it_deletes(tmp_path: Path) -> None:
    log = a_log(tmp_path)
    log.truncate_to(Offset(3))
    assert deleted_but_open(tmp_path) == []
    log.start_at(Offset(100))
    assert deleted_but_open(tmp_path) == []


def test_a_deleted_topic_is_closed(tmp_path: Path) -> None:
    log = a_log(tmp_path)
    log.directory.disk.delete(log.directory.path)
    assert deleted_but_open(tmp_path) == []
    assert os.listdir(tmp_path) == []


def test_compaction_closes_what_it_replaces(tmp_path: Path) -> None:
    log = open_log(FileDisk(tmp_path), config=compacted())
    for number in range(40):
        append(log, keyed([(b"key", b"value %d" % number)]))
    close_segment(log)
    size = log.size_bytes()
    clean(log)
    assert log.size_bytes() < size / 2
    assert deleted_but_open(tmp_path) == []


def test_a_response_under_way_keeps_what_it_needs_and_no_longer(tmp_path: Path) -> None:
    log = a_log(tmp_path)
    span = read(log, 0)
    assert isinstance(span, FileSpan)
    data = span.read()
    log.apply_retention(1070)
    settle(log)
    assert len(deleted_but_open(tmp_path)) == 1
    assert span.read() == data
    del span
    assert deleted_but_open(tmp_path) == []


@pytest.mark.parametrize("steps", range(0, 40, 3))
def test_compaction_gives_up_on_segments_that_retention_deletes(tmp_path: Path, steps: int) -> None:
    config = compacted(cleanup_policy="compact,delete", retention_bytes=1)
    log = open_log(FileDisk(tmp_path), config=config)
    for number in range(40):
        append(log, keyed([(b"key %d" % number, b"value")]))
    close_segment(log)
    cleaning = Cleaning(log, limit_offset=log.log_end_offset, buffer_bytes=1 << 20)
    for _ in range(steps):
        cleaning.step(1000, 1)
    log.apply_retention(1000)
    while not cleaning.step(1000, 1):
        flush(log)
    settle(log)
    assert not cleaning.reports
    assert deleted_but_open(tmp_path) == []
    log.validate()
