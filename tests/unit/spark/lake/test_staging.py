"""Which record of a key a batch brings to the table of latest values."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.spark.lake.lake_rows import SOME_TIME_US

from tidelog.spark.lake import staging
from tidelog.spark.lake.latest_table import LATEST_SCHEMA
from tidelog.spark.lake.staging import clear_staged, stage, winning_rows

Row = tuple[bytes | None, bytes | None, int, int, int]
"""Key, value, partition, offset, time."""


def table_of(rows: list[Row]) -> pa.Table:
    columns = [list(column) for column in zip(*rows, strict=True)] or [[]] * 5
    return pa.table([*columns, [None] * len(rows)], schema=LATEST_SCHEMA)


def merged(table: Path, splits: list[list[Row]]) -> dict[bytes, tuple[int, int]]:
    files = [stage(table, rows[0][2], table_of(rows).to_batches()) for rows in splits if rows]
    if not files:
        return {}
    rows = winning_rows(table, files).read_all().to_pylist()
    found = {row["key"]: (row["partition"], row["offset"]) for row in rows}
    assert len(found) == len(rows)
    clear_staged(table)
    return found


@settings(deadline=None, max_examples=40)
@given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), max_size=40), st.integers(1, 10))
def test_the_last_offset_of_a_key_wins_however_it_was_split(
    tmp_path_factory: pytest.TempPathFactory, made: list[tuple[int, bool]], at_once: int
) -> None:
    rows: list[Row] = [
        (f"k{key}".encode(), None if is_tombstone else b"v", 0, offset, SOME_TIME_US - offset)
        for offset, (key, is_tombstone) in enumerate(made)
    ]
    splits = [rows[start : start + at_once] for start in range(0, len(rows), at_once)]
    wanted = {row[0]: (0, row[3]) for row in rows}
    assert merged(tmp_path_factory.mktemp("staged"), splits) == wanted


def test_between_partitions_the_later_time_wins(tmp_path: Path) -> None:
    old: list[Row] = [(b"a", b"1", 0, 900, 50), (b"b", b"1", 0, 901, 70), (b"b", b"2", 0, 902, 10)]
    new: list[Row] = [(b"a", b"2", 3, 5, 60), (b"b", b"3", 3, 6, 60)]
    assert merged(tmp_path, [old, new]) == {b"a": (3, 5), b"b": (3, 6)}


def test_records_without_a_key_are_counted_and_left_out(tmp_path: Path) -> None:
    rows: list[Row] = [(None, b"1", 0, 0, 0), (b"", b"2", 0, 1, 0), (None, None, 0, 2, 0)]
    staged = stage(tmp_path, 0, table_of(rows).to_batches())
    assert (staged.rows, staged.without_key) == (1, 2)


def test_a_long_split_is_taken_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staging, "PIECE_BYTES", 1)
    rows: list[Row] = [(b"a", b"1", 0, offset, 0) for offset in range(10)]
    staged = stage(tmp_path, 0, table_of(rows).to_batches(max_chunksize=3))
    assert staged.rows == 4
    assert winning_rows(tmp_path, [staged]).read_all()["offset"].to_pylist() == [9]
