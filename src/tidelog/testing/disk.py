"""The real disk, which can be declared full."""

from __future__ import annotations

import os
from collections.abc import Sequence

from tidelog.log.disk import Buffer, DiskFull
from tidelog.runtime.file_disk import FileDisk, OpenFile


class Room:
    """Whether there is any. Outlives the disk object, as a full disk outlives a restart."""

    def __init__(self) -> None:
        self.is_full = False


class FillableFile(OpenFile):
    """Does not grow while the disk is full; what it has can be overwritten, as on a real one."""

    __slots__ = ()

    def write(self, position: int, parts: Sequence[Buffer], *, needs_sync: bool = True) -> None:
        disk = self.disk
        assert isinstance(disk, FillableDisk)
        if disk.room.is_full and position + sum(map(len, parts)) > self.size():
            raise DiskFull(f"writing {self.name}: no space left (fill_disk)")
        super().write(position, parts, needs_sync=needs_sync)


class FillableDisk(FileDisk):
    """A `FileDisk` with a limit that is reached when a test says so."""

    file_type = FillableFile

    def __init__(self, root: str | os.PathLike[str], room: Room) -> None:
        super().__init__(root)
        self.room = room

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
