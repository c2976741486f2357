"""Batches whose header, length and checksum are right and whose records are garbage."""

from __future__ import annotations

from random import Random

from tidelog.wire.batch import (
    HEADER_BYTES,
    LENGTH_PREFIX_BYTES,
    BatchHeader,
    read_header,
    seal,
    write_header,
)
from tidelog.wire.compression import Compression, compress
from tidelog.wire.records import Record, encode_batch
from tidelog.wire.varints import append_varint

_NOW_MS = 1_700_000_000_000


def batch_with(body: bytes, count: int, **changes: int) -> bytes:
    """A sealed batch that says it holds `count` records, and holds `body`."""
    made = encode_batch([Record(0, _NOW_MS)], base_offset=0)[:HEADER_BYTES] + body
    header: BatchHeader = read_header(made)._replace(
        batch_length=len(made) - LENGTH_PREFIX_BYTES,
        last_offset_delta=count - 1,
        records_count=count,
    )
    write_header(made, header._replace(**changes))
    seal(made)
    return bytes(made)


def records_body(*values: bytes) -> bytes:
    """Sound records with these values."""
    records = [Record(0, _NOW_MS, b"key", value) for value in values]
    return bytes(encode_batch(records, base_offset=0)[HEADER_BYTES:])


def record(
    offset: int = 0, *, size: int | None = None, key: int = -1, tail: bytes = b"\0\0"
) -> bytes:
    """One record by its parts. `size` and `key` are lengths, right or wrong; `tail` is what
    follows the key: by default an empty value and no headers."""
    fields = bytearray(1)
    append_varint(fields, 0)
    append_varint(fields, offset)
    append_varint(fields, key)
    fields += tail
    out = bytearray()
    append_varint(out, len(fields) if size is None else size)
    return bytes(out + fields)


SOUND_BODY = records_body(b"one", b"two", b"three")

GARBAGE: dict[str, bytes] = {
    "a record of a gigabyte": batch_with(record(size=2**30), 1),
    "a record of -5 bytes": batch_with(record(size=-5), 1),
    "noise": batch_with(Random(7).randbytes(200), 2),
    "zeros": batch_with(bytes(200), 20),
    "a varint without end": batch_with(b"\xff" * 50, 1),
    "a key beyond the record": batch_with(record(key=500) + bytes(600), 1),
    "a key of -2 bytes": batch_with(record(key=-2), 1),
    "offsets that go backwards": batch_with(record(1) + record(0), 2),
    "offsets with a gap": batch_with(record(0) + record(2), 2),
    "more records than it says": batch_with(SOUND_BODY, 1),
    "fewer records than it says": batch_with(SOUND_BODY, 4),
    "a record that is too short for its fields": batch_with(record(size=3) + bytes(20), 1),
    "a million headers": batch_with(record(tail=b"\0\x80\x89\x7a" + bytes(20)), 1),
    "a header without a key": batch_with(record(tail=b"\0\x02\x01\0"), 1),
    "bytes after the last record": batch_with(SOUND_BODY + b"rest", 3),
    "gzip that is none": batch_with(SOUND_BODY, 3, attributes=Compression.GZIP),
    "lz4 that is none": batch_with(SOUND_BODY, 3, attributes=Compression.LZ4),
    "zstd that is none": batch_with(SOUND_BODY, 3, attributes=Compression.ZSTD),
}
"""By what is wrong with it. Each is refused by `records.validation` of `sampled` and of `full`."""

DEEP_GARBAGE: dict[str, bytes] = {
    "a bad record among many": batch_with(
        b"".join(map(record, range(30))) + record(size=-5) + b"".join(map(record, range(31, 40))),
        40,
    ),
    "a bad record behind large ones": batch_with(
        records_body(b"v" * 70_000) + record(1, size=-5) + b"".join(map(record, range(2, 9))), 9
    ),
    "garbage well compressed": batch_with(
        compress(bytes(200), Compression.GZIP), 20, attributes=Compression.GZIP
    ),
    "a gzip stream that is cut off": batch_with(
        compress(SOUND_BODY, Compression.GZIP)[:20], 3, attributes=Compression.GZIP
    ),
    "snappy that is none": batch_with(SOUND_BODY, 3, attributes=Compression.SNAPPY),
}
"""What only `full` finds."""
