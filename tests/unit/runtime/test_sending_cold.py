"""A client is slow to take its answer, and what is left of it leaves memory meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.unit.runtime.stage import Stage, frame_of, stage

from tidelog.broker.effects import Part
from tidelog.log.disk import DiskError, FileSpan, NotInMemory
from tidelog.runtime.connection import SENDFILE_FROM_BYTES
from tidelog.runtime.file_disk import FileDisk, OpenFile

LARGE = 8 * SENDFILE_FROM_BYTES
SMALL = 1000


class ColdFile(OpenFile):
    """Nothing of it is in memory: it has to be read elsewhere."""

    __slots__ = ()

    def read_now(self, position: int, size: int) -> bytes:
        raise NotInMemory(self, position, size)

    def require_now(self, position: int, size: int) -> None:
        raise NotInMemory(self, position, size)


class ColdDisk(FileDisk):
    file_type = ColdFile


class Reader:
    """Stands for the read threads: reads when it is told to."""

    def __init__(self) -> None:
        self._asked: list[tuple[OpenFile, int, int, Callable[[bytes | DiskError], None]]] = []

    def have_read(
        self, file: OpenFile, position: int, size: int, done: Callable[[bytes | DiskError], None]
    ) -> None:
        self._asked.append((file, position, size, done))

    @property
    def is_asked(self) -> bool:
        return bool(self._asked)

    def read_one(self, error: DiskError | None = None) -> None:
        (file, position, size, done), *self._asked = self._asked
        done(error or file.read_waiting(position, size))


def span_of(path: Path, size: int) -> tuple[FileSpan, bytes]:
    content = bytes(number * 7 % 251 for number in range(size))
    file = ColdDisk(path).open("log", create=True)
    file.write(0, [content])
    return FileSpan(file, 0, size), content


async def receive(on: Stage, reader: Reader, client: int, size: int) -> bytes:
    """All that comes, while whatever is asked for is read."""
    got = bytearray()
    async with asyncio.timeout(60):
        while len(got) < size:
            if reader.is_asked:
                reader.read_one()
            try:
                got += on.client(client).recv(1 << 16)
            except BlockingIOError:
                await asyncio.sleep(0)
    return bytes(got)


@pytest.mark.parametrize("size", [SMALL, LARGE])
def test_an_answer_that_left_memory_arrives_whole_and_in_its_place(
    tmp_path: Path, size: int
) -> None:
    async def scene() -> tuple[bytes, bytes]:
        span, content = span_of(tmp_path, size)
        parts: list[Part] = [b"before", span, b"after"]
        with stage() as on:
            reader = Reader()
            on.connect(have_read=reader.have_read)
            on.connections[0].send(parts)
            on.connections[0].send([b"next"])
            expected = b"before" + content + b"after" + b"next"
            return await receive(on, reader, 0, len(expected)), expected

    got, expected = asyncio.run(scene())
    assert got == expected


def test_only_the_connection_that_waits_for_the_disk_is_held_up(tmp_path: Path) -> None:
    async def scene() -> tuple[list[tuple[int, bytes]], bool]:
        span, _ = span_of(tmp_path, SMALL)
        with stage() as on:
            reader = Reader()
            waiting, other = on.connect(have_read=reader.have_read), on.connect()
            on.connections[0].send([span])
            for client in (waiting, other):
                client.send(frame_of(b"one more"))
            await on.turns_until(1)
            handed, was_asked = list(on.handed), reader.is_asked
            await receive(on, reader, 0, SMALL)
            await on.turns_until(2)
            return handed, was_asked

    handed, was_asked = asyncio.run(scene())
    assert handed == [(1, b"one more")]
    assert was_asked


def test_a_disk_that_refuses_ends_the_connection(tmp_path: Path) -> None:
    async def scene() -> dict[int, str]:
        span, _ = span_of(tmp_path, SMALL)
        with stage() as on:
            reader = Reader()
            on.connect(have_read=reader.have_read)
            on.connections[0].send([span])
            reader.read_one(DiskError("input/output error"))
            return dict(on.lost)

    assert asyncio.run(scene()) == {0: "input/output error"}


def test_a_connection_that_is_gone_takes_nothing_more(tmp_path: Path) -> None:
    async def scene() -> int:
        span, _ = span_of(tmp_path, SMALL)
        file = span.file
        assert isinstance(file, OpenFile)
        with stage() as on:
            reader = Reader()
            on.connect(have_read=reader.have_read)
            on.connections[0].send([span])
            del span
            on.connections[0].abort()
            reader.read_one()
            return file.pins

    assert asyncio.run(scene()) == 0
