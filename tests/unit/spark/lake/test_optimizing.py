"""Which small files become one, and that no row is lost on the way."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.spark.lake.lake_rows import a_file, batches_of

from tidelog.spark.lake.optimizing import plan_runs, rewrite_run
from tidelog.spark.lake.writing import write_range
from tidelog.spark.planner import OffsetRange


def test_neighbours_are_joined_up_to_the_target_size() -> None:
    files = [a_file(10 * n, 10 * n + 10, size=40) for n in range(5)]
    assert plan_runs(files, target_bytes=100) == [files[0:2], files[2:4]]


def test_a_hole_in_the_offsets_separates_runs() -> None:
    files = [a_file(0, 10), a_file(10, 20), a_file(25, 30), a_file(30, 40)]
    assert plan_runs(files, target_bytes=1000) == [files[:2], files[2:]]


def test_partitions_are_never_mixed() -> None:
    files = [a_file(0, 10), a_file(10, 20, partition=1)]
    assert plan_runs(files, target_bytes=1000) == []


def test_a_table_that_is_optimal_stays_as_it_is() -> None:
    assert plan_runs([a_file(0, 10, size=90), a_file(10, 20, size=90)], target_bytes=100) == []


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 9), st.integers(1, 120), st.booleans())),
    st.integers(1, 300),
)
def test_every_run_is_one_unbroken_range_within_the_target(
    steps: list[tuple[int, int, bool]], target_bytes: int
) -> None:
    files, first = [], 0
    for length, size, has_hole in steps:
        first += 5 if has_hole else 0
        files.append(a_file(first, first + length, size=size))
        first += length
    runs = plan_runs(files, target_bytes=target_bytes)
    joined = [file.path for run in runs for file in run]
    assert len(joined) == len(set(joined))
    for run in runs:
        assert len(run) > 1
        assert sum(file.size for file in run) <= target_bytes
        assert [f.next_offset for f in run[:-1]] == [f.first for f in run[1:]]


def test_a_rewritten_run_has_the_same_rows_in_order(tmp_path: Path) -> None:
    offsets = [offset for offset in range(3000) if offset % 7]
    batches = batches_of(offsets, at_once=300)
    run = list(write_range(tmp_path, OffsetRange("orders", 2, 0, 3000), batches, target_bytes=1))
    assert len(run) > 3
    (joined,) = rewrite_run(tmp_path, run)
    assert (joined.first, joined.next_offset, joined.rows) == (0, 3000, len(offsets))
    assert pq.read_table(tmp_path / joined.path)["offset"].to_pylist() == offsets
