"""What a file and a directory are to a disk that may lose power: two images and what lies between.

A file has a *cached* image (what reads see) and a *durable* one (what the platter holds), and the
ordered list of changes that separate them. A directory has the same for its entries. `sync` moves
changes over; a power failure decides the fate of each that was not moved. Sectors of 512 bytes are
written whole or not at all, in any order; changes to one directory are kept as a prefix, because
file systems journal names in order, and a rename is one change, so it is atomic.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple

SECTOR_BYTES = 512


class Change(NamedTuple):
    """One unsynced write (`data`), or a truncation to `position` (`data` is None)."""

    sequence: int
    position: int
    data: bytes | None

    def apply(self, image: bytearray) -> None:
        if self.data is None:
            resize(image, self.position)
            return
        if self.position > len(image):
            resize(image, self.position)
        image[self.position : self.position + len(self.data)] = self.data

    def sectors(self) -> range:
        size = 0 if self.data is None else len(self.data)
        last = (self.position + size - 1) // SECTOR_BYTES
        return range(self.position // SECTOR_BYTES, last + 1) if size else range(0)


def resize(image: bytearray, size: int) -> None:
    """Cut, or extend with zeros."""
    if size <= len(image):
        del image[size:]
    else:
        image.extend(bytes(size - len(image)))


def copy_sector(source: bytearray, target: bytearray, sector: int) -> None:
    """`target`'s sector becomes `source`'s, up to the end of `source`."""
    start = sector * SECTOR_BYTES
    stop = min(start + SECTOR_BYTES, len(source))
    if start >= stop:
        return
    if len(target) < start:
        resize(target, start)
    target[start:stop] = source[start:stop]


class FileImage:
    """A file without its name: it lives as long as it has one, or somebody sends from it."""

    def __init__(self) -> None:
        self.cached = bytearray()
        self.durable = bytearray()
        self.pending: list[Change] = []
        self.has_dropped_pages = False
        self.pins = 0
        """Spans of it that are being sent."""
        self.is_deleted = False
        """Its name is gone, or leads to another file."""
        self.rewrites = 0
        """Changes of what was there, not beyond its end: a reader must begin anew after them."""

    def record(self, change: Change) -> None:
        if change.position < len(self.cached):
            self.rewrites += 1
        change.apply(self.cached)
        self.pending.append(change)

    def make_durable(self, up_to: int) -> None:
        """The changes with a sequence of at most `up_to` reach the platter."""
        kept = [change for change in self.pending if change.sequence > up_to]
        for change in self.pending[: len(self.pending) - len(kept)]:
            change.apply(self.durable)
        self.pending = kept

    def drop(self, up_to: int, random: Random) -> None:
        """A failed fsync: some sectors arrive, the rest is marked clean although it is not there.

        Reads go on seeing the cached bytes until the next crash, and the next fsync "succeeds".
        """
        covered = [change for change in self.pending if change.sequence <= up_to]
        self.pending = self.pending[len(covered) :]
        self._settle(covered, random)
        self.has_dropped_pages = True

    def lose_power(self, random: Random) -> None:
        """Each unsynced change is lost, kept or torn; what the platter holds is all there is."""
        self._settle(self.pending, random)
        self.pending = []
        self.cached = bytearray(self.durable)
        self.has_dropped_pages = False

    def lose_process(self) -> None:
        """The cache survives a killed process, except pages that a failed fsync gave up."""
        if self.has_dropped_pages:
            self.cached = bytearray(self.durable)
            for change in self.pending:
                change.apply(self.cached)
            self.has_dropped_pages = False

    def _settle(self, changes: list[Change], random: Random) -> None:
        if not changes:
            return
        style = random.choice(("lost", "kept", "mixed", "mixed", "torn"))
        seen_by_cache = bytearray(self.durable)
        for change in changes:
            change.apply(seen_by_cache)
            fate = random.choice(("lost", "kept", "torn")) if style == "mixed" else style
            self._settle_one(change, seen_by_cache, random, fate=fate)
        if len(self.durable) < len(seen_by_cache) and random.random() < 0.25:
            resize(self.durable, random.randint(len(self.durable), len(seen_by_cache)))

    def _settle_one(
        self, change: Change, seen_by_cache: bytearray, random: Random, *, fate: str
    ) -> None:
        if fate == "lost":
            return
        if change.data is None:
            if fate == "kept" or random.random() < 0.5:
                resize(self.durable, change.position)
            return
        for sector in change.sectors():
            if fate == "kept" or random.random() < 0.5:
                copy_sector(seen_by_cache, self.durable, sector)


@dataclass(slots=True)
class DirectoryImage:
    """Entries by name; `durable` is what a power failure would leave."""

    cached: dict[str, FileImage | DirectoryImage] = field(default_factory=dict)
    durable: dict[str, FileImage | DirectoryImage] = field(default_factory=dict)


Entry = FileImage | DirectoryImage


@dataclass(slots=True)
class NameChange:
    """One atomic change of names: `(directory, name, what it names from now on)` each.

    `touches` are the directories whose order it takes part in: a removed directory counts, so
    that a directory is never durably removed before what was in it.
    """

    sequence: int
    entries: tuple[tuple[DirectoryImage, str, Entry | None], ...]
    touches: tuple[DirectoryImage, ...]

    def apply(self, *, durable: bool) -> None:
        for directory, name, target in self.entries:
            names = directory.durable if durable else directory.cached
            if target is None:
                names.pop(name, None)
            else:
                names[name] = target


class NameJournal:
    """The unsynced changes of names, oldest first, of the whole disk."""

    def __init__(self) -> None:
        self.pending: list[NameChange] = []

    def record(self, change: NameChange) -> None:
        change.apply(durable=False)
        self.pending.append(change)

    def make_durable(self, directory: DirectoryImage, up_to: int) -> None:
        """A directory's changes become durable, and with them the earlier ones they build on."""
        needed = [directory]
        chosen: list[NameChange] = []
        for change in reversed(self.pending):
            if change.sequence <= up_to and _meet(change.touches, needed):
                chosen.append(change)
                needed.extend(change.touches)
        for change in reversed(chosen):
            change.apply(durable=True)
        sequences = {change.sequence for change in chosen}
        self.pending = [change for change in self.pending if change.sequence not in sequences]

    def lose_power(self, random: Random) -> None:
        """Per directory, a prefix of its changes is kept."""
        style = random.choice(("lost", "kept", "mixed", "mixed"))
        blocked: list[DirectoryImage] = []
        for change in self.pending:
            survives = style == "kept" or (style == "mixed" and random.random() < 0.6)
            if survives and not _meet(change.touches, blocked):
                change.apply(durable=True)
            else:
                blocked.extend(change.touches)
        self.pending = []


def _meet(left: tuple[DirectoryImage, ...], right: list[DirectoryImage]) -> bool:
    return any(one is other for one in left for other in right)


def files_below(
    directory: DirectoryImage, *, durable: bool = False, ending: str = ""
) -> list[tuple[str, FileImage]]:
    """Every file whose name ends so, with its path, in order of names."""
    found: list[tuple[str, FileImage]] = []
    _collect(directory, "", durable, ending, found)
    return found


def _collect(
    directory: DirectoryImage,
    prefix: str,
    durable: bool,
    ending: str,
    found: list[tuple[str, FileImage]],
) -> None:
    names = directory.durable if durable else directory.cached
    for name in sorted(names):
        entry = names[name]
        if isinstance(entry, DirectoryImage):
            _collect(entry, f"{prefix}{name}/", durable, ending, found)
        elif name.endswith(ending):
            found.append((prefix + name, entry))


def adopt_durable_names(directory: DirectoryImage) -> None:
    """After a power failure the cache knows only what the platter says."""
    directory.cached = dict(directory.durable)
    for name in sorted(directory.cached):
        entry = directory.cached[name]
        if isinstance(entry, DirectoryImage):
            adopt_durable_names(entry)


def copied(directory: DirectoryImage) -> DirectoryImage:
    """What reads see of it, written down elsewhere and synced there."""
    names: dict[str, Entry] = {}
    for name, entry in directory.cached.items():
        if isinstance(entry, DirectoryImage):
            names[name] = copied(entry)
        else:
            image = FileImage()
            image.cached, image.durable = bytearray(entry.cached), bytearray(entry.cached)
            names[name] = image
    return DirectoryImage(names, dict(names))
