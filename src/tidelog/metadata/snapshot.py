"""An image as bytes: the records that make it, each with its length before it."""

from __future__ import annotations

from tidelog.metadata.image import Image
from tidelog.metadata.records import MetadataRecord, decode_record, encode_record

_LENGTH_BYTES = 4


def encode_image(image: Image) -> bytes:
    parts: list[bytes] = []
    for record in image.to_records():
        encoded = encode_record(record)
        parts.append(len(encoded).to_bytes(_LENGTH_BYTES, "big"))
        parts.append(encoded)
    return b"".join(parts)


def decode_image(data: bytes) -> Image:
    """The reverse; `DecodeError` if the bytes are no snapshot."""
    records: list[MetadataRecord] = []
    position = 0
    while position < len(data):
        start = position + _LENGTH_BYTES
        position = start + int.from_bytes(data[position:start], "big")
        records.append(decode_record(data[start:position]))
    return Image().replay(records)[0]
