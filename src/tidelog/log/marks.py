"""The flushed mark: how far the log is known to have survived an fsync, for the next start.

Below the mark an unreadable batch is damage; above it, what a crash leaves. So the mark itself must
survive a crash while it is being written: it has two slots, written in turn, and the second is not
touched before the first is known to be durable (`is_settled`).

A mark that is synced with every flush would double the syncs of the hot path. So there is a third
place in the file, the *note*: written after every flush and never synced for its own sake. It is in
the page cache, which outlives a killed process; so after `kill -9` the flushed offset is known
exactly. After a power failure the note may be gone or stale, and then the mark decides.

The file has the room for all three from the beginning: were it to grow while it is used, a full
disk would refuse the note of a flush that others are told of.
"""

from __future__ import annotations

import struct
from contextlib import suppress
from typing import NamedTuple

from crc32c import crc32c

from tidelog.log.disk import Disk, DiskFull, File
from tidelog.log.paths import FLUSHED

_SLOT_BYTES = 4096
"""A slot has a disk sector to itself: tearing one leaves the other."""

_MAGIC = b"TDLM"
_VERSION = 1
_FIELDS = struct.Struct(">4sBBqqqqqIii")
_CRC = struct.Struct(">I")
_ENCODED_BYTES = _FIELDS.size + _CRC.size

_NOTE_AT = 2 * _SLOT_BYTES
_NOTE_FIELDS = struct.Struct(">4sqq")
_NOTE_MAGIC = b"TDLN"
_NOTE_BYTES = _NOTE_FIELDS.size + _CRC.size
_FILE_BYTES = _NOTE_AT + _NOTE_BYTES

NO_MARK = -1
"""The sequence number of a note that no mark could be written for: void with the first mark."""


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


class Note(NamedTuple):
    """How far the log was flushed since the mark with this sequence number was written."""

    sequence: int
    flushed_offset: int


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
        self.note: Note | None = None
        """As it was loaded, if it says more than the mark."""
        self._disk = disk
        self._file: File | None = None

    def load(self) -> Mark | None:
        try:
            self._file = self._disk.open(self.path)
        except FileNotFoundError:
            return None
        self.is_settled = False
        data = self._file.read(0, _SLOT_BYTES + _ENCODED_BYTES)
        slots = _slots(data)
        marks = marks_in(data)
        # A first mark may be torn by a crash like any write: then the other slot is still blank.
        self.is_damaged = not marks and all(slot.strip(b"\0") for slot in slots)
        if len(marks) == len(slots):
            self.sure_start = min(mark.log_start_offset for mark in marks)
        newest = max(marks, default=None)
        self._load_note(newest)
        return newest

    def _load_note(self, mark: Mark | None) -> None:
        """A note of before the mark was overtaken by it: by a truncation, for instance."""
        assert self._file is not None
        note = _decoded_note(self._file.read(_NOTE_AT, _NOTE_BYTES))
        if note is None or (mark is not None and note.sequence < mark.sequence):
            return
        if mark is None or note.flushed_offset > mark.flushed_offset:
            self.note = note

    def create(self) -> None:
        """A file without marks, so that its name becomes durable together with the log's.
        `DiskFull` if there is no room for all that it will hold."""
        self._opened().take_room(_FILE_BYTES)

    def _opened(self) -> File:
        if self._file is None:
            self._file = self._disk.open(self.path, create=True)
        return self._file

    def write(self, mark: Mark) -> None:
        """To the operating system; the caller sees to it that the file is synced in time."""
        assert self.is_settled, "both slots of the flushed mark would be at risk"
        file = self._opened()
        if file.size() < _FILE_BYTES:
            with suppress(DiskFull):  # this slot may have its own, in a file of an earlier release
                file.take_room(_FILE_BYTES)
        file.write(mark.sequence % 2 * _SLOT_BYTES, (_encoded(mark),))
        self.is_settled = False

    def write_note(self, note: Note) -> None:
        """To the operating system, and no further: not even when the file's descriptor is wanted
        for another, which would be a sync in the midst of a step."""
        fields = _NOTE_FIELDS.pack(_NOTE_MAGIC, *note)
        file = self._file or self._opened()
        file.write(_NOTE_AT, (fields + _CRC.pack(crc32c(fields)),), needs_sync=False)

    def file(self) -> File:
        """The file that was written: what to sync for `is_settled` to become true."""
        assert self._file is not None, "no mark was written"
        return self._file

    def settle(self) -> None:
        """Wait until the last write is durable."""
        if not self.is_settled:
            self.file().sync()
            self.is_settled = True


def _slots(data: bytes) -> list[bytes]:
    return [data[:_ENCODED_BYTES], data[_SLOT_BYTES : _SLOT_BYTES + _ENCODED_BYTES]]


def marks_in(data: bytes) -> list[Mark]:
    """The readable ones in the file's first bytes."""
    return [mark for mark in map(_decoded, _slots(data)) if mark is not None]


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


def _decoded_note(data: bytes) -> Note | None:
    if len(data) != _NOTE_BYTES:
        return None
    fields, (crc,) = data[: _NOTE_FIELDS.size], _CRC.unpack_from(data, _NOTE_FIELDS.size)
    magic, *numbers = _NOTE_FIELDS.unpack(fields)
    return Note._make(numbers) if magic == _NOTE_MAGIC and crc == crc32c(fields) else None


def _decoded(slot: bytes) -> Mark | None:
    if len(slot) != _ENCODED_BYTES:
        return None
    fields, (crc,) = slot[: _FIELDS.size], _CRC.unpack_from(slot, _FIELDS.size)
    magic, version, is_clean, *numbers = _FIELDS.unpack(fields)
    if magic != _MAGIC or version != _VERSION or crc != crc32c(fields):
        return None
    return Mark._make([*numbers, bool(is_clean)])
