"""Are these bytes batches that a follower may take over from its leader? Looked at before anything
is changed.

They come with their offsets and epochs and are kept as they are, so all of that is checked here:
the first begins where our log ends, each begins where the one before ends, no epoch falls or is
newer than the leader's, and every checksum is right. A leader that has been compacted may answer
with a *filler* (a batch without records, see `compaction`) that begins before our end: the part of
it that is new to us is all we need.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tidelog.log.compaction import filler, is_filler
from tidelog.model.errors import ErrorCode
from tidelog.wire.batch import (
    HEADER_BYTES,
    LENGTH_PREFIX_BYTES,
    MAGIC,
    BatchHeader,
    has_valid_crc,
    read_header,
)

Checked = tuple[memoryview, list[BatchHeader]]


def check_replicated(
    records: memoryview, *, due: int, last_epoch: int, leader_epoch: int
) -> Checked | ErrorCode:
    """The batches from the offset `due` on, with their headers, or what is wrong with them."""
    headers: list[BatchHeader] = []
    position, end = 0, len(records)
    while position < end:
        if end - position < HEADER_BYTES:
            return ErrorCode.CORRUPT_MESSAGE
        header = read_header(records, position)
        size = header.batch_length + LENGTH_PREFIX_BYTES
        if header.magic != MAGIC or size < HEADER_BYTES or position + size > end:
            return ErrorCode.CORRUPT_MESSAGE
        batch = records[position : position + size]
        if header.last_offset_delta < 0 or not has_valid_crc(batch, header):
            return ErrorCode.CORRUPT_MESSAGE
        if not headers and is_filler(header) and header.base_offset < due <= header.last_offset:
            rest = filler(due, header.next_offset, header.leader_epoch)
            records = memoryview(rest + records[position + size :])
            end = len(records)
            continue
        if header.base_offset != due or not last_epoch <= header.leader_epoch <= leader_epoch:
            return ErrorCode.INVALID_RECORD
        headers.append(header)
        position += size
        due, last_epoch = header.next_offset, header.leader_epoch
    return (records, headers) if headers else ErrorCode.INVALID_RECORD


def split_runs(
    records: memoryview, headers: list[BatchHeader], room_left: Callable[[], int], *, limit: int
) -> Iterator[Checked]:
    """As much at a time as goes into one segment of `limit` bytes, so that segments end where the
    leader's do if that decides by size as well. `room_left` is of the segment that is written."""
    position = taken = first = 0
    room = room_left()
    for number, header in enumerate(headers):
        if taken and taken + header.size > room:
            yield records[position : position + taken], headers[first:number]
            position, taken, first = position + taken, 0, number
            room = room_left()
        if not taken and header.size > room:
            room = limit
        taken += header.size
    yield records[position:], headers[first:]
