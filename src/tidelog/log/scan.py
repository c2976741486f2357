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


def walk_checked(
    file: File, position: int, end: int, *, chunk_bytes: int = CHECKED_CHUNK_BYTES
) -> Iterator[tuple[int, BatchHeader | None]]:
    """As `walk`, and every batch is read whole and its checksum computed."""
    chunk, chunk_from = memoryview(b""), position
    while position < end:
        at = position - chunk_from
        if at + HEADER_BYTES > len(chunk):
            chunk, chunk_from, at = _chunk(file, position, end, chunk_bytes), position, 0
        if len(chunk) - at < HEADER_BYTES:
            yield position, None
            return
        header = read_header(chunk, at)
        if not is_plausible(header, end - position):
            yield position, None
            return
        size = header.size
        if at + size > len(chunk):
            wanted = max(size, chunk_bytes)
            chunk, chunk_from, at = _chunk(file, position, end, wanted), position, 0
        if len(chunk) < at + size or computed_crc(chunk[at : at + size]) != header.crc:
            yield position, None
            return
        yield position, header
        position += size


def _chunk(file: File, position: int, end: int, size: int) -> memoryview:
    return memoryview(file.read(position, min(size, end - position)))


def find_batch(
    file: File, position: int, end: int, *, low: int, high: int
) -> tuple[int, BatchHeader] | None:
    """The first whole, valid batch at or after `position` whose offsets lie in [low, high).

    For getting past damage that has destroyed a batch's length: every byte is tried, the checksum
    decides, and the header that follows has a say in the offset.
    """
    while True:
        at, header = seek_batch(file, position, end, low=low, high=high)
        if header is not None:
            return at, header
        if at >= end:
            return None
        position = at


def seek_batch(
    file: File,
    position: int,
    end: int,
    *,
    low: int,
    high: int,
    max_bytes: int = CHECKED_CHUNK_BYTES,
) -> tuple[int, BatchHeader | None]:
    """A part of `find_batch`: about `max_bytes` are looked at, those included that have to be read
    because what stands there could be a header. If none was found, where to go on; `end` if there
    is nothing more to look at."""
    if position + HEADER_BYTES > end:
        return end, None
    window = file.read(position, min(max(max_bytes, HEADER_BYTES), end - position))
    if len(window) < HEADER_BYTES:
        return end, None
    left = max_bytes
    for match in _header_pattern(low, high).finditer(window):
        at = position + match.start()
        if at + HEADER_BYTES > position + len(window):
            break
        if left <= 0:
            return at, None
        header = read_header(window, at - position)
        if _may_be_sought(header, end - at, low, high):
            if is_intact(file, at, header) and _is_followed(file, at, header, end):
                return at, header
            left -= header.size
    position += len(window) - HEADER_BYTES + 1
    return (position if position + HEADER_BYTES <= end else end), None


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


def _is_followed(file: File, position: int, header: BatchHeader, end: int) -> bool:
    """The base offset lies outside the checksum: one that the next header contradicts is wrong."""
    after = position + header.size
    data = file.read(after, HEADER_BYTES) if after + HEADER_BYTES <= end else b""
    if len(data) < HEADER_BYTES:
        return True
    following = read_header(data)
    return not is_plausible(following, end - after) or following.base_offset >= header.next_offset


def is_intact(file: File, position: int, header: BatchHeader) -> bool:
    """The batch at `position`, whose header this is, has the checksum it says."""
    batch = file.read(position, header.size)
    return len(batch) == header.size and computed_crc(batch) == header.crc
