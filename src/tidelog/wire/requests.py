"""Whole requests and responses: length prefix, header, body.

HOT PATH: `decode_header`, `decode_body` and `encode_response` run once per request.

A request header is v1, or v2 where the API's version is flexible: the same with tagged fields at
its end. (The client id has the old, two-byte length in both.) A response header is v0, the
correlation id alone, or v1, with tagged fields; ApiVersions' is v0 always, because a client sends
it before it knows what the node can do, and must be able to read the refusal.
"""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

from tidelog.wire.codec import decoder, encoder
from tidelog.wire.decoding import Decoder
from tidelog.wire.encoding import Encoder
from tidelog.wire.errors import DecodeError
from tidelog.wire.messages import API_BY_KEY, Api
from tidelog.wire.parts import Part, size_of
from tidelog.wire.schema import schema_of
from tidelog.wire.varints import read_uvarint

PRODUCE = 0
METADATA = 3
OFFSET_COMMIT = 8
API_VERSIONS = 18

LENGTH_BYTES = 4
MAX_FRAME_BYTES = 0x7FFFFFFF

_FIXED_HEADER = struct.Struct(">hhi")
_CLIENT_ID_LENGTH = struct.Struct(">h")
_RESPONSE_HEADER = struct.Struct(">ii")
_FLEXIBLE_RESPONSE_HEADER = struct.Struct(">iix")
_LENGTH = struct.Struct(">i")
_CORRELATION_ID = struct.Struct(">i")

_unpack_fixed_header = _FIXED_HEADER.unpack_from
_unpack_client_id_length = _CLIENT_ID_LENGTH.unpack_from
_new_tuple = tuple.__new__  # of a named tuple, without a call of its own `__new__`


class RequestHeader(NamedTuple):
    """Who asks what, and the number the answer is to carry."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None = None


class UnknownVersion(DecodeError):
    """An API or a version of it that the codec does not know.

    `header` has no client id: where that lies depends on the version. ApiVersions is to be
    answered all the same, in version 0 (`header._replace(api_version=0)`).
    """

    def __init__(self, header: RequestHeader) -> None:
        super().__init__(f"api key {header.api_key} has no version {header.api_version} here")
        self.header = header


class _Route(NamedTuple):
    """One API at one version, resolved for the hot path."""

    is_flexible: bool
    decode_request: Decoder
    encode_response: Encoder
    response_header: struct.Struct


_routes: dict[tuple[int, int], _Route] = {}


def _route(api_key: int, version: int) -> _Route | None:
    """None if the codec has no such API or version."""
    api = API_BY_KEY.get(api_key)
    if api is None or not api.has_version(version):
        return None
    route = _Route(
        is_flexible=api.is_flexible(version),
        decode_request=_request_decoder(api, version),
        encode_response=encoder(api.response_class, version),
        response_header=(
            _FLEXIBLE_RESPONSE_HEADER if _has_flexible_answer(api, version) else _RESPONSE_HEADER
        ),
    )
    _routes[api_key, version] = route
    return route


def _request_decoder(api: Api, version: int) -> Decoder:
    """Metadata v0 says "all topics" with an empty list where later versions say null: the one
    place where the meaning of the same bytes depends on the version. In v10 and v11 a topic may be
    asked for by id alone, but an unknown one can't be answered: the name is not nullable there."""
    decode = decoder(api.request_class, version)
    if api.key != METADATA or version not in (0, 10, 11):
        return decode

    def decode_metadata(frame: memoryview, position: int) -> Any:
        request = decode(frame, position)
        if version == 0:
            request.topics = request.topics or None
        elif any(topic.name is None for topic in request.topics or ()):
            raise DecodeError(f"Metadata v{version} has no topics by id alone")
        return request

    return decode_metadata


def _has_flexible_answer(api: Api, version: int) -> bool:
    return api.is_flexible(version) and api.key != API_VERSIONS


def decode_header(frame: memoryview) -> tuple[RequestHeader, int]:
    """The header of a request frame (without length prefix) and where its body begins."""
    try:
        api_key, version, correlation_id = _unpack_fixed_header(frame, 0)
        route = _routes.get((api_key, version)) or _route(api_key, version)
        if route is None:
            raise UnknownVersion(RequestHeader(api_key, version, correlation_id))
        (length,) = _unpack_client_id_length(frame, 8)
        position = 10
        client_id = None
        if length >= 0:
            position += length
            if position > len(frame):
                raise DecodeError(f"the client id claims {length} bytes")
            client_id = str(frame[10:position], "utf-8")
        elif length != -1:
            raise DecodeError(f"the client id claims {length} bytes")
        if route.is_flexible:
            if frame[position]:
                position = _skip_tagged_fields(frame, position)
            else:
                position += 1
    except (struct.error, IndexError):
        raise DecodeError("the request is cut off within its header") from None
    except UnicodeDecodeError:
        raise DecodeError("the client id is not UTF-8") from None
    header = _new_tuple(RequestHeader, (api_key, version, correlation_id, client_id))
    return header, position


def decode_body(header: RequestHeader, frame: memoryview, position: int) -> Any:
    """The request itself; header and position as `decode_header` gave them."""
    return body_decoder(header)(frame, position)


def body_decoder(header: RequestHeader) -> Decoder:
    """What reads the body of a request whose header `decode_header` gave, and of all like it."""
    return _routes[header.api_key, header.api_version].decode_request


class EncodedBody(NamedTuple):
    """The body of a response in bytes, for many requests of one API and version."""

    data: bytes


def encode_body(header: RequestHeader, body: Any) -> EncodedBody:
    """`body` as the response to the request of `header`, and to others like it."""
    data = b"".join(bytes(part) for part in encode_response(header, body))  # type: ignore[arg-type]
    route = _routes[header.api_key, header.api_version]
    return EncodedBody(data[route.response_header.size :])


def encode_response(header: RequestHeader, body: Any) -> list[Part]:
    """The whole response frame, length prefix included, to the request of `header`. A `body` may
    have been encoded before."""
    key = (header.api_key, header.api_version)
    route = _routes.get(key) or _route(*key)
    assert route is not None, f"no such API or version: {key}"
    if type(body) is EncodedBody:
        size = route.response_header.size - LENGTH_BYTES + len(body.data)
        return [route.response_header.pack(size, header.correlation_id), body.data]
    first = bytearray(route.response_header.pack(0, header.correlation_id))
    parts: list[Part] = []
    last = route.encode_response(body, first, parts)
    parts.append(last)
    if last is first:
        size = len(first)
    else:
        size = size_of(parts)
    _LENGTH.pack_into(first, 0, size - LENGTH_BYTES)
    return parts


class _WayThere(NamedTuple):
    """One request class at one version, resolved for those who send many."""

    api_key: int
    is_flexible: bool
    encode_request: Encoder


class _WayBack(NamedTuple):
    """The same for the answer."""

    is_flexible: bool
    decode_response: Decoder


_ways_there: dict[tuple[type, int], _WayThere] = {}
_ways_back: dict[tuple[int, int], _WayBack] = {}


def _way_there(cls: type, version: int) -> _WayThere:
    api_key = schema_of(cls).api_key
    assert api_key is not None, f"{cls.__name__} is not a request"
    is_flexible = API_BY_KEY[api_key].is_flexible(version)
    way = _ways_there[cls, version] = _WayThere(api_key, is_flexible, encoder(cls, version))
    return way


def _way_back(api_key: int, version: int) -> _WayBack:
    api = API_BY_KEY[api_key]
    decode = decoder(api.response_class, version)
    way = _ways_back[api_key, version] = _WayBack(_has_flexible_answer(api, version), decode)
    return way


def encode_request(
    request: Any, version: int, *, correlation_id: int, client_id: str | None
) -> bytes:
    """The whole request frame, length prefix included. For clients: spans have no place here."""
    key = (type(request), version)
    way = _ways_there.get(key) or _way_there(*key)
    out = bytearray(LENGTH_BYTES)
    out += _FIXED_HEADER.pack(way.api_key, version, correlation_id)
    if client_id is None:
        out += _CLIENT_ID_LENGTH.pack(-1)
    else:
        raw = client_id.encode()
        out += _CLIENT_ID_LENGTH.pack(len(raw)) + raw
    if way.is_flexible:
        out.append(0)
    parts: list[Part] = []
    last = way.encode_request(request, out, parts)
    if last is out:
        _LENGTH.pack_into(out, 0, len(out) - LENGTH_BYTES)
        return bytes(out)
    parts.append(last)
    _LENGTH.pack_into(out, 0, size_of(parts) - LENGTH_BYTES)
    return b"".join(_bytes_of(part) for part in parts)


def _bytes_of(part: Part) -> bytes | bytearray:
    assert isinstance(part, bytes | bytearray), "a request is made of bytes, not of spans"
    return part


def decode_response(api_key: int, version: int, frame: memoryview) -> tuple[int, Any]:
    """Correlation id and body of a response frame (without length prefix), for clients."""
    key = (api_key, version)
    way = _ways_back.get(key) or _way_back(*key)
    try:
        (correlation_id,) = _CORRELATION_ID.unpack_from(frame, 0)
        position = _CORRELATION_ID.size
        if way.is_flexible:
            position = _skip_tagged_fields(frame, position)
    except (struct.error, IndexError):
        raise DecodeError("the response is cut off within its header") from None
    return correlation_id, way.decode_response(frame, position)


def _skip_tagged_fields(frame: memoryview, position: int) -> int:
    """No header field is tagged yet; a future peer's are none of our business."""
    count, position = read_uvarint(frame, position)
    for _ in range(count):
        _, position = read_uvarint(frame, position)
        size, position = read_uvarint(frame, position)
        position += size
        if position > len(frame):
            raise DecodeError(f"a tagged field of the header claims {size} bytes")
    return position
