"""An image as bytes: the records that make it, each with its length before it. And what it takes
to go from one image to another that nobody has the records between.

With very many partitions that takes seconds, which nobody on the same loop should wait for: a
`SnapshotEncoding` or `SnapshotDecoding` does so many records a `turn`. The image it begins with
can't change meanwhile; what is decoded is nobody's before it is whole.
"""

from __future__ import annotations

from itertools import islice

from tidelog.metadata.delta import Delta, NodeDelta, PartitionDelta
from tidelog.metadata.image import Image
from tidelog.metadata.records import MetadataRecord, decode_record, encode_record

RECORDS_PER_SLICE = 1_000
"""Records to encode or decode in one turn: 10 to 30 ms."""

_LENGTH_BYTES = 4


class SnapshotEncoding:
    """`turn` until it says that nothing is left; then `data` is the snapshot."""

    def __init__(self, image: Image) -> None:
        self._records = image.iter_records()
        self._parts: list[bytes] = []

    def turn(self) -> bool:
        """The next records. Whether those were the last."""
        count = 0
        for record in islice(self._records, RECORDS_PER_SLICE):
            encoded = encode_record(record)
            self._parts.append(len(encoded).to_bytes(_LENGTH_BYTES, "big"))
            self._parts.append(encoded)
            count += 1
        return count < RECORDS_PER_SLICE

    @property
    def data(self) -> bytes:
        return b"".join(self._parts)


class SnapshotDecoding:
    """`turn` until it says that nothing is left; then `image` is whole. `DecodeError` if the bytes
    are no snapshot."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0
        self.image = Image()

    def turn(self) -> bool:
        """The next records. Whether those were the last."""
        records: list[MetadataRecord] = []
        data, position = self._data, self._position
        while position < len(data) and len(records) < RECORDS_PER_SLICE:
            start = position + _LENGTH_BYTES
            position = start + int.from_bytes(data[position:start], "big")
            records.append(decode_record(data[start:position]))
        self._position = position
        self.image, _ = self.image.replay(records)
        return position >= len(data)


def encode_image(image: Image) -> bytes:
    """At once."""
    encoding = SnapshotEncoding(image)
    while not encoding.turn():
        pass
    return encoding.data


def decode_image(data: bytes) -> Image:
    """The reverse, at once."""
    decoding = SnapshotDecoding(data)
    while not decoding.turn():
        pass
    return decoding.image


def difference(before: Image, after: Image) -> Delta:
    """What a node must do that knew `before` and is told `after`: everything may have changed."""
    return Delta(
        created=[topic_id for topic_id in after.names if topic_id not in before.names],
        partitions={state.key: PartitionDelta(None, state) for state in after.partitions()},
        configured=list(after.names),
        removed={
            topic_id: name for topic_id, name in before.names.items() if topic_id not in after.names
        },
        nodes={node_id: NodeDelta(None, node) for node_id, node in after.nodes.items()},
        has_new_defaults=bool(after.defaults),
    )
