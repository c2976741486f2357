"""The bytes of a fetch to Arrow record batches.

Batches are scanned by their headers, checked (CRC), decompressed where they must be, and decoded by
the kernel in groups of bounded size: whatever a broker sends, a task holds one group of
decompressed records at a time. Control batches are left out, and with `read_committed` those of
aborted transactions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from crc32c import crc32c

from tidelog.spark import record_decoding_kernel as kernel
from tidelog.spark.arrow_columns import ARROW_TYPES, HEADER_FIELDS, arrow_schema
from tidelog.spark.columns import HEADERS
from tidelog.spark.errors import CorruptData
from tidelog.wire.batch import (
    COMPRESSION_MASK,
    CONTROL_BIT,
    CRC_FROM,
    HEADER_BYTES,
    MAGIC,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
)
from tidelog.wire.compression import decompress
from tidelog.wire.errors import DecodeError
from tidelog.wire.records import decode_records

GROUP_BYTES = 8 * 1024 * 1024
"""Records of about this size, decompressed, make one Arrow batch; a single larger one, too."""

_SMALLEST_RECORD = 7
_MARKER_BYTES = 1024
_ABORT_MARKER = 0

Array = np.ndarray[Any, Any]


class Aborted(NamedTuple):
    """A transaction that was aborted, as a broker lists it."""

    producer_id: int
    first_offset: int


class Target(NamedTuple):
    """What is wanted of the records: of which partition, from where to where, which columns."""

    topic: str
    partition: int
    start: int
    end: int
    columns: tuple[str, ...]


class Scanned(NamedTuple):
    """The whole batches of one answer."""

    data: Array
    rows: Array
    next_offset: int | None
    """After the last batch; None if there is none."""


def scan(records: memoryview, target: Target) -> Scanned:
    """Find the batches. Their contents are not looked at yet, so the next fetch can be sent."""
    data = np.frombuffer(records, dtype=np.uint8)
    rows = np.empty((len(data) // HEADER_BYTES, kernel.BATCH_FIELDS), dtype=np.int64)
    count = kernel.scan_batches(data, rows)
    if count < 0:
        raise _corrupt(target, "a record batch claims a senseless size")
    rows = rows[:count]
    next_offset = int(rows[-1, kernel.LAST_OFFSET]) + 1 if count else None
    return Scanned(data, rows, next_offset)


def decode(
    scanned: Scanned,
    target: Target,
    *,
    max_decompressed_bytes: int,
    aborted: Sequence[Aborted] = (),
) -> Iterator[pa.RecordBatch]:
    """Arrow batches of the wanted records, none of them empty."""
    group = _Group(scanned.data)
    view = scanned.data.data
    for row in _wanted(scanned, view, target, aborted):
        batch = view[row[kernel.POSITION] : row[kernel.POSITION] + row[kernel.SIZE]]
        if crc32c(batch[CRC_FROM:]) != row[kernel.CRC]:
            raise _corrupt(target, "it fails its checksum", row)
        plain = _decompressed(batch, row, target, max_decompressed_bytes)
        size = row[kernel.SIZE] - HEADER_BYTES if plain is None else len(plain)
        if row[kernel.COUNT] > size // _SMALLEST_RECORD:
            raise _corrupt(target, f"it claims {row[kernel.COUNT]} records", row)
        if not group.may_take(plain, size):
            yield from group.emptied(target)
        group.add(row, plain, size)
    yield from group.emptied(target)


def _decompressed(batch: memoryview, row: list[int], target: Target, cap: int) -> Any:
    """None for records that need not be decompressed."""
    codec = row[kernel.ATTRIBUTES] & COMPRESSION_MASK
    if not codec:
        return None
    try:
        return decompress(batch[HEADER_BYTES:], codec, cap)
    except DecodeError as error:
        raise _corrupt(target, str(error), row) from None


def _wanted(
    scanned: Scanned, view: memoryview, target: Target, aborted: Sequence[Aborted]
) -> Iterator[list[int]]:
    """The rows of batches that have something to read, in order."""
    open_aborted: set[int] = set()
    waiting = sorted(aborted, key=lambda each: -each.first_offset)
    for row in scanned.rows.tolist():
        if row[kernel.MAGIC] != MAGIC:
            raise _corrupt(target, f"magic {row[kernel.MAGIC]} is not {MAGIC}", row)
        while waiting and waiting[-1].first_offset <= row[kernel.LAST_OFFSET]:
            open_aborted.add(waiting.pop().producer_id)
        if row[kernel.ATTRIBUTES] & CONTROL_BIT:
            if open_aborted and _is_abort(view, row, target):
                open_aborted.discard(row[kernel.PRODUCER_ID])
            continue
        is_aborted = (
            row[kernel.ATTRIBUTES] & TRANSACTIONAL_BIT and row[kernel.PRODUCER_ID] in open_aborted
        )
        is_inside = row[kernel.LAST_OFFSET] >= target.start and row[kernel.BASE_OFFSET] < target.end
        if is_inside and not is_aborted and row[kernel.COUNT] > 0:
            yield row


def _is_abort(view: memoryview, row: list[int], target: Target) -> bool:
    batch = view[row[kernel.POSITION] : row[kernel.POSITION] + row[kernel.SIZE]]
    try:
        markers = decode_records(batch, _MARKER_BYTES)
    except DecodeError as error:
        raise _corrupt(target, str(error), row) from None
    return any(
        marker.key is not None and int.from_bytes(marker.key[2:4], "big") == _ABORT_MARKER
        for marker in markers
    )


def _corrupt(target: Target, why: str, row: list[int] | None = None) -> CorruptData:
    place = f"{target.topic}-{target.partition}"
    at = "" if row is None else f" at offset {row[kernel.BASE_OFFSET]}"
    return CorruptData(f"the record batch of {place}{at} can't be read: {why}")


class _Group:
    """Batches that become one Arrow batch: either all as they came, decoded where they lie, or all
    decompressed, and joined."""

    def __init__(self, data: Array) -> None:
        self._data = data
        self._size = 0
        self._parts: list[Any] = []
        self._sections: list[tuple[int, ...]] = []

    def may_take(self, plain: Any, size: int) -> bool:
        if not self._sections:
            return True
        is_alike = bool(self._parts) == (plain is not None)
        return is_alike and self._size + size <= GROUP_BYTES

    def add(self, row: list[int], plain: Any, size: int) -> None:
        if plain is None:
            begin = row[kernel.POSITION] + HEADER_BYTES
        else:
            begin = self._size
            self._parts.append(plain)
        by_broker = row[kernel.ATTRIBUTES] & TIMESTAMP_TYPE_BIT
        self._sections.append(
            (
                begin,
                begin + size,
                row[kernel.BASE_OFFSET],
                row[kernel.BASE_TIMESTAMP],
                row[kernel.MAX_TIMESTAMP] if by_broker else -1,
                row[kernel.COUNT],
            )
        )
        self._size += size

    def emptied(self, target: Target) -> Iterator[pa.RecordBatch]:
        if not self._sections:
            return
        data = self._data
        if self._parts:
            alone = len(self._parts) == 1
            whole = self._parts[0] if alone else bytearray().join(self._parts)
            data = np.frombuffer(whole, dtype=np.uint8)
        sections = np.array(self._sections, dtype=np.int64)
        made = _arrow_batch(data, sections, target, size=self._size)
        self._parts.clear()
        self._sections.clear()
        self._size = 0
        if made.num_rows:
            yield made


class _Blobs:
    """Buffers of a column of bytes: room for all there can be, of which only what is written
    takes memory."""

    def __init__(self, rows: int, size: int) -> None:
        self.offsets = np.zeros(rows + 1, dtype=np.int32)
        self.data = np.empty(size, dtype=np.uint8)
        self.valid = np.zeros((rows + 7) // 8, dtype=np.uint8)

    def array(self, rows: int, size: int, nulls: int, kind: pa.DataType) -> pa.Array:
        buffers = [
            pa.py_buffer(self.valid) if nulls else None,
            pa.py_buffer(self.offsets[: rows + 1]),
            pa.py_buffer(self.data[:size]),
        ]
        return pa.Array.from_buffers(kind, rows, buffers, null_count=nulls)


def _arrow_batch(data: Array, sections: Array, target: Target, *, size: int) -> pa.RecordBatch:
    room = int(sections[:, kernel.RECORDS].sum())
    wanted = (
        kernel.KEYS * ("key" in target.columns)
        | kernel.VALUES * ("value" in target.columns)
        | kernel.HEADERS * (HEADERS in target.columns)
    )
    keys = _Blobs(room, size) if wanted & kernel.KEYS else _Blobs(0, 0)
    values = _Blobs(room, size) if wanted & kernel.VALUES else _Blobs(0, 0)
    spans = np.empty((room if wanted & kernel.HEADERS else 0, 2), dtype=np.int64)
    offsets = np.empty(room, dtype=np.int64)
    timestamps = np.empty(room, dtype=np.int64)
    types = np.empty(room, dtype=np.int32)
    counters = np.zeros(kernel.COUNTERS, dtype=np.int64)
    rows = kernel.decode_sections(
        data, sections, target.start, target.end, wanted, offsets, timestamps, types,
        keys.offsets, keys.data, keys.valid, values.offsets, values.data, values.valid,
        spans, counters,
    )  # fmt: skip
    if rows < 0:
        raise _corrupt(target, f"its records are malformed ({rows})")
    counted = counters.tolist()
    arrays = {
        "key": lambda: keys.array(
            rows, counted[kernel.KEY_BYTES], counted[kernel.KEY_NULLS], pa.binary()
        ),
        "value": lambda: values.array(
            rows, counted[kernel.VALUE_BYTES], counted[kernel.VALUE_NULLS], pa.binary()
        ),
        "topic": lambda: _repeated(target.topic, pa.string(), rows),
        "partition": lambda: _repeated(target.partition, pa.int32(), rows),
        "offset": lambda: pa.array(offsets[:rows]),
        "timestamp": lambda: pa.array(timestamps[:rows]).view(ARROW_TYPES["timestamp"]),
        "timestampType": lambda: pa.array(types[:rows]),
        HEADERS: lambda: _headers(data, spans, rows, target),
    }
    return pa.RecordBatch.from_arrays(
        [arrays[name]() for name in target.columns], schema=arrow_schema(target.columns)
    )


def _repeated(value: str | int, kind: pa.DataType, rows: int) -> pa.Array:
    """The same value in every row: the beginning of a longer array that is made once."""
    return _long_repeated(value, kind, 1 << rows.bit_length()).slice(0, rows)


@lru_cache(maxsize=8)
def _long_repeated(value: str | int, kind: pa.DataType, rows: int) -> pa.Array:
    return pa.repeat(pa.scalar(value, kind), rows)


def _headers(data: Array, spans: Array, rows: int, target: Target) -> pa.Array:
    size = int((spans[:rows, 1] - spans[:rows, 0]).sum())
    room = size // 2
    keys, values, lists = _Blobs(room, size), _Blobs(room, size), _Blobs(rows, 0)
    counters = np.zeros(kernel.HEADER_COUNTERS, dtype=np.int64)
    count = kernel.decode_headers(
        data, spans, rows, lists.offsets, lists.valid, keys.offsets, keys.data,
        values.offsets, values.data, values.valid, counters,
    )  # fmt: skip
    if count < 0:
        raise _corrupt(target, f"its headers are malformed ({count})")
    counted = counters.tolist()
    names = keys.array(count, counted[kernel.HEADER_KEY_BYTES], 0, pa.string())
    blobs = values.array(
        count, counted[kernel.HEADER_VALUE_BYTES], counted[kernel.HEADER_VALUE_NULLS], pa.binary()
    )
    entries = pa.StructArray.from_arrays([_readable(names), blobs], fields=HEADER_FIELDS)
    buffers = [pa.py_buffer(lists.valid), pa.py_buffer(lists.offsets)]
    return pa.Array.from_buffers(ARROW_TYPES[HEADERS], rows, buffers, children=[entries])


def _readable(names: pa.Array) -> pa.Array:
    """Header keys are text by the protocol, but nobody checks: what is no UTF-8 is shown as Kafka's
    own clients show it, with replacement characters."""
    try:
        names.validate(full=True)
    except pa.ArrowInvalid:
        raw = names.view(pa.binary()).to_pylist()
        return pa.array([each.decode(errors="replace") for each in raw], pa.string())
    return names
