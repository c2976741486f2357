"""The schema registry's framing: a zero byte, the schema's id in four, then the payload.

Protobuf has more: which message of the schema's file it is, as a path of indexes (zigzag varints,
their number first; a single zero stands for the path `[0]`).
"""

from __future__ import annotations

from typing import NamedTuple

MAGIC = 0
HEADER_BYTES = 5
_LONGEST_PATH = 100
"""Messages nested deeper than that are not sane, and the count is the peer's word."""


class FramingError(ValueError):
    """The bytes are not framed as the registry frames them."""


class Framed(NamedTuple):
    """What the frame said, and the payload in it."""

    schema_id: int
    payload: bytes


def unframe(value: bytes) -> Framed:
    if len(value) < HEADER_BYTES or value[0] != MAGIC:
        raise FramingError("no registry framing: a zero byte and a four-byte schema id are missing")
    return Framed(int.from_bytes(value[1:HEADER_BYTES], "big"), value[HEADER_BYTES:])


def without_message_path(payload: bytes) -> tuple[list[int], bytes]:
    """The path of message indexes that Protobuf payloads begin with, and the rest."""
    count, position = _zigzag(payload, 0)
    if not 0 <= count <= _LONGEST_PATH:
        raise FramingError(f"no registry framing: a path of {count} message indexes")
    if count == 0:
        return [0], payload[position:]
    path = []
    for _ in range(count):
        index, position = _zigzag(payload, position)
        path.append(index)
    return path, payload[position:]


def _zigzag(data: bytes, position: int) -> tuple[int, int]:
    raw = shift = 0
    while shift < 64:
        if position >= len(data):
            raise FramingError("no registry framing: the message indexes are cut off")
        byte = data[position]
        position += 1
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (raw >> 1) ^ -(raw & 1), position
        shift += 7
    raise FramingError("no registry framing: a message index is too long")
