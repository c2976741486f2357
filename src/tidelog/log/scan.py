"""Batch by batch through a segment file, for those who have no index or do not trust it.

HOT at recovery and at cold reads: free functions, no object per batch but its header.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tidelog.log.disk import File
from tidelog.wire.batch import HEADER_BYTES, MAGIC, BatchHeader, computed_crc, read_header

FIRST_READ_BYTES = 4096
CHUNK_BYTES = 64 * 1024
CHECKED_CHUNK_BYTES = 1024 * 1024
_SMALL_BATCH_BYTES = 8 * 1024
"""Up to here a whole chunk, with the next headers in it, is cheaper than a read per header."""

_ATTRIBUTES_KNOWN = 0x7F


def is_plausible(header: BatchHeader, room: int) -> bool:
    """The header could be one: its batch fits into `room` bytes. Says nothing of the payload."""
    return (
        header.magic == MAGIC
        and HEADER_BYTES <= header.size <= room
        and header.base_offset >= 0
        and header.last_offset_delta >= 0
    )


def walk(file: File, position: int, end: int) -> Iterator[tuple[int, BatchHeader | None]]:
    """Each batch's position and header from `position`, a batch's begin, up to `end`.

    Only headers are looked at. `None` for a header says that nothing readable begins there, and
    is the last.
    """
    chunk, chunk_from = b"", position
    want = FIRST_READ_BYTES
    while position < end:
        at = position - chunk_from
        if at + HEADER_BYTES > len(chunk):
            chunk, chunk_from, at = file.read(position, min(want, end - position)), position, 0
        if len(chunk) - at < HEADER_BYTES:
            yield position, None
            return
        header = read_header(chunk, at)
        if not is_plausible(header, end - position):
            yield position, None
            return
        yield position, header
        size = header.size
        position += size
        want = CHUNK_BYTES if size <= _SMALL_BATCH_BYTES else HEADER_BYTES


def walk_checked(file: File, position: int, end: int) -> Iterator[tuple[int, BatchHeader | None]]:
    """As `walk`, and every batch is read whole and its checksum computed."""
    chunk, chunk_from = memoryview(b""), position
    while position < end:
        at = position - chunk_from
        if at + HEADER_BYTES > len(chunk):
            chunk, chunk_from, at = _chunk(file, position, end, CHECKED_CHUNK_BYTES), position, 0
        if len(chunk) - at < HEADER_BYTES:
            yield position, None
            return
        header = read_header(chunk, at)
        if not is_plausible(header, end - position):
            yield position, None
            return
        size = header.size
        if at + size > len(chunk):
            chunk, chunk_from, at = _chunk(file, position, end, size), position, 0
        if len(chunk) < at + size or computed_crc(chunk[at : at + size]) != header.crc:
            yield position, None
            return
        yield position, header
        position += size


def _chunk(file: File, position: int, end: int, size: int) -> memoryview:
    return memoryview(file.read(position, min(max(size, CHECKED_CHUNK_BYTES), end - position)))


def find_batch(
    file: File, position: int, end: int, *, low: int, high: int
) -> tuple[int, BatchHeader] | None:
    """The first whole, valid batch at or after `position` whose offsets lie in [low, high).

    For getting past damage that has destroyed a batch's length: every byte is tried, the checksum
    decides.
    """
    pattern = _header_pattern(low, high)
    while position + HEADER_BYTES <= end:
        window = file.read(position, min(CHECKED_CHUNK_BYTES, end - position))
        if len(window) < HEADER_BYTES:
            return None
        for match in pattern.finditer(window):
            at = match.start()
            if at + HEADER_BYTES > len(window):
                break
            header = read_header(window, at)
            if _may_be_sought(header, end - position - at, low, high) and is_intact(
                file, position + at, header
            ):
                return position + at, header
        position += len(window) - HEADER_BYTES + 1
    return None


def _header_pattern(low: int, high: int) -> re.Pattern[bytes]:
    """Matches (without consuming, so that candidates may overlap) the bytes that any header of the
    offset range shares: the leading bytes of the offset, and the magic."""
    first, last = low.to_bytes(8, "big"), max(low, high - 1).to_bytes(8, "big")
    shared = 0
    while shared < 8 and first[shared] == last[shared]:
        shared += 1
    gap = b".{%d}" % (16 - shared)
    return re.compile(b"(?=" + re.escape(first[:shared]) + gap + b"\\x02)", re.DOTALL)


def _may_be_sought(header: BatchHeader, room: int, low: int, high: int) -> bool:
    return (
        is_plausible(header, room)
        and low <= header.base_offset
        and header.next_offset <= high
        and 0 <= header.records_count <= header.last_offset_delta + 1
        and header.attributes & ~_ATTRIBUTES_KNOWN == 0
    )


def is_intact(file: File, position: int, header: BatchHeader) -> bool:
    """The batch at `position`, whose header this is, has the checksum it says."""
    batch = file.read(position, header.size)
    return len(batch) == header.size and computed_crc(batch) == header.crc
