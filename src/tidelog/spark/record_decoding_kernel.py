"""Record batches to Arrow's buffers, compiled.

HOT PATH: free functions over arrays, measured by `tidelog bench spark`. Nothing here allocates or
raises: a caller gives buffers that are large enough, and gets a negative number for what is wrong
with the peer's bytes (`MALFORMED` and its kin).

The format is told in `tidelog.wire.batch` and `tidelog.wire.records`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tidelog.spark.compiling import BYTES, compiled, inlined

Ints = Any
Bytes = Any
"""numpy arrays; numba's signatures say which."""

at = np.uint64
"""An index: unsigned, it can't mean "from the end", which is what makes copying fast."""

CUT_OFF = -1
"""A record or a length runs over the end of what holds it."""
BAD_LENGTH = -2
BAD_SIZE = -3
"""A record is not of the size it claims."""

BATCH_FIELDS = 11
(
    POSITION,
    SIZE,
    BASE_OFFSET,
    LAST_OFFSET,
    ATTRIBUTES,
    BASE_TIMESTAMP,
    MAX_TIMESTAMP,
    PRODUCER_ID,
    COUNT,
    CRC,
    MAGIC,
) = range(BATCH_FIELDS)

SECTION_FIELDS = 6
BEGIN, END, FIRST_OFFSET, FIRST_TIMESTAMP, APPEND_TIMESTAMP, RECORDS = range(SECTION_FIELDS)
"""The records of one batch within the buffer, decompressed. `APPEND_TIMESTAMP` is that of all
records where the broker wrote it, else -1."""

KEY_BYTES, VALUE_BYTES, KEY_NULLS, VALUE_NULLS, COUNTERS = range(5)
KEYS, VALUES, HEADERS = 1, 2, 4
"""Bits of what is wanted."""

HEADER_KEY_BYTES, HEADER_VALUE_BYTES, HEADER_VALUE_NULLS, HEADER_COUNTERS = range(4)


@inlined
def read_big_endian(data: Bytes, position: int, size: int) -> int:
    """A signed number of `size` bytes."""
    value = 0
    for index in range(size):
        value = (value << 8) | data[at(position + index)]
    bits = 8 * size
    if bits < 64 and value >> (bits - 1):
        value -= 1 << bits
    return value


@compiled(f"int64({BYTES}, int64[:, ::1])")
def scan_batches(data: Bytes, rows: Ints) -> int:
    """The header of each whole batch into a row; how many there are. What is cut off at the end of
    an answer comes again with the next fetch."""
    position, count, end = 0, 0, len(data)
    while position + 61 <= end and count < len(rows):
        size = read_big_endian(data, position + 8, 4) + 12
        if size < 61:
            return BAD_LENGTH
        if position + size > end:
            break
        row = rows[count]
        base_offset = read_big_endian(data, position, 8)
        row[POSITION] = position
        row[SIZE] = size
        row[BASE_OFFSET] = base_offset
        row[LAST_OFFSET] = base_offset + read_big_endian(data, position + 23, 4)
        row[ATTRIBUTES] = read_big_endian(data, position + 21, 2)
        row[BASE_TIMESTAMP] = read_big_endian(data, position + 27, 8)
        row[MAX_TIMESTAMP] = read_big_endian(data, position + 35, 8)
        row[PRODUCER_ID] = read_big_endian(data, position + 43, 8)
        row[COUNT] = read_big_endian(data, position + 57, 4)
        row[CRC] = read_big_endian(data, position + 17, 4) & 0xFFFFFFFF
        row[MAGIC] = read_big_endian(data, position + 16, 1)
        count += 1
        position += size
    return count


@inlined
def read_varint(data: Bytes, position: int, end: int) -> tuple[int, int]:
    """A zigzag number and the position after it, which is negative if there is none."""
    if position < 0 or position >= end:
        return 0, CUT_OFF
    value = 0
    shift = 0
    while shift < 64 and position < end:
        byte = data[at(position)]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            # The sign of a 64-bit zigzag lies in the lowest bit: the shift must not drag the
            # highest one along.
            return ((value >> 1) & 0x7FFFFFFFFFFFFFFF) ^ -(value & 1), position
        shift += 7
    return 0, CUT_OFF


@inlined
def copy_bytes(to: Bytes, start: int, data: Bytes, position: int, size: int) -> None:
    for index in range(size):
        to[at(start + index)] = data[at(position + index)]


@inlined
def check_blob(size: int, position: int, end: int) -> int:
    """The position after a key or value of that size (-1 is null), or what is wrong with it."""
    if position < 0:
        return CUT_OFF
    if size < -1:
        return BAD_LENGTH
    if size > end - position:
        return CUT_OFF
    return position + max(size, 0)


@inlined
def put_blob(
    filled: int,
    row: int,
    data: Bytes,
    position: int,
    size: int,
    offsets: Ints,
    out: Bytes,
    valid: Bytes,
) -> int:
    """Append a key or value to its column; the number of bytes in it then."""
    if size >= 0:
        copy_bytes(out, filled, data, position, size)
        filled += size
        valid[at(row >> 3)] |= 1 << (row & 7)
    offsets[at(row + 1)] = filled
    return filled


@inlined
def timestamp_of(section: Ints, delta: int) -> int:
    """The broker's, where it wrote one over all records."""
    stamp: int = section[APPEND_TIMESTAMP]
    return stamp if stamp >= 0 else section[FIRST_TIMESTAMP] + delta


@compiled(
    f"int64({BYTES}, int64[:, ::1], int64, int64, int64, int64[::1], int64[::1], int32[::1],"
    " int32[::1], uint8[::1], uint8[::1], int32[::1], uint8[::1], uint8[::1], int64[:, ::1],"
    " int64[::1])"
)
def decode_sections(
    data: Bytes,
    sections: Ints,
    lowest: int,
    highest: int,
    wanted: int,
    offsets: Ints,
    timestamps: Ints,
    types: Ints,
    key_offsets: Ints,
    keys: Bytes,
    keys_valid: Bytes,
    value_offsets: Ints,
    values: Bytes,
    values_valid: Bytes,
    header_spans: Ints,
    counters: Ints,
) -> int:
    """Records with offsets from `lowest` to below `highest`; how many, or what is wrong."""
    row = 0
    for index in range(len(sections)):
        section = sections[index]
        position, end = section[BEGIN], section[END]
        for _ in range(section[RECORDS]):
            size, position = read_varint(data, position, end)
            stop = position + size
            if position < 0 or size < 1 or stop > end:
                return CUT_OFF
            timestamp_delta, position = read_varint(data, position + 1, stop)
            offset_delta, position = read_varint(data, position, stop)
            key_size, key_at = read_varint(data, position, stop)
            position = check_blob(key_size, key_at, stop)
            value_size, value_at = read_varint(data, position, stop)
            position = check_blob(value_size, value_at, stop)
            if position < 0:
                return position
            offset = section[FIRST_OFFSET] + offset_delta
            if lowest <= offset < highest:
                offsets[at(row)] = offset
                types[at(row)] = section[APPEND_TIMESTAMP] >= 0
                timestamps[at(row)] = 1000 * timestamp_of(section, timestamp_delta)
                if wanted & KEYS:
                    counters[KEY_NULLS] += key_size < 0
                    counters[KEY_BYTES] = put_blob(
                        counters[KEY_BYTES], row, data, key_at, key_size, key_offsets, keys,
                        keys_valid,
                    )  # fmt: skip
                if wanted & VALUES:
                    counters[VALUE_NULLS] += value_size < 0
                    counters[VALUE_BYTES] = put_blob(
                        counters[VALUE_BYTES], row, data, value_at, value_size, value_offsets,
                        values, values_valid,
                    )  # fmt: skip
                if wanted & HEADERS:
                    header_spans[row, 0], header_spans[row, 1] = position, stop
                row += 1
            position = stop
        if position != end:
            return BAD_SIZE
    return row


@compiled(
    f"int64({BYTES}, int64[:, ::1], int64, int32[::1], uint8[::1], int32[::1], uint8[::1],"
    " int32[::1], uint8[::1], uint8[::1], int64[::1])"
)
def decode_headers(
    data: Bytes,
    spans: Ints,
    rows: int,
    list_offsets: Ints,
    lists_valid: Bytes,
    key_offsets: Ints,
    keys: Bytes,
    value_offsets: Ints,
    values: Bytes,
    values_valid: Bytes,
    counters: Ints,
) -> int:
    """The headers of `rows` records; how many there are in all, or what is wrong. A record
    without any has a null list, as in Spark's Kafka source."""
    filled = 0
    for row in range(rows):
        position, end = spans[row, 0], spans[row, 1]
        count, position = read_varint(data, position, end)
        if position < 0 or count < 0 or count > (end - position) // 2:
            return CUT_OFF
        if count:
            lists_valid[at(row >> 3)] |= 1 << (row & 7)
        for _ in range(count):
            size, start = read_varint(data, position, end)
            position = check_blob(size, start, end)
            if position < 0 or size < 0:
                return BAD_LENGTH
            copy_bytes(keys, counters[HEADER_KEY_BYTES], data, start, size)
            counters[HEADER_KEY_BYTES] += size
            key_offsets[at(filled + 1)] = counters[HEADER_KEY_BYTES]
            size, start = read_varint(data, position, end)
            position = check_blob(size, start, end)
            if position < 0:
                return position
            counters[HEADER_VALUE_NULLS] += size < 0
            counters[HEADER_VALUE_BYTES] = put_blob(
                counters[HEADER_VALUE_BYTES], filled, data, start, size, value_offsets, values,
                values_valid,
            )  # fmt: skip
            filled += 1
        if position != end:
            return BAD_SIZE
        list_offsets[at(row + 1)] = filled
    return filled
