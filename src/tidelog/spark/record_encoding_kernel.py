"""Arrow's buffers to records of a batch, compiled; and the partition of each key.

HOT PATH: free functions over arrays, measured by `tidelog bench spark`. The reverse of
`record_decoding_kernel.py`. A caller gives room enough (`room_for_rows`).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tidelog.spark.compiling import BYTES, INTS, compiled, inlined

Ints = Any
Bytes = Any
"""numpy arrays; numba's signatures say which."""

at = np.uint64
"""An index: unsigned, it can't mean "from the end", which is what makes copying fast."""

NO_PARTITION = -1

_ROOM_PER_RECORD = 40
"""Its size, attributes, two deltas and three lengths, each as long as it can be."""
_ROOM_PER_HEADER = 10

_MASK = 0xFFFFFFFF
_MULTIPLIER = 0x5BD1E995
_SEED = 0x9747B28C


@inlined
def is_set(bits: Bytes, row: int) -> bool:
    return bool((bits[at(row >> 3)] >> (row & 7)) & 1)


@inlined
def murmur2(data: Bytes, start: int, end: int) -> int:
    """Of Kafka's own clients: the same key goes to the same partition, whoever writes it."""
    size = end - start
    value = _SEED ^ size
    position = start
    for _ in range(size // 4):
        word = (
            data[at(position)]
            | data[at(position + 1)] << 8
            | data[at(position + 2)] << 16
            | data[at(position + 3)] << 24
        )
        word = (word * _MULTIPLIER) & _MASK
        word ^= word >> 24
        word = (word * _MULTIPLIER) & _MASK
        value = ((value * _MULTIPLIER) & _MASK) ^ word
        position += 4
    left = end - position
    if left >= 3:
        value ^= data[at(position + 2)] << 16
    if left >= 2:
        value ^= data[at(position + 1)] << 8
    if left >= 1:
        value = ((value ^ data[at(position)]) * _MULTIPLIER) & _MASK
    value ^= value >> 13
    value = (value * _MULTIPLIER) & _MASK
    return value ^ (value >> 15)


@compiled(f"void({INTS}, {BYTES}, {BYTES}, int32[::1], int64, int64, int64)")
def choose_partitions(
    key_offsets: Ints,
    keys: Bytes,
    keys_valid: Bytes,
    partitions: Ints,
    count: int,
    turn: int,
    run: int,
) -> None:
    """Fill in the partition of every row that has none: by its key, or, where there is no key, in
    turn, `run` rows at a time."""
    without_key = 0
    for row in range(len(partitions)):
        if partitions[at(row)] != NO_PARTITION:
            continue
        if is_set(keys_valid, row):
            value = murmur2(keys, key_offsets[at(row)], key_offsets[at(row + 1)])
            partitions[at(row)] = (value & 0x7FFFFFFF) % count
        else:
            partitions[at(row)] = (turn + without_key // run) % count
            without_key += 1


@compiled(f"void({INTS}, {INTS}, {INTS}, {INTS}, {INTS}, int64, int64[::1])")
def room_for_rows(
    key_offsets: Ints,
    value_offsets: Ints,
    list_offsets: Ints,
    header_key_offsets: Ints,
    header_value_offsets: Ints,
    has_headers: int,
    rooms: Ints,
) -> None:
    """The most bytes that each row can take as a record."""
    for row in range(len(rooms)):
        room = (
            _ROOM_PER_RECORD
            + (key_offsets[at(row + 1)] - key_offsets[at(row)])
            + (value_offsets[at(row + 1)] - value_offsets[at(row)])
        )
        if has_headers:
            first, last = list_offsets[at(row)], list_offsets[at(row + 1)]
            room += (
                _ROOM_PER_HEADER * (last - first)
                + (header_key_offsets[at(last)] - header_key_offsets[at(first)])
                + (header_value_offsets[at(last)] - header_value_offsets[at(first)])
            )
        rooms[at(row)] = room


@inlined
def varint_size(value: int) -> int:
    rest = (value << 1) ^ (value >> 63)
    size = 1
    while rest > 0x7F or rest < 0:
        rest = (rest >> 7) & 0x01FFFFFFFFFFFFFF
        size += 1
    return size


@inlined
def put_varint(out: Bytes, position: int, value: int) -> int:
    rest = (value << 1) ^ (value >> 63)
    while rest > 0x7F or rest < 0:
        out[at(position)] = (rest & 0x7F) | 0x80
        rest = (rest >> 7) & 0x01FFFFFFFFFFFFFF
        position += 1
    out[at(position)] = rest
    return position + 1


@inlined
def blob_size(offsets: Ints, valid: Bytes, row: int) -> int:
    """-1 for a null."""
    return offsets[at(row + 1)] - offsets[at(row)] if is_set(valid, row) else -1


@inlined
def put_blob(out: Bytes, position: int, data: Bytes, start: int, size: int) -> int:
    position = put_varint(out, position, size)
    for index in range(size):
        out[at(position + index)] = data[at(start + index)]
    return position + max(size, 0)


@inlined
def headers_size(first: int, last: int, keys: Ints, values: Ints, valid: Bytes) -> int:
    size = varint_size(last - first)
    for index in range(first, last):
        key_size, value_size = (
            keys[at(index + 1)] - keys[at(index)],
            blob_size(values, valid, index),
        )
        size += varint_size(key_size) + key_size
        size += varint_size(value_size) + max(value_size, 0)
    return size


@compiled(
    f"int64(int64[::1], int64[::1], int64, {INTS}, {BYTES}, {BYTES}, {INTS}, {BYTES}, {BYTES},"
    f" {INTS}, {INTS}, {BYTES}, {INTS}, {BYTES}, {BYTES}, int64, uint8[::1], int64)"
)
def encode_rows(
    order: Ints,
    timestamps: Ints,
    first_timestamp: int,
    key_offsets: Ints,
    keys: Bytes,
    keys_valid: Bytes,
    value_offsets: Ints,
    values: Bytes,
    values_valid: Bytes,
    list_offsets: Ints,
    header_key_offsets: Ints,
    header_keys: Bytes,
    header_value_offsets: Ints,
    header_values: Bytes,
    header_values_valid: Bytes,
    has_headers: int,
    out: Bytes,
    position: int,
) -> int:
    """The rows `order` as records of one batch, from `position` on; the position after them."""
    for delta in range(len(order)):
        row = order[at(delta)]
        passed = timestamps[at(row)] - first_timestamp
        key_size = blob_size(key_offsets, keys_valid, row)
        value_size = blob_size(value_offsets, values_valid, row)
        first, last = 0, 0
        if has_headers:
            first, last = list_offsets[at(row)], list_offsets[at(row + 1)]
        size = (
            1 + varint_size(passed) + varint_size(delta)
            + varint_size(key_size) + max(key_size, 0)
            + varint_size(value_size) + max(value_size, 0)
            + headers_size(
                first, last, header_key_offsets, header_value_offsets, header_values_valid
            )
        )  # fmt: skip
        position = put_varint(out, position, size)
        out[at(position)] = 0
        position = put_varint(out, position + 1, passed)
        position = put_varint(out, position, delta)
        position = put_blob(out, position, keys, key_offsets[at(row)], key_size)
        position = put_blob(out, position, values, value_offsets[at(row)], value_size)
        position = put_varint(out, position, last - first)
        for index in range(first, last):
            start = header_key_offsets[at(index)]
            position = put_blob(
                out, position, header_keys, start, header_key_offsets[at(index + 1)] - start
            )
            size = blob_size(header_value_offsets, header_values_valid, index)
            position = put_blob(out, position, header_values, header_value_offsets[at(index)], size)
    return position
