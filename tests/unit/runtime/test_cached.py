"""What the page cache has, as the kernel tells it, and the threads that fill it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest

from tidelog.broker.effects import ReadRange
from tidelog.broker.events import RangeRead
from tidelog.log.disk import DiskError, NotInMemory
from tidelog.runtime import cached
from tidelog.runtime.file_disk import FileDisk, OpenFile
from tidelog.runtime.range_readers import RangeReaders

SIZE = 3 * cached.SAMPLED_EVERY_BYTES + 100
WAIT_S = 60.0


@pytest.fixture
def file(tmp_path: Path) -> OpenFile:
    file = FileDisk(tmp_path).open("log", create=True)
    file.write(0, [bytes(range(256)) * (SIZE // 256 + 1)])
    file.truncate(SIZE)
    return file


@pytest.fixture
def cold(file: OpenFile, monkeypatch: pytest.MonkeyPatch) -> OpenFile:
    """The same, as if the kernel had forgotten it, until it is read through."""
    plain, send, is_loaded = os.preadv, os.sendfile, False

    def preadv(descriptor: int, buffers: Any, position: int, flags: int = 0) -> int:
        if flags and position < SIZE and not is_loaded:
            raise BlockingIOError
        return plain(descriptor, buffers, position, flags)

    def sendfile(target: int, source: int, position: int, count: int) -> int:
        nonlocal is_loaded
        is_loaded = True
        return send(target, source, position, count)

    monkeypatch.setattr(os, "preadv", preadv)
    monkeypatch.setattr(os, "sendfile", sendfile)
    file.disk.reads_may_block = False
    return file


@pytest.mark.parametrize("size", [0, 1, 61, cached.COPIED_BYTES, cached.COPIED_BYTES + 1, SIZE])
def test_what_was_just_written_is_read_at_once(file: OpenFile, size: int) -> None:
    file.disk.reads_may_block = False
    file.require(0, size)
    assert file.read(7, size) == file.read_waiting(7, size)


@pytest.mark.parametrize("size", [50, 200, cached.COPIED_BYTES + 1])
def test_the_end_of_a_file_is_no_reason_to_wait(file: OpenFile, size: int) -> None:
    file.disk.reads_may_block = False
    file.require(SIZE - 50, size)
    assert len(file.read(SIZE - 50, size)) == 50
    assert file.read(SIZE, size) == b""


@pytest.mark.parametrize("size", [61, cached.COPIED_BYTES + 1])
def test_what_is_not_in_memory_is_not_waited_for(cold: OpenFile, size: int) -> None:
    with pytest.raises(NotInMemory) as missing:
        cold.read(SIZE - size, size)
    assert (missing.value.file, missing.value.position) == (cold, SIZE - size)
    cold.disk.reads_may_block = True
    assert len(cold.read(SIZE - size, size)) == size


def test_a_range_is_looked_at_in_between_and_to_its_end(
    file: OpenFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One block of the size of the kernel's read-ahead is not in memory."""
    hole = range(cached.SAMPLED_EVERY_BYTES, 2 * cached.SAMPLED_EVERY_BYTES)

    def preadv(descriptor: int, buffers: Any, position: int, flags: int) -> int:
        if position in hole:
            raise BlockingIOError
        return 1

    monkeypatch.setattr(os, "preadv", preadv)
    descriptor = file.disk.begin_use(file)
    assert cached.has(descriptor, 0, hole.start)
    assert not cached.has(descriptor, 0, hole.start + 1)
    assert not cached.has(descriptor, 0, SIZE)
    assert not cached.has(descriptor, hole.start - 10, hole.stop)
    assert cached.has(descriptor, hole.stop, SIZE - hole.stop)


def test_what_was_loaded_is_read_at_once(cold: OpenFile) -> None:
    cold.load(0, SIZE + 4096)
    cold.require(0, SIZE)
    assert len(cold.read(0, SIZE)) == SIZE


def test_where_the_kernel_does_not_tell_everything_is_read(
    file: OpenFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: Any) -> int:
        if len(args) == 4:
            raise OSError(95, "not supported")
        return plain(*args)

    plain = os.preadv
    monkeypatch.setattr(os, "preadv", refuse)
    file.disk.reads_may_block = False
    file.require(0, SIZE)
    assert file.read(0, 100) == bytes(range(100))


@pytest.fixture
def done() -> SimpleQueue[Any]:
    return SimpleQueue()


@pytest.fixture
def readers(done: SimpleQueue[Any]) -> Iterator[RangeReaders]:
    readers = RangeReaders(lambda function, argument: function(argument), done.put)
    yield readers
    readers.stop()


def test_the_threads_load_a_range(
    readers: RangeReaders, done: SimpleQueue[Any], cold: OpenFile
) -> None:
    readers.load(ReadRange(7, cold, 0, SIZE))
    assert done.get(timeout=WAIT_S) == RangeRead(7)
    cold.require(0, SIZE)


def test_a_deleted_file_is_an_error_of_the_read(
    readers: RangeReaders, done: SimpleQueue[Any], file: OpenFile
) -> None:
    file.disk.delete("log")
    readers.load(ReadRange(7, file, 0, SIZE))
    event = done.get(timeout=WAIT_S)
    assert event.number == 7
    assert isinstance(event.error, DiskError)


def test_the_threads_read_for_a_connection(
    readers: RangeReaders, done: SimpleQueue[Any], file: OpenFile
) -> None:
    file.disk.reads_may_block = False  # which is the loop's affair alone
    readers.read(file, 5, 10, done.put)
    assert done.get(timeout=WAIT_S) == bytes(range(5, 15))
