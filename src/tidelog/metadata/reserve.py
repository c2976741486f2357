"""Room on the disk that only the metadata may use: a file that is given up when the disk is full.

A vote, an epoch and the controller's decisions must be written down before they count, also on a
full disk: without them nobody is elected and no topic can be deleted to make room. So a file of
`metadata.reserve.bytes` lies beside the metadata. When a write of the metadata finds no room, the
file is deleted and the write is tried again. Until the file can be made again, records are refused
as on a full disk, or they would take the room that was meant for the metadata.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from tidelog.log.disk import Buffer, Disk, DiskFull, File, Syncable

FILE = "metadata-reserve"
PROBE = "room-probe"
RESERVED = "disk full: the remaining space is reserved for metadata; free some disk space"
_CHUNK = bytes(64 * 1024)

_Result = TypeVar("_Result")


class Reserve:
    """The file. With a size of 0 there is none, and it counts as whole; one that an earlier start
    has made under another setting is deleted."""

    def __init__(self, disk: Disk, size: int) -> None:
        self._disk = disk
        self._size = size
        if not size:
            disk.delete(FILE)
        self.is_whole = not size or self._size_on_disk() >= size

    def make(self) -> None:
        """Claim the room if there is that much. It need not survive a power failure: then it is
        made again."""
        if self.is_whole:
            return
        try:
            self._write()
            self.is_whole = True
        except DiskFull:
            self._disk.delete(FILE)

    def give_up(self) -> bool:
        """Let the metadata have the room; whether there was any."""
        if not self._size or not self.is_whole:
            return False
        self.is_whole = False
        self._disk.delete(FILE)
        return True

    def leaves_room(self) -> bool:
        """Whether there is room on the disk beside the reserve: a file is written, and deleted."""
        if not self.is_whole:
            return False
        try:
            file = self._disk.open(PROBE, create=True)
            file.write(0, [_CHUNK])
            file.close()
        except DiskFull:
            return False
        finally:
            self._disk.delete(PROBE)
        return True

    def _write(self) -> None:
        file = self._disk.open(FILE, create=True)
        for position in range(0, self._size, len(_CHUNK)):
            file.write(position, [memoryview(_CHUNK)[: self._size - position]])
        file.close()

    def _size_on_disk(self) -> int:
        if not self._disk.exists(FILE):
            return 0
        file = self._disk.open(FILE)
        size = file.size()
        file.close()
        return size


class ReservedDisk:
    """A `Disk` whose writers may have the reserve; `plain` is the same without it. Nobody reads the
    metadata who could wait for an effect."""

    reads_may_block = True

    def __init__(self, disk: Disk, reserve: Reserve) -> None:
        self.plain = self._disk = disk
        self._reserve = reserve

    def attempt(self, write: Callable[[], _Result]) -> _Result:
        """Once more with the reserve given up, if there was no room and there is a reserve."""
        try:
            return write()
        except DiskFull:
            if not self._reserve.give_up():
                raise
        return write()

    def open(self, path: str, *, create: bool = False) -> File:
        return ReservedFile(self, self.attempt(lambda: self._disk.open(path, create=create)))

    def directory(self, path: str) -> Syncable:
        return self._disk.directory(path)

    def exists(self, path: str) -> bool:
        return self._disk.exists(path)

    def list(self, path: str) -> list[str]:
        return self._disk.list(path)

    def make_directory(self, path: str) -> None:
        self.attempt(lambda: self._disk.make_directory(path))

    def rename(self, old: str, new: str) -> None:
        self.attempt(lambda: self._disk.rename(old, new))

    def delete(self, path: str) -> None:
        self._disk.delete(path)


class ReservedFile:
    """A `File` of a `ReservedDisk`; `file` is the disk's own."""

    def __init__(self, disk: ReservedDisk, file: File) -> None:
        self._disk = disk
        self.file = file

    @property
    def path(self) -> str:
        return self.file.path

    def sync(self) -> None:
        self.file.sync()

    def size(self) -> int:
        return self.file.size()

    def read(self, position: int, size: int) -> bytes:
        return self.file.read(position, size)

    def require(self, position: int, size: int) -> None:
        self.file.require(position, size)

    def write(self, position: int, parts: Sequence[Buffer], *, needs_sync: bool = True) -> None:
        self._disk.attempt(lambda: self.file.write(position, parts, needs_sync=needs_sync))

    def take_room(self, size: int) -> None:
        self._disk.attempt(lambda: self.file.take_room(size))

    def truncate(self, size: int) -> None:
        self._disk.attempt(lambda: self.file.truncate(size))

    def close(self) -> None:
        self.file.close()

    def pin(self) -> None:
        self.file.pin()

    def unpin(self) -> None:
        self.file.unpin()
