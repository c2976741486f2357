"""A simulated data directory: `tidelog.log.disk.Disk` over `images`, with faults on demand.

A *flush* (the effect `StartFlush`) is split in two, because appends go on meanwhile: `begin_flush`
notes what is covered, `finish_flush` makes just that durable; a crash in between leaves the covered
writes as unsynced as any. Handles belong to one incarnation of the node: after a crash, those of
the dead are refused, so that nothing of the old process can touch the new one's disk. So are those
of a deleted file, unless it is pinned: then it takes up room until the last `FileSpan` is gone.

What is in memory of a file is for `page_cache` to say. A read into memory (the effect `ReadRange`)
is `SimFile.load`, when its time has passed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from tidelog.log.disk import (
    Buffer,
    DiskError,
    DiskFull,
    File,
    NotInMemory,
    Syncable,
    SyncFailed,
)
from tidelog.metadata.reserve import ReservedFile
from tidelog.sim.disk_faults import DiskFaults
from tidelog.sim.effort import Effort
from tidelog.sim.images import (
    SECTOR_BYTES,
    Change,
    DirectoryImage,
    Entry,
    FileImage,
    NameChange,
    NameJournal,
    adopt_durable_names,
    copied,
    files_below,
)
from tidelog.sim.page_cache import PageCache


@dataclass(slots=True, frozen=True)
class FlushTicket:
    """What a flush under way covers: each target with the last change that it includes."""

    targets: tuple[tuple[FileImage | DirectoryImage, str], ...]
    up_to: int


class SimFile:
    """An open file of one incarnation. Implements `tidelog.log.disk.File`."""

    def __init__(self, disk: SimDisk, image: FileImage, path: str) -> None:
        self._disk = disk
        self._incarnation = disk.incarnation
        self._closed = False
        self.image = image
        self._path = path

    @property
    def path(self) -> str:
        return self._path

    def size(self) -> int:
        self._check_open()
        return len(self.image.cached)

    def read(self, position: int, size: int) -> bytes:
        self._check_open()
        assert position >= 0, f"{self._path}: read at {position}"
        assert size >= 0, f"{self._path}: read of {size} bytes"
        self.require(position, size)
        self._disk.faults.before_read(self._path)
        data = bytes(self.image.cached[position : position + size])
        self._disk.effort.read(len(data))
        return data

    def require(self, position: int, size: int) -> None:
        disk = self._disk
        if not disk.reads_may_block and not disk.page_cache.has(self.image, position, size):
            raise NotInMemory(self, position, size)

    def load(self, position: int, size: int) -> None:
        """A read that takes time has come to its end: whatever became of the file meanwhile."""
        assert self._incarnation == self._disk.incarnation, f"{self._path}: handle of the dead"
        if self.image.is_deleted:
            raise DiskError(f"{self._path} was deleted")
        self._disk.faults.before_read(self._path)
        self._disk.page_cache.load(self.image, position, size)

    def write(self, position: int, parts: Sequence[Buffer], *, needs_sync: bool = True) -> None:
        self._check_open()
        assert position >= 0, f"{self._path}: write at {position}"
        self._disk.effort.wrote()
        self._write(position, b"".join(parts))

    def take_room(self, size: int) -> None:
        """Costs no more than the file's name does: no bytes move."""
        self._check_open()
        end = len(self.image.cached)
        if end < size:
            self._write(end, bytes(size - end))

    def _write(self, position: int, data: bytes) -> None:
        faults = self._disk.faults
        faults.before_change()
        if faults.is_write_failing(self._path):
            self._record(position, faults.part_of(data))
            raise DiskError(f"{self._path}: input/output error on write")
        room = self._disk.room_for(self.image)
        if room is not None and position + len(data) > max(room, len(self.image.cached)):
            faults.note("disk full")
            self._record(position, faults.part_of(data[: max(0, room - position)]))
            raise DiskFull(f"{self._path}: no space left on device")
        self._record(position, data)

    def pin(self) -> None:
        is_closed = self.image.is_deleted and not self.image.pins
        assert not is_closed, f"{self._path} was deleted before somebody sent from it"
        self.image.pins += 1

    def unpin(self) -> None:
        self.image.pins -= 1

    def truncate(self, size: int) -> None:
        self._check_open()
        self._disk.effort.wrote()
        self._disk.faults.before_change()
        if self._disk.faults.is_write_failing(self._path):
            raise DiskError(f"{self._path}: input/output error on truncate")
        self.image.record(Change(self._disk.next_sequence(), size, None))

    def sync(self) -> None:
        if self.image.is_deleted:
            return
        self._check_open()
        self._disk.effort.synced()
        self._disk.faults.before_change()
        self._disk.finish_flush(self._disk.begin_flush((self,)))

    def close(self) -> None:
        self._closed = True

    def _record(self, position: int, data: bytes) -> None:
        if data:
            self.image.record(Change(self._disk.next_sequence(), position, data))

    def _check_open(self) -> None:
        assert not self._closed, f"{self._path} is closed"
        assert self._incarnation == self._disk.incarnation, f"{self._path}: handle of the dead"
        is_closed = self.image.is_deleted and not self.image.pins
        assert not is_closed, f"{self._path} was deleted, and nobody sends from it"


class SimDirectory:
    """A directory, for syncing its entries."""

    def __init__(self, disk: SimDisk, image: DirectoryImage, path: str) -> None:
        self._disk = disk
        self._incarnation = disk.incarnation
        self.image = image
        self._path = path

    @property
    def path(self) -> str:
        return self._path

    def sync(self) -> None:
        assert self._incarnation == self._disk.incarnation, f"{self._path}: handle of the dead"
        self._disk.effort.synced()
        self._disk.faults.before_change()
        self._disk.finish_flush(self._disk.begin_flush((self,)))


class SimDisk:
    """One node's data directory. Implements `tidelog.log.disk.Disk`."""

    def __init__(self, random: Random, cache_random: Random | None = None) -> None:
        self._random = random
        self.reads_may_block = True
        self.page_cache = PageCache(cache_random or Random(0))
        self._root = DirectoryImage()
        self._journal = NameJournal()
        self._sequence = 0
        self._unfreed: list[FileImage] = []
        """Deleted in this incarnation while somebody was sending from them."""
        self.incarnation = 0
        self.faults = DiskFaults(random)
        self.effort = Effort()
        self.syncs = 0

    # --- the door --------------------------------------------------------------------------------

    def open(self, path: str, *, create: bool = False) -> File:
        entry = self._find(path)
        if isinstance(entry, DirectoryImage):
            raise IsADirectoryError(path)
        if entry is None:
            if not create:
                raise FileNotFoundError(path)
            entry = FileImage()
            self._change_name(path, entry)
        entry.is_deleted = False  # a power failure may have brought it back
        return SimFile(self, entry, path)

    def directory(self, path: str) -> Syncable:
        entry = self._find(path)
        if not isinstance(entry, DirectoryImage):
            raise FileNotFoundError(path)
        return SimDirectory(self, entry, path)

    def exists(self, path: str) -> bool:
        return self._find(path) is not None

    def list(self, path: str) -> list[str]:
        entry = self._find(path)
        return sorted(entry.cached) if isinstance(entry, DirectoryImage) else []

    def make_directory(self, path: str) -> None:
        parts = _split(path)
        for depth in range(1, len(parts) + 1):
            prefix = "/".join(parts[:depth])
            if self._find(prefix) is None:
                self._change_name(prefix, DirectoryImage())

    def rename(self, old: str, new: str) -> None:
        entry = self._find(old)
        if entry is None:
            raise FileNotFoundError(old)
        self._check_room_for_name(new)
        source, old_name = self._parent(old)
        target, new_name = self._parent(new)
        self._record_names(
            ((source, old_name, None), (target, new_name, entry)), touches=(source, target)
        )

    def delete(self, path: str) -> None:
        entry = self._find(path)
        if entry is None:
            return
        if isinstance(entry, DirectoryImage):
            for name in sorted(entry.cached):
                self.delete(f"{path}/{name}")
        parent, name = self._parent(path)
        inside = (entry,) if isinstance(entry, DirectoryImage) else ()
        self._record_names(((parent, name, None),), touches=(parent, *inside))

    # --- flushing --------------------------------------------------------------------------------

    def begin_flush(self, targets: Sequence[Syncable]) -> FlushTicket:
        """Notes what the flush covers: all changes made so far, and none made later."""
        covered = []
        for target in targets:
            if isinstance(target, ReservedFile):
                target = target.file
            assert isinstance(target, SimFile | SimDirectory), f"{target!r} is not of this disk"
            covered.append((target.image, target.path))
        return FlushTicket(targets=tuple(covered), up_to=self._sequence)

    def finish_flush(self, ticket: FlushTicket) -> None:
        """What the ticket covers is durable now; or `DiskError`, and pages are gone for good."""
        for image, path in ticket.targets:
            self.syncs += 1
            is_failing = self.faults.is_sync_failing(path)
            if isinstance(image, FileImage) and is_failing:
                image.drop(ticket.up_to, self._random)
            if is_failing:
                raise SyncFailed(f"{path}: input/output error on fsync")
            if isinstance(image, FileImage):
                image.make_durable(ticket.up_to)
            else:
                self._journal.make_durable(image, ticket.up_to)

    # --- crashes ---------------------------------------------------------------------------------

    def lose_process(self) -> None:
        """kill -9: what was written is in the cache, and open handles are gone."""
        self.incarnation += 1
        self._unfreed = []
        for _, image in files_below(self._root):
            image.lose_process()

    def lose_power(self) -> None:
        """Only the platter is left, with whatever reached it by chance."""
        self.incarnation += 1
        self._unfreed = []
        self._journal.lose_power(self._random)
        images = dict.fromkeys(image for _, image in files_below(self._root, durable=True))
        for image in images:
            image.lose_power(self._random)
        adopt_durable_names(self._root)

    # --- for the simulator's eyes ----------------------------------------------------------------

    def files(
        self, *, durable: bool = False, below: str = "", ending: str = ""
    ) -> dict[str, FileImage]:
        """Every file by path: as reads see it, or as a power failure would leave the names."""
        entry: Entry | None = self._root
        for name in _split(below):
            if not isinstance(entry, DirectoryImage):
                return {}
            entry = (entry.durable if durable else entry.cached).get(name)
        if not isinstance(entry, DirectoryImage):
            return {}
        prefix = f"{below}/" if below else ""
        found = files_below(entry, durable=durable, ending=ending)
        return {prefix + path: image for path, image in found}

    def take_away(self, path: str) -> Entry | None:
        """Remove a file or directory as if it had never been, behind the node's back."""
        entry = self._find(path)
        self._erase(path)
        return entry

    def put_back(self, path: str, entry: Entry | None) -> None:
        """Undo `take_away`, in place of whatever the node has made there since."""
        self._erase(path)
        if entry is not None:
            parent, name = self._parent(path)
            parent.cached[name] = parent.durable[name] = entry

    def _erase(self, path: str) -> None:
        if self._find(path) is None:
            return
        parent, name = self._parent(path)
        for change in self._journal.pending:
            change.apply(durable=True)
        self._journal.pending = []
        parent.cached.pop(name, None)
        parent.durable.pop(name, None)

    def copy(self) -> DirectoryImage:
        """All of it, as somebody would copy it who reads it now."""
        return copied(self._root)

    def become(self, root: DirectoryImage) -> None:
        """Another directory in the place of this one, while no node runs on it."""
        self.incarnation += 1
        self._root = root
        self._journal.pending = []

    def used_bytes(self) -> int:
        """Whole sectors, as a file system counts: with what is deleted and being sent."""
        images = [image for _, image in files_below(self._root)]
        images += self.deleted_but_pinned()
        return sum(_sectors(len(image.cached)) for image in images)

    def deleted_but_pinned(self) -> Sequence[FileImage]:
        """Their room is not free yet."""
        self._unfreed = [image for image in self._unfreed if image.pins]
        return self._unfreed

    def room_for(self, image: FileImage) -> int | None:
        """The size `image` may grow to, or None where there is no limit."""
        if self.faults.capacity_bytes is None:
            return None
        free = self.faults.capacity_bytes - self.used_bytes()
        return max(0, _sectors(len(image.cached)) + free // SECTOR_BYTES * SECTOR_BYTES)

    def next_sequence(self) -> int:
        self._sequence += 1
        return self._sequence

    # --- names -----------------------------------------------------------------------------------

    def _change_name(self, path: str, entry: Entry) -> None:
        self._check_room_for_name(path)
        parent, name = self._parent(path)
        inside = (entry,) if isinstance(entry, DirectoryImage) else ()
        self._record_names(((parent, name, entry),), touches=(parent, *inside))

    def _record_names(
        self,
        entries: tuple[tuple[DirectoryImage, str, Entry | None], ...],
        *,
        touches: tuple[DirectoryImage, ...],
    ) -> None:
        self.faults.before_change()
        if self.faults.is_write_failing("a directory"):
            raise DiskError("input/output error on a directory")
        for parent, name, entry in entries:
            former = parent.cached.get(name)
            is_moved = any(former is moved for _, _, moved in entries)
            if isinstance(former, FileImage) and former is not entry and not is_moved:
                former.is_deleted = True
                self._unfreed.append(former)
        self._journal.record(NameChange(self.next_sequence(), entries, touches))

    def _check_room_for_name(self, path: str) -> None:
        capacity = self.faults.capacity_bytes
        if capacity is not None and self.used_bytes() + SECTOR_BYTES > capacity:
            self.faults.note("disk full")
            raise DiskFull(f"{path}: no space left on device")

    def _parent(self, path: str) -> tuple[DirectoryImage, str]:
        parts = _split(path)
        parent = self._find("/".join(parts[:-1]))
        if not isinstance(parent, DirectoryImage):
            raise FileNotFoundError(path)
        return parent, parts[-1]

    def _find(self, path: str) -> Entry | None:
        entry: Entry | None = self._root
        for name in _split(path):
            if not isinstance(entry, DirectoryImage):
                return None
            entry = entry.cached.get(name)
        return entry


def _split(path: str) -> list[str]:
    parts = [part for part in path.split("/") if part not in ("", ".")]
    assert ".." not in parts, f"{path!r} leaves the data directory"
    return parts


def _sectors(size: int) -> int:
    return -(-size // SECTOR_BYTES) * SECTOR_BYTES
