"""Record values that prove themselves, and batches taken apart again.

A value is a unique integer. Its bytes are the integer and a filling derived from it, so that a
reader can tell a whole record from a mixture of two.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple
from zlib import crc32

from tidelog.wire.batch import HEADER_BYTES, BatchHeader, has_valid_crc, read_header
from tidelog.wire.compression import Compression
from tidelog.wire.errors import DecodeError
from tidelog.wire.records import Record, decode_records, encode_batch

_VALUE_BYTES = 8
_MAX_BATCH_BYTES = 1 << 20


def encode_value(value: int, size: int) -> bytes:
    """`size` is of the filling alone."""
    return value.to_bytes(_VALUE_BYTES, "big") + bytes((value * 31 & 0xFF,)) * size


def decode_value(data: bytes | None) -> int:
    """`DecodeError` if the bytes are not those of one value."""
    if data is None or len(data) < _VALUE_BYTES:
        raise DecodeError("a record's value is too short")
    value = int.from_bytes(data[:_VALUE_BYTES], "big")
    if data != encode_value(value, len(data) - _VALUE_BYTES):
        raise DecodeError(f"the record of {value} is not what was sent")
    return value


class Sent(NamedTuple):
    """One record to send."""

    value: int
    timestamp: int
    size: int


def encode_sent(
    records: Sequence[Sent],
    *,
    compression: Compression = Compression.NONE,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
) -> bytearray:
    """The batch a producer would make of `records`."""
    return encode_batch(
        [
            Record(index, one.timestamp, None, encode_value(one.value, one.size))
            for index, one in enumerate(records)
        ],
        base_offset=0,
        compression=compression,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
    )


class ReadBatch(NamedTuple):
    """A batch as a consumer sees it."""

    header: BatchHeader
    digest: int
    records: tuple[tuple[int, int], ...]


class BatchReader:
    """Takes fetched bytes apart; remembers batches it has seen, since most are read many times."""

    def __init__(self) -> None:
        self._seen: dict[bytes, ReadBatch] = {}

    def read(self, data: bytes) -> list[ReadBatch]:
        """Every batch in `data`, checked; `DecodeError` says what is wrong with one (S2)."""
        batches = []
        position = 0
        while position < len(data):
            header = read_header(data, position)
            end = position + header.size
            if header.size < HEADER_BYTES or end > len(data):
                raise DecodeError(f"a batch claims {header.size} of {len(data) - position} bytes")
            batches.append(self._batch(data[position:end], header))
            position = end
        return batches

    def _batch(self, raw: bytes, header: BatchHeader) -> ReadBatch:
        known = self._seen.get(raw)
        if known is not None:
            return known
        if not has_valid_crc(raw, header):
            raise DecodeError(f"the batch at offset {header.base_offset} fails its checksum")
        records = tuple(
            (record.offset, decode_value(record.value))
            for record in decode_records(raw, _MAX_BATCH_BYTES)
        )
        self._seen[raw] = batch = ReadBatch(header, crc32(raw), records)
        return batch
