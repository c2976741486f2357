"""What a task leaves behind: whole files that cover the range exactly, or nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.unit.spark.lake.lake_rows import SOME_TIME_US, batch_of, batches_of

from tidelog.spark.lake.schema import FILE_SCHEMA
from tidelog.spark.lake.writing import write_range
from tidelog.spark.planner import OffsetRange


def files_in(table: Path) -> list[Path]:
    return sorted(table.rglob("*.parquet"))


def test_the_files_of_a_range_cover_it_without_hole_or_overlap(tmp_path: Path) -> None:
    offsets = range(1000, 9000)
    batches = batches_of(offsets, at_once=500, value_bytes=400)
    files = list(
        write_range(tmp_path, OffsetRange("orders", 3, 990, 9100), batches, target_bytes=1)
    )
    assert files[0].first == 990
    assert files[-1].next_offset == 9100
    assert [f.next_offset for f in files[:-1]] == [f.first for f in files[1:]]
    stored = [row for f in files for row in pq.read_table(tmp_path / f.path)["offset"].to_pylist()]
    assert stored == list(offsets)
    assert sum(f.rows for f in files) == len(offsets)


def test_rows_come_back_as_they_went_in(tmp_path: Path) -> None:
    batch = batch_of([5, 6, 9])
    (file,) = write_range(tmp_path, OffsetRange("orders", 0, 5, 10), [batch])
    stored = pq.ParquetFile(tmp_path / file.path).read()
    assert stored == pa.Table.from_batches([batch]).select(FILE_SCHEMA.names)
    assert (file.min_time_us, file.max_time_us) == (SOME_TIME_US + 5000, SOME_TIME_US + 9000)
    assert file.size == (tmp_path / file.path).stat().st_size


def test_a_range_without_records_has_no_file(tmp_path: Path) -> None:
    assert list(write_range(tmp_path, OffsetRange("orders", 0, 5, 10), [])) == []
    assert files_in(tmp_path) == []


def test_a_task_that_fails_half_way_leaves_no_file(tmp_path: Path) -> None:
    def breaking() -> Iterator[pa.RecordBatch]:
        yield batch_of(range(100))
        raise OSError("the broker is away")

    with pytest.raises(OSError, match="away"):
        list(write_range(tmp_path, OffsetRange("orders", 0, 0, 200), breaking()))
    assert files_in(tmp_path) == []


def test_an_offset_that_comes_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="came twice"):
        list(
            write_range(
                tmp_path, OffsetRange("orders", 0, 0, 9), [batch_of([1, 2]), batch_of([2, 3])]
            )
        )
    assert files_in(tmp_path) == []
