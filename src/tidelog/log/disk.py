"""The door to the disk: what `runtime` does with real files and `sim` with simulated ones.

Paths are relative to the data directory, with `/`. Every call is synchronous and goes to the
operating system's cache; only `sync` reaches the platter. A flush that others wait for is not
called here but asked for as an effect (`broker.effects.StartFlush`), so that the loop never
blocks on it. A read may block as well, if the operating system has to fetch the pages from the
platter. Whoever can wait for that without holding others up switches `reads_may_block` off while it
reads: then a read of what is not in memory raises `NotInMemory`, and the range is asked for as an
effect (`broker.effects.ReadRange`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

Buffer = bytes | bytearray | memoryview


class DiskError(Exception):
    """*The world is wrong*: an I/O error. After one on write or sync, trust the disk no more."""


class DiskFull(DiskError):
    """No room. What was asked has not happened; it may work later."""


class SyncFailed(DiskError):
    """What was written may be gone, and the next sync would not say so: there is no second try."""


class NotInMemory(DiskError):
    """Not an error of the disk: these bytes would have to be fetched from it first. It is one by
    its class because it may come wherever an error may, and leaves as little half done."""

    def __init__(self, file: File, position: int, size: int) -> None:
        super().__init__(f"{file.path}: {size} bytes at {position} are not in memory")
        self.file = file
        self.position = position
        self.size = size


class Syncable(Protocol):
    """Something whose writes so far `sync` makes durable: a file, or a directory's entries."""

    @property
    def path(self) -> str: ...

    def sync(self) -> None:
        """Blocks until durable; `DiskError` if it can't be known to be."""


class File(Syncable, Protocol):
    """An open file. Deleting it, or renaming another over it, closes it for all who have it open,
    and the disk has its room back: only a `FileSpan` keeps it readable, and `sync` does nothing.
    Whoever reads a file across several turns of the loop has to notice that it was deleted."""

    def size(self) -> int: ...

    def read(self, position: int, size: int) -> bytes:
        """Up to `size` bytes: fewer only at the end of the file. `NotInMemory` if the disk's reads
        may not block and this one would."""

    def require(self, position: int, size: int) -> None:
        """`NotInMemory` if the disk's reads may not block and reading all of this range would."""

    def write(self, position: int, parts: Sequence[Buffer], *, needs_sync: bool = True) -> None:
        """All of `parts` one after the other, or an error; after an error the bytes from `position`
        on are undefined and the caller's to overwrite or cut. What does not need a sync may be lost
        with the power, and nobody asks whether it was."""

    def take_room(self, size: int) -> None:
        """The file reaches to `size` at least, with zeros for what was not written, and writes up
        to there need no more room. `DiskFull` if there is none. Nobody need sync that."""

    def truncate(self, size: int) -> None: ...

    def close(self) -> None: ...

    def pin(self) -> None:
        """Keep the file readable, even after its deletion, until `unpin`: once each."""

    def unpin(self) -> None: ...


class Disk(Protocol):
    """One data directory."""

    reads_may_block: bool
    """True, except while somebody reads who can wait for an effect instead."""

    def open(self, path: str, *, create: bool = False) -> File:
        """`FileNotFoundError` if absent and not `create`. A created name is durable only after
        `sync` of the directory."""

    def directory(self, path: str) -> Syncable:
        """The directory itself, for syncing its entries."""

    def exists(self, path: str) -> bool: ...

    def list(self, path: str) -> list[str]:
        """Names in the directory, sorted; none if it is absent."""

    def make_directory(self, path: str) -> None:
        """With its parents; no error if it exists."""

    def rename(self, old: str, new: str) -> None:
        """Atomic, replacing `new`. Durable after `sync` of the directory."""

    def delete(self, path: str) -> None:
        """A file, or a directory with all in it. No error if it is absent."""


@dataclass(slots=True, frozen=True)
class FileSpan:
    """A range of a file that travels to a socket without being read here.

    A response that a consumer is slow to take must not lose its records to retention, so the span
    pins the file. It is let go with its response: nothing but the response may refer to it.
    """

    file: File
    position: int
    size: int

    def __post_init__(self) -> None:
        self.file.pin()

    def __del__(self) -> None:
        self.file.unpin()

    def read(self) -> bytes:
        return self.file.read(self.position, self.size)
