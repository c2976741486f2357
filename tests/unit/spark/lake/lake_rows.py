"""Record batches as the reader gives them, for tests of what becomes of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa

from tidelog.spark.lake.files import OffsetFile
from tidelog.spark.lake.schema import TABLE_SCHEMA

SOME_TIME_US = 1_700_000_000_000_000


def batch_of(
    offsets: Sequence[int], *, partition: int = 0, value_bytes: int = 10
) -> pa.RecordBatch:
    count = len(offsets)
    columns = [
        [f"k{offset}".encode() for offset in offsets],
        [bytes(value_bytes) for _ in offsets],
        ["orders"] * count,
        [partition] * count,
        list(offsets),
        [SOME_TIME_US + 1000 * offset for offset in offsets],
        [0] * count,
        [[{"key": "h", "value": b"x"}] for _ in offsets],
    ]
    arrays = [
        pa.array(column, type=field.type)
        for column, field in zip(columns, TABLE_SCHEMA, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=TABLE_SCHEMA)


def batches_of(
    offsets: Sequence[int], *, at_once: int, partition: int = 0, value_bytes: int = 10
) -> Iterable[pa.RecordBatch]:
    for start in range(0, len(offsets), at_once):
        yield batch_of(
            offsets[start : start + at_once], partition=partition, value_bytes=value_bytes
        )


def a_file(first: int, next_offset: int, *, partition: int = 0, size: int = 100) -> OffsetFile:
    path = f"partition={partition}/{first:020d}-{next_offset:020d}-ab.parquet"
    return OffsetFile(path, partition, first, next_offset, rows=next_offset - first, size=size)
