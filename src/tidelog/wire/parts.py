"""What an encoded frame is made of: bytes, and spans that travel without being read."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, runtime_checkable


@runtime_checkable
class Span(Protocol):
    """Bytes that lie elsewhere (a range of a file); only their number matters to the encoder."""

    @property
    def size(self) -> int: ...


Records = bytes | bytearray | memoryview | Span
"""A `records` field: decoded it is a `memoryview` of the frame; to encode it may be a span."""

Part = bytes | bytearray | Span

_COUNTED_BY_LENGTH = (bytes, bytearray)
"""A tuple, since `bytes | bytearray` in a call would be a new object every time."""


def size_of(parts: Iterable[Part]) -> int:
    """All bytes of `parts`, the spans' included."""
    return sum(len(part) if isinstance(part, _COUNTED_BY_LENGTH) else part.size for part in parts)
