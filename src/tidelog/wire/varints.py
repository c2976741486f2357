"""Variable-length integers: seven bits a byte, the lowest first; signed ones zigzag.

HOT PATH where a one-byte value is not handled in place by the caller: free functions, no classes.
"""

from __future__ import annotations

from tidelog.wire.errors import DecodeError

Buffer = bytes | bytearray | memoryview

_MAX_UVARINT32_SHIFT = 28
_MAX_UVARINT64_SHIFT = 63


def uvarint_rest(data: Buffer, position: int, first: int) -> tuple[int, int]:
    """Value and next position of an unsigned varint of 32 bits whose `first` byte is consumed."""
    value = first & 0x7F
    shift = 7
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
        if shift > _MAX_UVARINT32_SHIFT:
            raise DecodeError("a varint is longer than five bytes")
    if value > 0xFFFFFFFF:
        raise DecodeError("a varint exceeds 32 bits")
    return value, position


def read_uvarint(data: Buffer, position: int) -> tuple[int, int]:
    """Value and next position; `IndexError` past the end, for the caller to translate."""
    first = data[position]
    if first < 0x80:
        return first, position + 1
    return uvarint_rest(data, position + 1, first)


def read_varint(data: Buffer, position: int) -> tuple[int, int]:
    """A zigzag varint of up to 32 bits."""
    value = data[position]
    position += 1
    if value > 0x7F:
        value, position = uvarint_rest(data, position, value)
    return (value >> 1) ^ -(value & 1), position


def read_varlong(data: Buffer, position: int) -> tuple[int, int]:
    """A zigzag varint of up to 64 bits."""
    value = data[position]
    if value < 0x80:
        return (value >> 1) ^ -(value & 1), position + 1
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
        if shift > _MAX_UVARINT64_SHIFT:
            raise DecodeError("a varint is longer than ten bytes")
    if value > 0xFFFFFFFFFFFFFFFF:
        raise DecodeError("a varint exceeds 64 bits")
    return (value >> 1) ^ -(value & 1), position


def append_uvarint(out: bytearray, value: int) -> None:
    """`value` must not be negative."""
    while value > 0x7F:
        out.append((value & 0x7F) | 0x80)
        value >>= 7
    out.append(value)


def append_varint(out: bytearray, value: int) -> None:
    """Zigzag, for values of up to 64 bits."""
    if 0 <= value < 64:
        out.append(value << 1)
        return
    append_uvarint(out, (value << 1) ^ (value >> 63))
