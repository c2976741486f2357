"""The real disk, which can be declared full, or so slow that no read of it ends."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence

from tidelog.log.disk import Buffer, DiskFull, NotInMemory
from tidelog.runtime.file_disk import FileDisk, OpenFile


class Room:
    """Whether there is any. Outlives the disk object, as a full disk outlives a restart."""

    def __init__(self) -> None:
        self.is_full = False


class Reads:
    """Whether they come to an end. While they are held, nothing is in memory but what the node
    knows that it wrote lately, and a read that may wait for the disk waits for `release`."""

    def __init__(self) -> None:
        self._are_free = threading.Event()
        self._are_free.set()

    @property
    def are_held(self) -> bool:
        return not self._are_free.is_set()

    def hold(self) -> None:
        self._are_free.clear()

    def release(self) -> None:
        self._are_free.set()

    def wait(self) -> None:
        self._are_free.wait()


class FillableFile(OpenFile):
    """Does not grow while the disk is full; what it has can be overwritten, as on a real one."""

    __slots__ = ()

    def read_now(self, position: int, size: int) -> bytes:
        if not self._disk.reads_may_block and self._disk.reads.are_held:
            raise NotInMemory(self, position, size)
        return super().read_now(position, size)

    def require_now(self, position: int, size: int) -> None:
        if self._disk.reads.are_held:
            raise NotInMemory(self, position, size)
        super().require_now(position, size)

    def load(self, position: int, size: int) -> None:
        self._disk.reads.wait()
        super().load(position, size)

    @property
    def _disk(self) -> FillableDisk:
        assert isinstance(self.disk, FillableDisk)
        return self.disk

    def write(self, position: int, parts: Sequence[Buffer], *, needs_sync: bool = True) -> None:
        if self._disk.room.is_full and position + sum(map(len, parts)) > self.size():
            raise DiskFull(f"writing {self.name}: no space left (fill_disk)")
        super().write(position, parts, needs_sync=needs_sync)


class FillableDisk(FileDisk):
    """A `FileDisk` with a limit that is reached when a test says so, and reads that end then."""

    file_type = FillableFile

    def __init__(
        self, root: str | os.PathLike[str], room: Room, reads: Reads | None = None
    ) -> None:
        super().__init__(root)
        self.room = room
        self.reads = reads or Reads()

    def open(self, path: str, *, create: bool = False) -> OpenFile:
        if create:
            self._need_room_for(path)
        return super().open(path, create=create)

    def make_directory(self, path: str) -> None:
        self._need_room_for(path)
        super().make_directory(path)

    def close(self) -> None:
        """Give back every descriptor, as the end of a process does."""
        with self.lock:
            for reference in list(self._open.values()):
                file = reference()
                if file is not None:
                    self._close_descriptor(file)

    def _need_room_for(self, path: str) -> None:
        if self.room.is_full and not self.exists(path):
            raise DiskFull(f"creating {path}: no space left (fill_disk)")
