"""The flushed mark: how far the log is known to have survived an fsync, for the next start.

Below the mark an unreadable batch is damage; above it, what a crash leaves. So the mark itself must
survive a crash while it is being written: it has two slots, written in turn, and the second is not
touched before the first is known to be durable (`is_settled`).
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from crc32c import crc32c

from tidelog.log.disk import Disk, File
from tidelog.log.paths import FLUSHED

_SLOT_BYTES = 4096
"""A slot has a disk sector to itself: tearing one leaves the other."""

_MAGIC = b"TDLM"
_VERSION = 1
_FIELDS = struct.Struct(">4sBBqqqqqIii")
_CRC = struct.Struct(">I")
_ENCODED_BYTES = _FIELDS.size + _CRC.size


class Mark(NamedTuple):
    """`flushed_offset` begins at `position` of the segment `segment_base`.

    `*_entries`: how many the segment's index files had then, all below or beyond the offset.
    `is_clean`: the log ended there when it was closed, and nothing was pending.
    """

    sequence: int
    flushed_offset: int
    segment_base: int
    position: int
    log_start_offset: int
    epochs_checksum: int
    index_entries: int = 0
    time_index_entries: int = 0
    is_clean: bool = False


class MarkFile:
    """The file `flushed` of one partition."""

    def __init__(self, disk: Disk, directory: str) -> None:
        self.path = f"{directory}/{FLUSHED}"
        self.is_settled = True
        """The last write is durable, so the other slot may be written."""
        self.is_damaged = False
        """There was a mark, and it can't be read any more."""
        self.sure_start = 0
        """The log start in both slots: one that is lost with the power leaves at least this."""
        self._disk = disk
        self._file: File | None = None

    def load(self) -> Mark | None:
        try:
            self._file = self._disk.open(self.path)
        except FileNotFoundError:
            return None
        self.is_settled = False
        data = self._file.read(0, _SLOT_BYTES + _ENCODED_BYTES)
        slots = [data[:_ENCODED_BYTES], data[_SLOT_BYTES:]]
        marks = [mark for mark in map(_decoded, slots) if mark is not None]
        # A first mark may be torn by a crash like any write: then the other slot is still blank.
        self.is_damaged = not marks and all(slot.strip(b"\0") for slot in slots)
        if len(marks) == len(slots):
            self.sure_start = min(mark.log_start_offset for mark in marks)
        return max(marks, default=None)

    def create(self) -> None:
        """An empty file, so that its name becomes durable together with the log's."""
        if self._file is None:
            self._file = self._disk.open(self.path, create=True)

    def write(self, mark: Mark) -> None:
        """To the operating system; the caller sees to it that the file is synced in time."""
        assert self.is_settled, "both slots of the flushed mark would be at risk"
        self.create()
        assert self._file is not None
        self._file.write(mark.sequence % 2 * _SLOT_BYTES, (_encoded(mark),))
        self.is_settled = False

    def file(self) -> File:
        """The file that was written: what to sync for `is_settled` to become true."""
        assert self._file is not None, "no mark was written"
        return self._file

    def settle(self) -> None:
        """Wait until the last write is durable."""
        if not self.is_settled:
            self.file().sync()
            self.is_settled = True


def _encoded(mark: Mark) -> bytes:
    fields = _FIELDS.pack(
        _MAGIC,
        _VERSION,
        mark.is_clean,
        mark.sequence,
        mark.flushed_offset,
        mark.segment_base,
        mark.position,
        mark.log_start_offset,
        mark.epochs_checksum,
        mark.index_entries,
        mark.time_index_entries,
    )
    return fields + _CRC.pack(crc32c(fields))


def _decoded(slot: bytes) -> Mark | None:
    if len(slot) != _ENCODED_BYTES:
        return None
    fields, (crc,) = slot[: _FIELDS.size], _CRC.unpack_from(slot, _FIELDS.size)
    magic, version, is_clean, *numbers = _FIELDS.unpack(fields)
    if magic != _MAGIC or version != _VERSION or crc != crc32c(fields):
        return None
    return Mark._make([*numbers, bool(is_clean)])
