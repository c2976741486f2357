"""The codec's front: the encode and decode function of a message class at a version.

Built on first use and kept; the work is in `decoding.py` and `encoding.py`.
"""

from __future__ import annotations

from typing import Any

from tidelog.wire.decoding import Decoder, build_decoder
from tidelog.wire.encoding import Encoder, build_encoder
from tidelog.wire.parts import Part
from tidelog.wire.schema import schema_of

_decoders: dict[tuple[type, int], Decoder] = {}
_encoders: dict[tuple[type, int], Encoder] = {}


def decoder(cls: type, version: int) -> Decoder:
    """`decode(frame, position) -> message`, or `DecodeError`."""
    found = _decoders.get((cls, version))
    if found is None:
        _check_version(cls, version)
        found = _decoders[cls, version] = build_decoder(cls, version)
    return found


def encoder(cls: type, version: int) -> Encoder:
    """`encode(message, out, parts) -> the last bytearray`; see `Encoder`."""
    found = _encoders.get((cls, version))
    if found is None:
        _check_version(cls, version)
        found = _encoders[cls, version] = build_encoder(cls, version)
    return found


def encode_body(message: Any, version: int) -> list[Part]:
    """The message alone, without header or length."""
    parts: list[Part] = []
    parts.append(encoder(type(message), version)(message, bytearray(), parts))
    return parts


def _check_version(cls: type, version: int) -> None:
    schema = schema_of(cls)
    if not schema.versions.holds(version):
        raise ValueError(f"{cls.__name__} has no version {version}")
