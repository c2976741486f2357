"""A record batch opened: for the CLI, the simulator, compaction, Spark; never on the hot path.

A record is a varint of its size, then attributes (int8, unused), the timestamp's and offset's
distance from the batch's (varlong, varint), key and value (varint of the size, -1 for null), and
headers (a count; key and value each with its size). Compression is over all records together.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tidelog.model.limits import MAX_DECODED_ELEMENTS
from tidelog.wire.batch import (
    CONTROL_BIT,
    HEADER_BYTES,
    LENGTH_PREFIX_BYTES,
    MAGIC,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
    BatchHeader,
    has_valid_crc,
    read_header,
    seal,
    write_header,
)
from tidelog.wire.compression import Compression, compress, decompress
from tidelog.wire.errors import DecodeError
from tidelog.wire.varints import append_varint, read_varint, read_varlong

_SMALLEST_RECORD = 7
"""Size, attributes, two deltas, three empty lengths: a byte each."""

_SMALLEST_HEADER = 2
_MAX_ONE_BYTE = 63
_NULL = 1
"""Sizes that a varint says in one byte, and what it says for none."""

Header = tuple[str, bytes | None]


class Record(NamedTuple):
    """One record as people know it."""

    offset: int
    timestamp: int
    key: bytes | None = None
    value: bytes | None = None
    headers: Sequence[Header] = ()


def decode_records(
    batch: bytes | bytearray | memoryview, max_bytes: int, *, check_crc: bool = True
) -> list[Record]:
    """All records of exactly one batch, which may decompress to `max_bytes` at most."""
    view = memoryview(batch)
    header = read_header(view)
    if header.magic != MAGIC:
        raise DecodeError(f"a record batch has magic {header.magic}, not {MAGIC}")
    if header.size != len(view):
        raise DecodeError(f"a record batch claims {header.size} bytes and has {len(view)}")
    if check_crc and not has_valid_crc(view, header):
        raise DecodeError("a record batch fails its checksum")
    data = bytes(decompress(view[HEADER_BYTES:], header.compression, max_bytes))
    count = header.records_count
    if not 0 <= count <= min(len(data) // _SMALLEST_RECORD, MAX_DECODED_ELEMENTS):
        raise DecodeError(f"a record batch claims {count} records in {len(data)} bytes")
    return _decode_all(data, header)


def _decode_all(data: bytes, header: BatchHeader) -> list[Record]:
    records: list[Record] = []
    position = 0
    try:
        for _ in range(header.records_count):
            record, position = _decode_record(data, position, header)
            records.append(record)
    except IndexError:
        raise DecodeError("a record is cut off") from None
    if position != len(data):
        raise DecodeError(f"{len(data) - position} bytes follow the last record")
    return records


def _decode_record(data: bytes, position: int, header: BatchHeader) -> tuple[Record, int]:
    size, position = read_varint(data, position)
    end = position + size
    if size < 0 or end > len(data):
        raise DecodeError(f"a record claims {size} bytes where {len(data) - position} are left")
    timestamp_delta, position = read_varlong(data, position + 1)
    offset_delta, position = read_varint(data, position)
    key, position = _decode_blob(data, position, end)
    value, position = _decode_blob(data, position, end)
    count, position = read_varint(data, position)
    headers: Sequence[Header] = ()
    if count:
        headers, position = _decode_headers(data, position, end, count=count)
    if position != end:
        raise DecodeError("a record is not of the size it claims")
    if header.attributes & TIMESTAMP_TYPE_BIT:
        timestamp = header.max_timestamp
    else:
        timestamp = header.base_timestamp + timestamp_delta
    record = Record(header.base_offset + offset_delta, timestamp, key, value, headers)
    return record, position


def _decode_blob(data: bytes, position: int, end: int) -> tuple[bytes | None, int]:
    size, position = read_varint(data, position)
    if size == -1:
        return None, position
    stop = position + size
    if size < 0 or stop > end:
        raise DecodeError(f"a key or value claims {size} bytes where {end - position} are left")
    return data[position:stop], stop


def _decode_headers(
    data: bytes, position: int, end: int, *, count: int
) -> tuple[list[Header], int]:
    if not 0 <= count <= (end - position) // _SMALLEST_HEADER:
        raise DecodeError(f"a record claims {count} headers")
    headers: list[Header] = []
    for _ in range(count):
        key, position = _decode_blob(data, position, end)
        if key is None:
            raise DecodeError("a record header's key is null")
        value, position = _decode_blob(data, position, end)
        headers.append((key.decode(errors="replace"), value))  # nobody checks, as in Kafka
    return headers, position


def encode_batch(
    records: Sequence[Record],
    *,
    base_offset: int | None = None,
    compression: Compression = Compression.NONE,
    leader_epoch: int = -1,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    is_transactional: bool = False,
    is_control: bool = False,
) -> bytearray:
    """A sealed batch of `records`, of which there must be at least one.

    With a `base_offset` (0 for a producer) they get consecutive offsets from it on, whatever they
    say of themselves; without, they keep their own, gaps included.
    """
    first = records[0].offset if base_offset is None else base_offset
    body, last_delta = bytearray(), 0
    base_timestamp = max_timestamp = records[0].timestamp
    for index, record in enumerate(records):
        last_delta = index if base_offset is not None else record.offset - first
        body += _encode_record(record, base_timestamp, last_delta)
        if record.timestamp > max_timestamp:
            max_timestamp = record.timestamp
    batch = bytearray(HEADER_BYTES) + compress(body, compression)
    bits = TRANSACTIONAL_BIT * is_transactional | CONTROL_BIT * is_control
    header = BatchHeader(
        base_offset=first,
        batch_length=len(batch) - LENGTH_PREFIX_BYTES,
        leader_epoch=leader_epoch,
        magic=MAGIC,
        crc=0,
        attributes=compression | bits,
        last_offset_delta=last_delta,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        records_count=len(records),
    )
    write_header(batch, header)
    seal(batch)
    return batch


def _encode_record(record: Record, base_timestamp: int, offset_delta: int) -> bytearray:
    timestamp_delta = record.timestamp - base_timestamp
    if timestamp_delta == offset_delta == 0:
        body = bytearray(3)
    else:
        body = bytearray(1)
        append_varint(body, timestamp_delta)
        append_varint(body, offset_delta)
    _append_blob(body, record.key)
    _append_blob(body, record.value)
    append_varint(body, len(record.headers))
    for key, value in record.headers:
        _append_blob(body, key.encode())
        _append_blob(body, value)
    out = bytearray()
    append_varint(out, len(body))
    out += body
    return out


def _append_blob(out: bytearray, blob: bytes | None) -> None:
    if blob is None:
        out.append(_NULL)
        return
    size = len(blob)
    if size <= _MAX_ONE_BYTE:
        out.append(size << 1)
    else:
        append_varint(out, size)
    out += blob
