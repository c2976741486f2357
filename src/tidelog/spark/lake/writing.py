"""What a task does: a range of one partition to Parquet files of a good size.

Batches are gathered to row groups of a bounded size and files to a target size, so memory does not
depend on how long the range is. A file is written under `_tidelog/unfinished`, made durable, and
only then moved to its place: whatever kills the task, no half file has a final name. It becomes
visible with the driver's commit.
"""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tidelog.spark.lake.files import OffsetFile, file_name
from tidelog.spark.lake.schema import FILE_SCHEMA, as_file_batch
from tidelog.spark.planner import OffsetRange

ROW_GROUP_BYTES = 32 * 1024 * 1024
"""What a task holds before it writes; a record of the largest size comes on top."""

TARGET_FILE_BYTES = 128 * 1024 * 1024

UNFINISHED = "_tidelog/unfinished"
UNFINISHED_AGE_S = 3600.0
"""A file nobody has written to for so long has lost its writer."""

_REPETITIVE = ["topic", "timestampType"]
"""Columns worth a dictionary. Keys and values seldom repeat: looking for it costs a third of the
time and gains nothing."""


def write_range(
    table: Path,
    wanted: OffsetRange,
    batches: Iterable[pa.RecordBatch],
    *,
    target_bytes: int = TARGET_FILE_BYTES,
    compression: str = "snappy",
) -> Iterator[OffsetFile]:
    """The files of `wanted`, each yielded when it has its final name.

    Together they cover the range exactly; a range without records has no file.
    """
    open_file: _OpenFile | None = None
    first = wanted.start
    try:
        for batch in batches:
            if not batch.num_rows:
                continue
            begins_at = batch.column("offset")[0].as_py()
            if open_file is not None and open_file.position >= target_bytes:
                yield open_file.finish(next_offset=begins_at)
                open_file, first = None, begins_at
            if open_file is None:
                open_file = _OpenFile(table, wanted.partition, first, compression=compression)
            open_file.write(as_file_batch(batch))
        if open_file is not None:
            last, open_file = open_file, None
            yield last.finish(next_offset=wanted.end)
    finally:
        if open_file is not None:
            open_file.discard()


def clear_unfinished(table: Path) -> None:
    """Remove what killed tasks left. A young one may be in work: an optimize run's, say."""
    too_old_s = time.time() - UNFINISHED_AGE_S
    for path in (table / UNFINISHED).glob("*.parquet"):
        with suppress(FileNotFoundError):
            if path.stat().st_mtime < too_old_s:
                path.unlink()


class _OpenFile:
    """A file that has no final name yet."""

    def __init__(self, table: Path, partition: int, first: int, *, compression: str) -> None:
        self._table = table
        self._unique = uuid.uuid4().hex
        unfinished = table / UNFINISHED
        unfinished.mkdir(parents=True, exist_ok=True)
        self._path = unfinished / f"{self._unique}.parquet"
        self._file = OffsetFile("", partition, first, first, rows=0, size=0)
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_bytes = 0
        self._next_free = first
        self._sink = self._path.open("wb")
        self._writer = pq.ParquetWriter(
            self._sink, FILE_SCHEMA, compression=compression, use_dictionary=_REPETITIVE
        )

    @property
    def position(self) -> int:
        return self._sink.tell()

    def write(self, batch: pa.RecordBatch) -> None:
        self._check_order(batch)
        self._note(batch)
        self._waiting.append(batch)
        self._waiting_bytes += batch.nbytes
        if self._waiting_bytes >= ROW_GROUP_BYTES:
            self._write_row_group()

    def finish(self, *, next_offset: int) -> OffsetFile:
        assert next_offset >= self._next_free, f"records beyond {next_offset} in {self._path}"
        try:
            self._write_row_group()
            self._writer.close()
            self._sink.flush()
            os.fsync(self._sink.fileno())
            self._sink.close()
            path = file_name(self._file.partition, self._file.first, next_offset, self._unique)
            final = self._table / path
            final.parent.mkdir(exist_ok=True)
            size = self._path.stat().st_size
            self._path.rename(final)
        except BaseException:
            self.discard()
            raise
        return replace(self._file, path=path, next_offset=next_offset, size=size)

    def discard(self) -> None:
        """No trace: what was written goes, and closing it may fail as the disk may be full."""
        for each in (self._writer, self._sink):
            with suppress(OSError):
                each.close()
        self._path.unlink(missing_ok=True)

    def _write_row_group(self) -> None:
        if not self._waiting:
            return
        gathered = pa.Table.from_batches(self._waiting, schema=FILE_SCHEMA)
        self._waiting, self._waiting_bytes = [], 0
        self._writer.write_table(gathered, row_group_size=gathered.num_rows)

    def _check_order(self, batch: pa.RecordBatch) -> None:
        """What comes twice or out of order is our mistake, and must not reach the lake."""
        offsets = batch.column("offset")
        assert offsets[0].as_py() >= self._next_free, f"offset {offsets[0]} came twice"
        self._next_free = offsets[-1].as_py() + 1

    def _note(self, batch: pa.RecordBatch) -> None:
        times = pc.min_max(batch.column("timestamp").cast(pa.int64())).as_py()
        known = [t for t in (self._file.min_time_us, times["min"]) if t is not None]
        highest = [t for t in (self._file.max_time_us, times["max"]) if t is not None]
        self._file = replace(
            self._file,
            rows=self._file.rows + batch.num_rows,
            min_time_us=min(known, default=None),
            max_time_us=max(highest, default=None),
        )
