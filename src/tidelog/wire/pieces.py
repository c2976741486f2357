"""A response with a long array, encoded a few elements at a time.

An array of very many elements takes long to encode. `piece` encodes some of them, and `joined`
makes the body of all. Both only cut and join bytes: what a version looks like is the codec's
business. No field of the response may be tagged.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from tidelog.wire.messages import API_BY_KEY
from tidelog.wire.requests import EncodedBody, RequestHeader, encode_body
from tidelog.wire.varints import append_uvarint

_LENGTH_BYTES = 4


class Piece(NamedTuple):
    """Some of the array's elements."""

    elements: int
    data: bytes


class PiecewiseBody:
    """The response to the request of `header`; `empty` is the one whose array has no elements. If
    the array is not the response's last field, `one` is the same with one element."""

    def __init__(self, header: RequestHeader, empty: Any, one: Any = None) -> None:
        self._header = header
        self._is_flexible = API_BY_KEY[header.api_key].is_flexible(header.api_version)
        data = encode_body(header, empty).data
        if one is None:
            end = len(data) - self._is_flexible
        else:
            end = _first_difference(data, encode_body(header, one).data) + 1
        self._head = data[: end - len(self._length(0))]
        self._tail = data[end:]

    def piece(self, response: Any, count: int) -> Piece:
        """The elements of the response, which has `count` and is otherwise like the empty one."""
        data = encode_body(self._header, response).data
        begin = len(self._head) + len(self._length(count))
        return Piece(count, data[begin : len(data) - len(self._tail)])

    def joined(self, pieces: Sequence[Piece]) -> EncodedBody:
        length = self._length(sum(piece.elements for piece in pieces))
        return EncodedBody(
            b"".join([self._head, length, *(piece.data for piece in pieces), self._tail])
        )

    def _length(self, count: int) -> bytes:
        if not self._is_flexible:
            return count.to_bytes(_LENGTH_BYTES, "big")
        length = bytearray()
        append_uvarint(length, count + 1)
        return bytes(length)


def _first_difference(empty: bytes, one: bytes) -> int:
    """The last byte of the array's length, which is the first that the number of elements moves."""
    return next(
        at for at, (mine, theirs) in enumerate(zip(empty, one, strict=False)) if mine != theirs
    )
