"""An image as bytes: the records that make it, each with its length before it. And what it takes
to go from one image to another that nobody has the records between."""

from __future__ import annotations

from tidelog.metadata.delta import Delta
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


def difference(before: Image, after: Image) -> Delta:
    """What a node must do that knew `before` and is told `after`: everything may have changed."""
    _, delta = Image().replay(after.to_records())
    delta.created = [topic_id for topic_id in delta.created if topic_id not in before.names]
    delta.configured = list(after.names)
    delta.removed = {
        topic_id: name for topic_id, name in before.names.items() if topic_id not in after.names
    }
    return delta
