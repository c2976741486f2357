"""A partition's directory: which files there are, and the small ones read and written whole."""

from __future__ import annotations

from collections.abc import Callable

from crc32c import crc32c

from tidelog.log.damage import Damage
from tidelog.log.disk import Disk, DiskError, File, Syncable
from tidelog.log.epochs import Epochs
from tidelog.log.marks import MarkFile
from tidelog.log.paths import (
    CLEANED,
    CLEANED_SUFFIX,
    EPOCHS,
    INDEX,
    LOG,
    ROOM_PROBE,
    SNAPSHOT,
    TEMPORARY_SUFFIX,
    TIME_INDEX,
    TORN,
    ancestors,
    offset_path,
    offsets_of,
)
from tidelog.log.producers import Producers
from tidelog.log.segment import Segment
from tidelog.model.safeguards import Safeguard
from tidelog.model.settings import TopicSettings

SNAPSHOTS_KEPT = 3
"""More than one, in case the newest is damaged or lies beyond a truncation."""

_BEGINNING_BYTES = 32 * 1024
"""A segment's first block, the mark's three and two checkpoints, with as much to spare."""


class PartitionDirectory:
    """Files by their names; what is in them is others' business."""

    def __init__(
        self,
        disk: Disk,
        path: str,
        settings: TopicSettings,
        *,
        safeguards: frozenset[Safeguard],
    ) -> None:
        self.disk = disk
        self.path = path
        self.settings = settings
        self.safeguards = safeguards
        self.names = disk.list(path)
        """As of the opening: later files are known by those who made them."""
        self.epochs = Epochs()
        self.reports: list[Damage] = []
        self.mark_file = MarkFile(disk, path)

    def create(self) -> None:
        self.disk.make_directory(self.path)

    def entries(self) -> list[Syncable]:
        """What to sync after a file was created, renamed or deleted."""
        if Safeguard.DIRECTORY_SYNC not in self.safeguards:
            return []
        return [self.disk.directory(self.path)]

    def all_entries(self) -> list[Syncable]:
        """What to sync after the directory itself was created."""
        if Safeguard.DIRECTORY_SYNC not in self.safeguards:
            return []
        return [self.disk.directory(path) for path in reversed(ancestors(self.path))]

    def sync_entries(self) -> None:
        for directory in self.entries():
            directory.sync()

    def check_room(self) -> None:
        """`DiskFull` if a log that begins anew would not find room for its small files: asked
        before the old ones go, since half a new beginning is none. A file is written, and deleted.
        """
        path = f"{self.path}/{ROOM_PROBE}"
        try:
            file = self.disk.open(path, create=True)
            file.write(0, (bytes(_BEGINNING_BYTES),))
            file.close()
        finally:
            self.disk.delete(path)

    # --- segments -----------------------------------------------------------------------------

    def segment_bases(self) -> list[int]:
        return offsets_of(self.names, LOG)

    def segment_bases_now(self) -> list[int]:
        """Of all segments on disk, those that wait for their deletion included."""
        return offsets_of(self.disk.list(self.path), LOG)

    def open_segment(self, base_offset: int, *, end_offset: int) -> Segment:
        return self._segment(base_offset, end_offset, create=False)

    def create_segment(self, base_offset: int) -> Segment:
        return self._segment(base_offset, base_offset, create=True)

    def create_cleaned_segment(self, base_offset: int) -> Segment:
        """One that is not part of the log yet: see `swap`."""
        self.delete_cleaned(base_offset)
        return self._segment(base_offset, base_offset, create=True, suffix=CLEANED_SUFFIX)

    def delete_cleaned(self, base_offset: int) -> None:
        for kind in (INDEX, TIME_INDEX, LOG):
            self.disk.delete(offset_path(self.path, base_offset, kind) + CLEANED_SUFFIX)

    def _segment(
        self, base_offset: int, end_offset: int, *, create: bool, suffix: str = ""
    ) -> Segment:
        return Segment(
            self.disk,
            self.path,
            base_offset,
            end_offset=end_offset,
            index_interval_bytes=self.settings.index_interval_bytes,
            epochs=self.epochs,
            reports=self.reports,
            create=create,
            suffix=suffix,
        )

    def delete_segment(self, base_offset: int) -> None:
        self.delete_indexes(base_offset)
        self.disk.delete(offset_path(self.path, base_offset, LOG))

    def delete_indexes(self, base_offset: int) -> None:
        for kind in (INDEX, TIME_INDEX):
            self.disk.delete(offset_path(self.path, base_offset, kind))

    def torn_path(self, base_offset: int) -> str:
        """A name for evidence that is not taken yet."""
        path = offset_path(self.path, base_offset, TORN)
        number = 0
        while self.disk.exists(path if not number else f"{path}.{number}"):
            number += 1
        return path if not number else f"{path}.{number}"

    def create_torn(self, base_offset: int) -> File:
        return self.disk.open(self.torn_path(base_offset), create=True)

    # --- producer snapshots -------------------------------------------------------------------

    def snapshot_offsets(self) -> list[int]:
        return offsets_of(self.disk.list(self.path), SNAPSHOT)

    def load_producers(self, up_to: int) -> tuple[Producers, int]:
        """The newest sound snapshot not beyond the offset, and its offset; else nothing, -1."""
        producers = Producers()
        for offset in reversed(self.snapshot_offsets()):
            if offset <= up_to:
                data = self.read_whole(offset_path(self.path, offset, SNAPSHOT))
                if data is not None and producers.decode(data, offset):
                    return producers, offset
        return producers, -1

    def save_producers(self, producers: Producers, offset: int) -> File:
        """Checksummed, so a torn one is merely ignored."""
        file = self.disk.open(offset_path(self.path, offset, SNAPSHOT), create=True)
        data = producers.encode(offset)
        file.truncate(len(data))
        file.write(0, (data,))
        for old in self.snapshot_offsets()[:-SNAPSHOTS_KEPT]:
            self.disk.delete(offset_path(self.path, old, SNAPSHOT))
        return file

    def delete_snapshots(self, is_doomed: Callable[[int], bool]) -> bool:
        """Whether there were any."""
        doomed = [offset for offset in self.snapshot_offsets() if is_doomed(offset)]
        for offset in doomed:
            self.disk.delete(offset_path(self.path, offset, SNAPSHOT))
        return bool(doomed)

    # --- the epoch checkpoint -----------------------------------------------------------------

    def load_epochs(self) -> bool:
        data = self.read_whole(f"{self.path}/{EPOCHS}") if EPOCHS in self.names else None
        return data is not None and self.epochs.decode(data)

    def save_epochs(self) -> File:
        file = self._write_whole(f"{self.path}/{EPOCHS}", self.epochs.encode())
        self.epochs.is_changed = False
        return file

    # --- the cleaner's checkpoint -------------------------------------------------------------

    def load_cleaned_offset(self) -> int:
        """All below it has been compacted; 0 if nobody knows, which costs work and no more."""
        data = self.read_whole(f"{self.path}/{CLEANED}") if CLEANED in self.names else None
        offset = (data or b"").partition(b" ")[0]
        return int(offset) if offset.isdigit() and data == _checked(offset) else 0

    def save_cleaned_offset(self, offset: int) -> File:
        return self._write_whole(f"{self.path}/{CLEANED}", _checked(b"%d" % offset))

    # --- small files --------------------------------------------------------------------------

    def _write_whole(self, path: str, data: bytes) -> File:
        file = self.disk.open(path + TEMPORARY_SUFFIX, create=True)
        file.truncate(len(data))
        file.write(0, (data,))
        self.disk.rename(path + TEMPORARY_SUFFIX, path)
        return file

    def read_whole(self, path: str) -> bytes | None:
        """A small file; none if it is absent or can't be read: whoever asks can do without."""
        try:
            file = self.disk.open(path)
            return file.read(0, file.size())
        except (FileNotFoundError, DiskError):
            return None


def _checked(number: bytes) -> bytes:
    return b"%b %08x\n" % (number, crc32c(number))
