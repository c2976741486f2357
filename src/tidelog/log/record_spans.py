"""The records of a batch without making them: where each lies, its key, and whether it is null.

HOT in compaction and in appends to compacted topics: once per record, so varints of one byte are
read in place and nothing is built but a tuple and the key.
"""

from __future__ import annotations

from collections.abc import Iterator

from tidelog.wire.batch import HEADER_BYTES, BatchHeader
from tidelog.wire.compression import decompress
from tidelog.wire.errors import DecodeError
from tidelog.wire.varints import read_varint, read_varlong, uvarint_rest

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
    position, last_delta, limit = 0, -1, header.last_offset_delta
    try:
        for _ in range(header.records_count):
            span, position = _span_at(body, position)
            if not last_delta < span[3] <= limit:
                raise DecodeError(f"a record's offset is {span[3]} from its batch's")
            last_delta = span[3]
            yield span
    except IndexError:
        raise DecodeError("a record is cut off") from None
    if position != len(body):
        raise DecodeError(f"{len(body) - position} bytes follow the last record")


def _span_at(body: bytes, start: int) -> tuple[RecordSpan, int]:
    size, position = body[start], start + 1
    if size > 0x7F:
        size, position = uvarint_rest(body, position, size)
    end = position + (size >> 1)
    if size & 1 or end > len(body):
        raise DecodeError("a record is longer than its batch")
    timestamp, position = body[position + 1], position + 2
    if timestamp > 0x7F:
        timestamp, position = read_varlong(body, position - 1)
    else:
        timestamp = (timestamp >> 1) ^ -(timestamp & 1)
    delta, position = read_varint(body, position)
    key_size, position = read_varint(body, position)
    key: bytes | None = None
    if key_size >= 0:
        key = body[position : position + key_size]
        position += key_size
    if key_size < -1 or position >= end:
        raise DecodeError("a key is longer than its record")
    return (start, end, timestamp, delta, key, body[position] == _NULL), end
