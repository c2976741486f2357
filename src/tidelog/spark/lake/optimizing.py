"""Small files to large ones, in the order of their offsets.

An archive that runs every minute leaves a file a minute and partition. Neighbours are joined up to
the target size and never across a hole in the offsets, so every file still covers one exact range,
and its rows stay sorted by offset. The plan is pure; a task rewrites one run of files as a stream.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tidelog.spark.lake.files import OffsetFile, in_order
from tidelog.spark.lake.writing import TARGET_FILE_BYTES, write_range
from tidelog.spark.planner import OffsetRange

_READ_ROWS = 16_384
"""Rows decoded at once: of the largest records that is still little beside a row group."""


def plan_runs(
    files: Sequence[OffsetFile], *, target_bytes: int = TARGET_FILE_BYTES
) -> list[list[OffsetFile]]:
    """Runs of at least two neighbours that together are no larger than a file should be."""
    runs: list[list[OffsetFile]] = []
    run: list[OffsetFile] = []
    for file in in_order(files):
        joined_size = sum(each.size for each in run) + file.size
        if run and _are_neighbours(run[-1], file) and joined_size <= target_bytes:
            run.append(file)
            continue
        runs.append(run)
        run = [file]
    runs.append(run)
    return [run for run in runs if len(run) > 1]


def rewrite_run(
    table: Path, run: Sequence[OffsetFile], *, target_bytes: int = TARGET_FILE_BYTES
) -> Iterator[OffsetFile]:
    """The files that can stand for `run`. The target is an estimate: what was compressed in small
    pieces is smaller in large ones, so one file comes out, seldom two."""
    wanted = OffsetRange("", run[0].partition, run[0].first, run[-1].next_offset)
    return write_range(table, wanted, stored_batches(table, run), target_bytes=2 * target_bytes)


def stored_batches(
    table: Path, files: Sequence[OffsetFile], columns: Sequence[str] | None = None
) -> Iterator[pa.RecordBatch]:
    """The rows of `files`, one after the other."""
    for file in files:
        with pq.ParquetFile(table / file.path) as stored:
            yield from stored.iter_batches(
                _READ_ROWS, columns=None if columns is None else list(columns)
            )


def _are_neighbours(one: OffsetFile, other: OffsetFile) -> bool:
    return one.partition == other.partition and one.next_offset == other.first
