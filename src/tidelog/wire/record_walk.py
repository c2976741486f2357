"""The records of a batch walked over without making them: is each what and where it says it is?

HOT PATH: once for each record that a producer sends to a topic with `records.validation=full`. One
loop over `bytes` that holds nothing but integers, so that it can be compiled as it is; varints of
one and two bytes, which most are, are read in place. Compared in docs/decisions/0022.

A record is sound when

- its length ends where its fields end, and within the body;
- every varint has at most five bytes, ten for the timestamp, and every length is 0 or more, or -1
  for a null key or value;
- its offset is its number: producers count from 0, without gaps;
- no header's key is null.

All headers of a batch are at most `MAX_BATCH_HEADERS`, which is judged by the counts that stand
before them: a few bytes can decompress to millions of headers, and each would be a step.

What the key, the value and the headers contain is nobody's business but the client's.
"""

from __future__ import annotations

from tidelog.model.limits import MAX_BATCH_HEADERS
from tidelog.wire.errors import DecodeError
from tidelog.wire.varints import read_varint, read_varlong, uvarint_rest

NULL = 1
"""The length -1 as a zigzag varint."""

_LONGEST_LENGTH = 5
"""Bytes of a varint."""


def walk_records(
    body: bytes, *, body_bytes: int, count: int, most: int, keyless: list[int] | None = None
) -> int:
    """The latest timestamp, relative to the batch's, of the records seen; `DecodeError` at the
    first that is not sound.

    `body` is what a batch of `count` records has after its header, decompressed. If all of them are
    asked for, they must be all that there is. The walk ends after `most` records, or before the
    record that reaches beyond `body`, where that is but the beginning of `body_bytes`. The numbers
    of records without a key are appended to `keyless`.
    """
    index, position, latest, available, headers = -1, 0, -(2**63), len(body), 0
    last_start = available - (_LONGEST_LENGTH if available < body_bytes else 0)
    try:
        for index in range(min(most, count)):
            if position > last_start:
                return latest
            size, position = body[position], position + 1
            if size > 0x7F:
                more, position = body[position], position + 1
                if more > 0x7F:
                    size, position = uvarint_rest(body, position - 1, size)
                else:
                    size += (more << 7) - 0x80
            end = position + (size >> 1)
            if size & 1 or end > available:
                if size & 1 or end > body_bytes or (index == count - 1 and end != body_bytes):
                    raise _misfit(size, body_bytes - position)
                return latest
            timestamp, position = body[position + 1], position + 2
            if timestamp:
                timestamp, position = read_varlong(body, position - 1)
            if timestamp > latest:
                latest = timestamp
            size, position = body[position], position + 1
            if size > 0x7F:
                size, position = uvarint_rest(body, position, size)
            if size != index << 1:
                raise DecodeError(f"its offset within the batch is {_signed(size)}")
            size, position = body[position], position + 1
            if size != NULL:
                position = _end(body, position, size) if size & 0x81 else position + (size >> 1)
            elif keyless is not None:
                keyless.append(index)
            size, position = body[position], position + 1
            if size != NULL:
                position = _end(body, position, size) if size & 0x81 else position + (size >> 1)
            if body[position]:
                headers, position = _after_headers(body, position, end, headers)
            else:
                position += 1
            if position != end:
                raise DecodeError("its fields do not add up to its length")
    except IndexError:
        raise DecodeError(f"index {index} of {count} records: it is cut off") from None
    except DecodeError as error:
        raise DecodeError(f"index {index} of {count} records: {error}") from None
    if most >= count and position != body_bytes:
        raise DecodeError(f"{body_bytes - position} bytes follow the last of {count} records")
    return latest


def _end(body: bytes, position: int, first: int) -> int:
    """Where a key or a value ends whose length, not -1, begins with the byte `first`."""
    size = first
    if size > 0x7F:
        more, position = body[position], position + 1
        if more > 0x7F:
            size, position = uvarint_rest(body, position - 1, size)
        else:
            size += (more << 7) - 0x80
    if size & 1:
        raise DecodeError(f"its key or value has the length {_signed(size)}")
    return position + (size >> 1)


def _after_headers(body: bytes, position: int, end: int, before: int) -> tuple[int, int]:
    """How many headers the batch has so far, which were `before`, and where the record's end."""
    count, position = read_varint(body, position)
    if not 0 <= count <= end - position:
        raise DecodeError(f"it claims {count} headers")
    if before + count > MAX_BATCH_HEADERS:
        raise DecodeError(
            f"the headers up to here are {before + count}, and all records of a batch together "
            f"may have {MAX_BATCH_HEADERS} (MAX_BATCH_HEADERS)"
        )
    for _ in range(count):
        size, position = read_varint(body, position)
        if size < 0:
            raise DecodeError(f"the key of a header has the length {size}")
        first, position = body[position + size], position + size + 1
        if first != NULL:
            position = _end(body, position, first)
    return before + count, position


def _signed(zigzag: int) -> int:
    return (zigzag >> 1) ^ -(zigzag & 1)


def _misfit(size: int, left: int) -> DecodeError:
    return DecodeError(f"its length is {_signed(size)} where {left} bytes are left")
