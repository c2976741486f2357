"""The records of a batch without making them: where each lies, its key, and whether it is null.

HOT in compaction and in appends to compacted topics: once per record, so varints of one byte are
read in place and nothing is built but a tuple and the key.
"""

from __future__ import annotations

from collections.abc import Iterator

from tidelog.wire.batch import HEADER_BYTES, BatchHeader
from tidelog.wire.compression import decompress
from tidelog.wire.errors import DecodeError
from tidelog.wire.varints import read_varlong, uvarint_rest

MAX_OPENED_BYTES = 64 * 1024 * 1024
"""What a batch may decompress to; one that yields more is not opened."""

_NULL = 1
"""The length -1 as a zigzag varint."""

RecordSpan = tuple[int, int, int, int, bytes | None, bool]
"""Start and end in the body, timestamp and offset relative to the batch's, key, has a null value.
"""


def body_of(batch: bytes | bytearray | memoryview, header: BatchHeader) -> bytes:
    """All records of the batch, decompressed; `DecodeError` if that can't be done."""
    return bytes(decompress(memoryview(batch)[HEADER_BYTES:], header.compression, MAX_OPENED_BYTES))


def record_spans(body: bytes, header: BatchHeader) -> Iterator[RecordSpan]:
    """One after the other. `DecodeError` when the body turns out not to be `records_count` records
    with ascending offsets within the batch's."""
    position, last_delta, length = 0, -1, len(body)
    limit = header.last_offset_delta
    try:
        for _ in range(header.records_count):
            start = position
            size, position = body[position], position + 1
            if size > 0x7F:
                size, position = uvarint_rest(body, position, size)
            end = position + (size >> 1)
            timestamp, position = body[position + 1], position + 2
            if timestamp > 0x7F:
                timestamp, position = read_varlong(body, position - 1)
            else:
                timestamp = (timestamp >> 1) ^ -(timestamp & 1)
            delta, position = body[position], position + 1
            if delta > 0x7F:
                delta, position = uvarint_rest(body, position, delta)
            key_size, position = body[position], position + 1
            if key_size > 0x7F:
                key_size, position = uvarint_rest(body, position, key_size)
            key_end = position if key_size == _NULL else position + (key_size >> 1)
            has_sense = (key_size == _NULL or not key_size & 1) and not (size | delta) & 1
            if not has_sense or not last_delta < delta >> 1 <= limit or not key_end < end <= length:
                raise DecodeError("a record makes no sense within its batch")
            last_delta = delta >> 1
            key = None if key_size == _NULL else body[position:key_end]
            yield start, end, timestamp, last_delta, key, body[key_end] == _NULL
            position = end
    except IndexError:
        raise DecodeError("a record is cut off") from None
    if position != length:
        raise DecodeError(f"{length - position} bytes follow the last record")
