"""Arrow record batches to Kafka's: columns checked and laid bare, rows to partitions, records.

The columns are those of Spark's Kafka sink (`key`, `value`, `topic`, `headers`, `partition`), text
or bytes; and `timestamp`, which Spark's does not take, so that records can be copied as they are.
Other columns are left alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidelog.spark import record_encoding_kernel as kernel
from tidelog.spark.arrow_columns import ARROW_TYPES
from tidelog.spark.errors import PipelineError
from tidelog.wire.batch import (
    HEADER_BYTES,
    LENGTH_PREFIX_BYTES,
    MAGIC,
    BatchHeader,
    seal,
    write_header,
)
from tidelog.wire.compression import Compression, compress

Array = np.ndarray[Any, Any]

RUN_WITHOUT_KEY = 1000
"""Rows without a key that go to one partition before it is another's turn."""


class Blobs(NamedTuple):
    """A column of bytes, laid bare."""

    offsets: Array
    data: Array
    valid: Array


class Rows(NamedTuple):
    """Rows of one topic, ready for the kernel."""

    keys: Blobs
    values: Blobs
    timestamps_ms: Array
    header_lists: Array
    header_keys: Blobs
    header_values: Blobs
    has_headers: bool
    partitions: Array
    """As the rows say; `NO_PARTITION` where they don't."""

    @property
    def size(self) -> int:
        return len(self.timestamps_ms)


def rows_of(batch: pa.RecordBatch, *, now_ms: int) -> Rows:
    """The columns of `batch`; one that is missing is null in every row."""
    count = batch.num_rows
    headers = _column(batch, "headers", ARROW_TYPES["headers"])
    lists, header_keys, header_values = _headers(headers)
    return Rows(
        keys=_blobs(_column(batch, "key", pa.binary())),
        values=_blobs(_column(batch, "value", pa.binary())),
        timestamps_ms=_timestamps_ms(
            _column(batch, "timestamp", pa.timestamp("us", tz="UTC")), now_ms
        ),
        header_lists=lists,
        header_keys=header_keys,
        header_values=header_values,
        has_headers=headers.null_count < count,
        partitions=_numbers(_column(batch, "partition", pa.int32()), kernel.NO_PARTITION, np.int32),
    )


def by_topic(batch: pa.RecordBatch, topic: str | None) -> Iterator[tuple[str, pa.RecordBatch]]:
    """The rows of each topic: all of the given one, else those of the column `topic`."""
    if topic is not None:
        yield topic, batch
        return
    names = _column(batch, "topic", pa.string())
    if names.null_count:
        raise PipelineError(
            "a row has no topic: give the option topic, or a column topic that is never null"
        )
    found = pc.unique(names)
    if len(found) == 1:
        yield found[0].as_py(), batch
        return
    for name in found:
        yield name.as_py(), batch.filter(pc.equal(names, name))


def choose_partitions(rows: Rows, *, count: int, turn: int, topic: str) -> Array:
    """The partition of each row, all of which must exist."""
    chosen = rows.partitions.copy()
    if len(chosen) and (chosen.min() < kernel.NO_PARTITION or chosen.max() >= count):
        wrong = int(chosen.max() if chosen.max() >= count else chosen.min())
        raise PipelineError(f"topic {topic!r} has no partition {wrong}: it has {count}")
    kernel.choose_partitions(*rows.keys, chosen, count, turn, RUN_WITHOUT_KEY)
    return chosen


def cut(rows: Rows, partitions: Array, *, max_bytes: int) -> Iterator[tuple[int, Array, int]]:
    """Partition, rows in their order, and room they need, for each batch to be made: no batch is
    larger than `max_bytes` unless a single record is."""
    rooms = np.empty(rows.size, dtype=np.int64)
    kernel.room_for_rows(
        rows.keys.offsets, rows.values.offsets, rows.header_lists, rows.header_keys.offsets,
        rows.header_values.offsets, rows.has_headers, rooms,
    )  # fmt: skip
    order = np.argsort(partitions, kind="stable").astype(np.int64, copy=False)
    ends = np.flatnonzero(np.diff(partitions[order])) + 1
    for part in np.split(order, ends):
        filled = np.cumsum(rooms[part])
        start, before = 0, 0
        while start < len(part):
            stop = int(np.searchsorted(filled, before + max_bytes, side="right"))
            stop = max(stop, start + 1)
            yield int(partitions[part[0]]), part[start:stop], int(filled[stop - 1]) - before
            start, before = stop, int(filled[stop - 1])


class Identity(NamedTuple):
    """Who writes a batch, and as which of its batches: what makes a repetition harmless."""

    producer_id: int
    producer_epoch: int
    base_sequence: int


def encode(
    rows: Rows, order: Array, room: int, *, identity: Identity, compression: Compression
) -> bytearray:
    """The rows `order` as one sealed batch."""
    out = np.empty(HEADER_BYTES + room, dtype=np.uint8)
    times = rows.timestamps_ms[order]
    end = kernel.encode_rows(
        order, rows.timestamps_ms, int(times[0]), *rows.keys, *rows.values, rows.header_lists,
        rows.header_keys.offsets, rows.header_keys.data, *rows.header_values, rows.has_headers,
        out, HEADER_BYTES,
    )  # fmt: skip
    if compression is Compression.NONE:
        batch = bytearray(out[:end].data)
    else:
        batch = bytearray(HEADER_BYTES) + compress(out[HEADER_BYTES:end].data, compression)
    header = BatchHeader(
        base_offset=0,
        batch_length=len(batch) - LENGTH_PREFIX_BYTES,
        leader_epoch=-1,
        magic=MAGIC,
        crc=0,
        attributes=compression,
        last_offset_delta=len(order) - 1,
        base_timestamp=int(times[0]),
        max_timestamp=int(times.max()),
        producer_id=identity.producer_id,
        producer_epoch=identity.producer_epoch,
        base_sequence=identity.base_sequence,
        records_count=len(order),
    )
    write_header(batch, header)
    seal(batch)
    return batch


# --- columns laid bare ------------------------------------------------------------------------


def _column(batch: pa.RecordBatch, name: str, kind: pa.DataType) -> pa.Array:
    index = batch.schema.get_field_index(name)
    if index < 0:
        return pa.nulls(batch.num_rows, kind)
    column = batch.column(index)
    return column if column.type == kind else column.cast(kind)


def _blobs(column: pa.Array) -> Blobs:
    """Of a slice, too: its buffers are shared, and begin before it does."""
    _, offsets, data = column.buffers()
    return Blobs(
        offsets=_array(offsets, np.int32, column.offset, len(column) + 1),
        data=_array(data, np.uint8, 0, 0 if data is None else data.size),
        valid=_validity(column),
    )


def _headers(column: pa.Array) -> tuple[Array, Blobs, Blobs]:
    entries = column.values
    lists = _array(column.buffers()[1], np.int32, column.offset, len(column) + 1)
    return lists, _blobs(entries.field("key").cast(pa.binary())), _blobs(entries.field("value"))


def _array(buffer: pa.Buffer | None, kind: Any, start: int, count: int) -> Array:
    if buffer is None or not buffer.size:
        return np.zeros(count, dtype=kind)
    return np.frombuffer(buffer, dtype=kind, count=start + count)[start:]


def _validity(column: pa.Array) -> Array:
    """A bit for each row, the lowest first."""
    if not column.null_count:
        return np.full((len(column) + 7) // 8, 0xFF, dtype=np.uint8)
    return np.packbits(column.is_valid().to_numpy(zero_copy_only=False), bitorder="little")


def _timestamps_ms(column: pa.Array, now_ms: int) -> Array:
    if column.null_count == len(column):
        return np.full(len(column), now_ms, dtype=np.int64)
    micros = _numbers(column.view(pa.int64()), now_ms * 1000, np.int64)
    return np.floor_divide(micros, 1000)


def _numbers(column: pa.Array, if_null: int, kind: Any) -> Array:
    filled = column.fill_null(if_null) if column.null_count else column
    numbers: Array = filled.to_numpy(zero_copy_only=False).astype(kind, copy=True)
    return numbers
