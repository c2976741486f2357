"""The real disk: a data directory of ordinary files.

A `File` here is a name with, most of the time, a descriptor. Descriptors are few and partitions
are many, so at most `max_open_files` stay open: the longest unused gives way and is opened again
when somebody asks. A file in use by a call in another thread does not give way. One with unsynced
writes gives way only if all have them, and is synced first, because a write-back error is reported
to those who had the file open when it happened; what was written without the need of a sync does
not count. Should the process run out of descriptors all the same, a file gives way then, too: the
disk is not at fault.

The operating system gives a deleted file's blocks back when its last descriptor is closed, so a
file that is deleted or replaced is closed here and then, whoever still refers to it. Two things put
that off: a call under way in another thread, and a `FileSpan` that is being sent (`pin`). Such a
file never gives way either: its name now leads elsewhere, or nowhere.

What a read would wait for is known from the operating system (`cached.py`): while reads may not
block, one that would raises `NotInMemory`, and `load` gets the range, in another thread.
"""

from __future__ import annotations

import errno
import os
import resource
import shutil
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar
from weakref import WeakValueDictionary, ref

from tidelog.log.disk import Buffer, DiskError, DiskFull, NotInMemory, SyncFailed
from tidelog.runtime import cached

MIN_OPEN_FILES = 16
_CLOSED = -1
_FULL = (errno.ENOSPC, errno.EDQUOT)
_NO_DESCRIPTOR = (errno.EMFILE, errno.ENFILE)

Result = TypeVar("Result")


def _disk_error(error: OSError, doing: str, path: str) -> DiskError:
    kind = DiskFull if error.errno in _FULL else DiskError
    return kind(f"{doing} {path or '.'}: {error.strerror}")


def _sync_error(error: OSError, path: str) -> DiskError:
    """Never `DiskFull`: what a failed sync was to save is lost, and trying again would not tell."""
    return SyncFailed(f"syncing {path or '.'}: {error.strerror}")


def open_file_share() -> int:
    """Half of the descriptors the process may have: the other half is for connections."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return max(MIN_OPEN_FILES, min(soft // 2, 500_000))


class OpenFile:
    """One file; all who open the same path share it. Safe to use from several threads."""

    __slots__ = (
        "__weakref__",
        "descriptor",
        "disk",
        "failure",
        "is_detached",
        "is_dirty",
        "name",
        "pins",
        "users",
    )

    def __init__(self, disk: FileDisk, path: str) -> None:
        self.disk = disk
        self.name = path
        self.descriptor = _CLOSED
        self.users = 0
        self.pins = 0
        self.is_dirty = False
        self.is_detached = False
        """It was deleted, or another file was renamed over it."""
        self.failure: DiskError | None = None

    def __del__(self) -> None:
        if self.descriptor != _CLOSED:
            self.disk.forget(self)

    @property
    def path(self) -> str:
        return self.name

    def send_to(self, socket_descriptor: int, position: int, size: int) -> int:
        """`os.sendfile` from here; errors of the socket (`BlockingIOError` …) are the caller's."""
        descriptor = self.disk.begin_use(self)
        try:
            return os.sendfile(socket_descriptor, descriptor, position, size)
        finally:
            self.disk.end_use(self)

    def size(self) -> int:
        if self.descriptor == _CLOSED and not self.is_detached:
            return self.disk.size_of(self.name)
        descriptor = self.disk.begin_use(self)
        try:
            return os.fstat(descriptor).st_size
        except OSError as error:
            raise _disk_error(error, "reading the size of", self.name) from error
        finally:
            self.disk.end_use(self)

    def read(self, position: int, size: int) -> bytes:
        if self.disk.reads_may_block:
            return self.read_waiting(position, size)
        return self.read_now(position, size)

    def read_waiting(self, position: int, size: int) -> bytes:
        """As `read`, whether or not the disk's reads may block: for other threads."""
        descriptor = self.disk.begin_use(self)
        try:
            data = os.pread(descriptor, size, position)
            if len(data) == size or not data:
                return data
            return data + _read_rest(descriptor, size - len(data), position + len(data))
        except OSError as error:
            raise _disk_error(error, "reading", self.name) from error
        finally:
            self.disk.end_use(self)

    def read_now(self, position: int, size: int) -> bytes:
        """As `read`, and `NotInMemory` instead of waiting for the disk."""
        descriptor = self.disk.begin_use(self)
        try:
            data = cached.read(descriptor, position, size)
        except OSError as error:
            raise _disk_error(error, "reading", self.name) from error
        finally:
            self.disk.end_use(self)
        if data is None:
            raise NotInMemory(self, position, size)
        return data

    def require(self, position: int, size: int) -> None:
        if not self.disk.reads_may_block:
            self.require_now(position, size)

    def require_now(self, position: int, size: int) -> None:
        """`NotInMemory` if the range is not all in memory."""
        descriptor = self.disk.begin_use(self)
        try:
            is_cached = cached.has(descriptor, position, size)
        except OSError as error:
            raise _disk_error(error, "reading", self.name) from error
        finally:
            self.disk.end_use(self)
        if not is_cached:
            raise NotInMemory(self, position, size)

    def load(self, position: int, size: int) -> None:
        """Have the range in memory, whatever time that takes: for other threads."""
        descriptor = self.disk.begin_use(self)
        try:
            cached.load(descriptor, position, size)
        except OSError as error:
            raise _disk_error(error, "reading", self.name) from error
        finally:
            self.disk.end_use(self)

    def write(self, position: int, parts: Sequence[Buffer], *, needs_sync: bool = True) -> None:
        """HOT PATH: as with `begin_use` and `end_use`, where the file is open, as it most often
        is."""
        disk = self.disk
        with disk.lock:
            descriptor = self.descriptor
            if descriptor != _CLOSED:
                self.users += 1
        if descriptor == _CLOSED:
            descriptor = disk.begin_use(self)
        try:
            self.is_dirty = self.is_dirty or needs_sync
            written = os.pwritev(descriptor, parts, position)
            if written < sum(map(len, parts)):
                _write_rest(descriptor, parts, position, written)
        except OSError as error:
            raise _disk_error(error, "writing", self.name) from error
        finally:
            with disk.lock:
                if self.is_detached:
                    disk.end_use(self)
                else:
                    self.users -= 1

    def take_room(self, size: int) -> None:
        descriptor = self.disk.begin_use(self)
        try:
            os.posix_fallocate(descriptor, 0, size)
        except OSError as error:
            raise _disk_error(error, "taking room for", self.name) from error
        finally:
            self.disk.end_use(self)

    def truncate(self, size: int) -> None:
        descriptor = self.disk.begin_use(self)
        try:
            self.is_dirty = True
            os.ftruncate(descriptor, size)
        except OSError as error:
            raise _disk_error(error, "cutting", self.name) from error
        finally:
            self.disk.end_use(self)

    def sync(self) -> None:
        descriptor = self.disk.begin_sync(self)
        if descriptor is None:
            return
        try:
            if self.failure is not None:
                raise self.failure
            self.is_dirty = False
            os.fdatasync(descriptor)
        except OSError as error:
            raise _sync_error(error, self.name) from error
        finally:
            self.disk.end_use(self)

    def close(self) -> None:
        """Gives the descriptor back; unsynced writes are left to the operating system. Whoever
        holds the file may go on using it."""
        self.disk.give_back(self)

    def pin(self) -> None:
        self.disk.pin(self)

    def unpin(self) -> None:
        self.disk.unpin(self)


def _read_rest(descriptor: int, size: int, position: int) -> bytes:
    parts: list[bytes] = []
    while size and (more := os.pread(descriptor, size, position)):
        parts.append(more)
        position += len(more)
        size -= len(more)
    return b"".join(parts)


def _write_rest(descriptor: int, parts: Sequence[Buffer], position: int, written: int) -> None:
    """The kernel may take less than it was given, for instance just before the disk is full."""
    rest = memoryview(b"".join(parts))
    while written < len(rest):
        written += os.pwrite(descriptor, rest[written:], position + written)


class Directory:
    """A directory's entries, for syncing."""

    __slots__ = ("_disk", "_path")

    def __init__(self, disk: FileDisk, path: str) -> None:
        self._disk = disk
        self._path = path

    @property
    def path(self) -> str:
        return self._path

    def sync(self) -> None:
        absolute = self._disk.absolute(self._path)
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
        try:
            descriptor = self._disk.with_descriptor(lambda: os.open(absolute, flags))
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        except FileNotFoundError:
            return  # it was deleted: what its parent says of it is synced with the parent
        except OSError as error:
            raise _sync_error(error, self._path) from error


class FileDisk:
    """The data directory `root`, which is created if it is absent."""

    file_type: type[OpenFile] = OpenFile
    reads_may_block = True

    def __init__(self, root: str | os.PathLike[str], *, max_open_files: int | None = None) -> None:
        self.root = os.fspath(root)
        self.max_open_files = max_open_files or open_file_share()
        self.lock = threading.RLock()
        """For everything about descriptors: several threads use files."""
        self._files: WeakValueDictionary[str, OpenFile] = WeakValueDictionary()
        self._open: dict[int, ref[OpenFile]] = {}
        try:
            os.makedirs(self.root, exist_ok=True)
        except OSError as error:
            raise _disk_error(error, "creating", self.root) from error

    # --- the protocol: log.disk.Disk ----------------------------------------------------------

    def open(self, path: str, *, create: bool = False) -> OpenFile:
        with self.lock:
            file = self._files.get(path)
            if file is not None:
                return file
            file = self.file_type(self, path)
            try:
                if create:
                    self._open_descriptor(file, os.O_CREAT)
                else:
                    os.stat(self.absolute(path))
            except OSError as error:
                if isinstance(error, FileNotFoundError) and not create:
                    raise
                raise _disk_error(error, "opening", path) from error
            self._files[path] = file
            return file

    def directory(self, path: str) -> Directory:
        return Directory(self, path)

    def exists(self, path: str) -> bool:
        return os.path.exists(self.absolute(path))

    def list(self, path: str) -> list[str]:
        try:
            return sorted(self.with_descriptor(lambda: os.listdir(self.absolute(path))))
        except FileNotFoundError:
            return []
        except OSError as error:
            raise _disk_error(error, "listing", path) from error

    def make_directory(self, path: str) -> None:
        try:
            os.makedirs(self.absolute(path), exist_ok=True)
        except OSError as error:
            raise _disk_error(error, "creating", path) from error

    def rename(self, old: str, new: str) -> None:
        with self.lock:
            self._open_if_pinned(new)
            try:
                os.rename(self.absolute(old), self.absolute(new))
            except OSError as error:
                raise _disk_error(error, "renaming", old) from error
            self._detach(new)
            moved = self._files.pop(old, None)
            if moved is not None:
                moved.name = new
                self._files[new] = moved

    def delete(self, path: str) -> None:
        with self.lock:
            absolute = self.absolute(path)
            is_directory = os.path.isdir(absolute)
            found = self._files_below(path) if is_directory else [path]
            held = tuple(name for name in found if name in self._files)
            for name in held:
                self._open_if_pinned(name)
            try:
                if is_directory:
                    shutil.rmtree(absolute)
                else:
                    os.unlink(absolute)
            except FileNotFoundError:
                pass
            except OSError as error:
                raise _disk_error(error, "deleting", path) from error
            finally:
                for name in held:
                    if not os.path.exists(self.absolute(name)):
                        self._detach(name)

    def _files_below(self, path: str) -> Iterator[str]:
        """By their paths from the root."""
        for folder, _, names in os.walk(self.absolute(path)):
            for name in names:
                yield os.path.relpath(os.path.join(folder, name), self.root)

    # --- descriptors --------------------------------------------------------------------------

    def absolute(self, path: str) -> str:
        return f"{self.root}/{path}" if path else self.root

    def size_of(self, path: str) -> int:
        try:
            return os.stat(self.absolute(path)).st_size
        except OSError as error:
            raise _disk_error(error, "reading the size of", path) from error

    def begin_use(self, file: OpenFile) -> int:
        """The file's descriptor, safe from being closed until `end_use`."""
        with self.lock:
            if file.descriptor == _CLOSED:
                if file.is_detached:
                    raise DiskError(f"using {file.name}: it was deleted or replaced, and is closed")
                try:
                    self._open_descriptor(file, 0)
                except OSError as error:
                    raise _disk_error(error, "opening", file.name) from error
            file.users += 1
            return file.descriptor

    def end_use(self, file: OpenFile) -> None:
        with self.lock:
            file.users -= 1
            if file.is_detached:
                self._close_if_deleted(file)

    def pin(self, file: OpenFile) -> None:
        with self.lock:
            file.pins += 1

    def unpin(self, file: OpenFile) -> None:
        with self.lock:
            file.pins -= 1
            self._close_if_deleted(file)

    def begin_sync(self, file: OpenFile) -> int | None:
        """As `begin_use`; None if the file was deleted or replaced: nobody will read it again."""
        with self.lock:
            is_deleted = file.is_detached and file.descriptor == _CLOSED
            return None if is_deleted else self.begin_use(file)

    def give_back(self, file: OpenFile) -> None:
        """Close the descriptor if the file can be opened again by its name."""
        with self.lock:
            if file.descriptor != _CLOSED and not file.users and not file.is_detached:
                self._close_descriptor(file)

    def forget(self, file: OpenFile) -> None:
        """Nobody holds the file any more. Another thread may have closed it while this one waited
        for the lock."""
        with self.lock:
            if file.descriptor != _CLOSED:
                self._close_descriptor(file)

    def with_descriptor(self, attempt: Callable[[], Result]) -> Result:
        """`attempt`, which needs a descriptor; if there is none, a file gives way."""
        while True:
            try:
                return attempt()
            except OSError as error:
                if error.errno not in _NO_DESCRIPTOR:
                    raise
                with self.lock:
                    if not self._close_one():
                        raise

    def open_descriptors(self) -> int:
        return len(self._open)

    def _open_descriptor(self, file: OpenFile, flags: int) -> None:
        while len(self._open) >= self.max_open_files and self._close_one():
            pass
        flags |= os.O_RDWR | os.O_CLOEXEC
        absolute = self.absolute(file.name)
        file.descriptor = self.with_descriptor(lambda: os.open(absolute, flags, 0o644))
        self._open[file.descriptor] = ref(file)

    def _close_one(self) -> bool:
        """Make room; false if every open file is in use or has lost its name."""
        fallback: OpenFile | None = None
        for reference in self._open.values():
            file = reference()
            if file is None or file.users or file.is_detached:
                continue
            if not file.is_dirty:
                self._close_descriptor(file)
                return True
            fallback = fallback or file
        if fallback is None:
            return False
        try:
            os.fdatasync(fallback.descriptor)
        except OSError as error:
            fallback.failure = _sync_error(error, fallback.name)
        self._close_descriptor(fallback)
        return True

    def _close_descriptor(self, file: OpenFile) -> None:
        self._open.pop(file.descriptor, None)
        os.close(file.descriptor)
        file.descriptor = _CLOSED
        file.is_dirty = False

    def _close_if_deleted(self, file: OpenFile) -> None:
        is_needed = file.users or file.pins or not file.is_detached
        if not is_needed and file.descriptor != _CLOSED:
            self._close_descriptor(file)

    def _open_if_pinned(self, path: str) -> None:
        """The name is about to lead elsewhere, and somebody will read the file after that."""
        file = self._files.get(path)
        if file is not None and file.pins and file.descriptor == _CLOSED:
            self.begin_use(file)
            self.end_use(file)

    def _detach(self, path: str) -> None:
        """The name leads elsewhere, or nowhere: only a file that is needed keeps its descriptor."""
        file = self._files.pop(path, None)
        if file is not None:
            file.is_detached = True
            self._close_if_deleted(file)
