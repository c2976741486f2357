"""The Delta table of a topic: what a commit makes visible, who may commit, what it tells."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from tests.unit.spark.lake.lake_rows import batches_of

from tidelog.spark.lake.archive_table import ArchiveTable, create_archive, open_archive
from tidelog.spark.lake.errors import LakeError, LakeInUse, NoLake, OtherTopic
from tidelog.spark.lake.files import OffsetFile, overlaps
from tidelog.spark.lake.lock import only_driver
from tidelog.spark.lake.optimizing import plan_runs, rewrite_run
from tidelog.spark.lake.writing import write_range
from tidelog.spark.planner import OffsetRange


@pytest.fixture
def table(tmp_path: Path) -> ArchiveTable:
    return create_archive(tmp_path / "orders", topic="orders", topic_id="id-1")


def written(table: ArchiveTable, partition: int, first: int, next_offset: int) -> list[OffsetFile]:
    batches = batches_of(range(first, next_offset), at_once=50, partition=partition)
    wanted = OffsetRange("orders", partition, first, next_offset)
    return list(write_range(table.path, wanted, batches))


def archive(table: ArchiveTable, partition: int, first: int, next_offset: int) -> None:
    table.commit(written(table, partition, first, next_offset), {partition: next_offset})


def offsets_of(table: ArchiveTable) -> list[tuple[int, int]]:
    """As another Delta reader sees it."""
    rows = pa.table(DeltaTable(str(table.path)).scan(columns=["partition", "offset"]).read_all())
    return sorted((row["partition"], row["offset"]) for row in rows.to_pylist())


def test_a_commit_moves_the_cut_and_shows_the_rows_together(table: ArchiveTable) -> None:
    files = written(table, 0, 5, 100)
    assert offsets_of(table) == []
    assert table.cut(0) is None
    table.commit(files, {0: 100})
    assert offsets_of(table) == [(0, offset) for offset in range(5, 100)]
    again = open_archive(table.path)
    assert again.cuts([0, 1]) == {0: 100}
    assert again.batch_id == 1


def test_the_range_of_a_file_is_read_back_from_the_delta_log_alone(table: ArchiveTable) -> None:
    (file,) = written(table, 7, 10, 60)
    table.commit([file], {7: 60})
    (table.path / file.path).unlink()
    assert open_archive(table.path).files() == [file]


def test_a_range_without_rows_still_moves_the_cut(table: ArchiveTable) -> None:
    table.commit([], {3: 42})
    assert open_archive(table.path).cut(3) == 42
    assert table.files() == []


def test_the_second_of_two_drivers_is_refused_and_adds_nothing(table: ArchiveTable) -> None:
    other = open_archive(table.path)
    archive(table, 0, 0, 100)
    with pytest.raises(LakeInUse, match="another driver"):
        archive(other, 0, 0, 100)
    assert offsets_of(table) == [(0, offset) for offset in range(100)]


def test_a_lock_keeps_a_second_driver_out_and_names_the_first(table: ArchiveTable) -> None:
    with (
        only_driver(table.path),
        pytest.raises(LakeInUse, match=r"being written by process \d+ on"),
        only_driver(table.path),
    ):
        pass
    with only_driver(table.path):
        pass


def test_a_topic_that_was_created_again_is_refused(table: ArchiveTable) -> None:
    table.check_topic("orders", "id-1")
    with pytest.raises(OtherTopic, match="deleted and created again"):
        table.check_topic("orders", "id-2")
    with pytest.raises(OtherTopic, match="holds topic 'orders', not 'payments'"):
        table.check_topic("payments", "id-1")


def test_no_archive_and_another_delta_table_are_told_apart(tmp_path: Path) -> None:
    with pytest.raises(NoLake, match="no archive"):
        open_archive(tmp_path / "nothing")
    DeltaTable.create(str(tmp_path / "other"), pa.schema([("a", pa.int64())]))
    with pytest.raises(LakeError, match="none that Tidelog made"):
        open_archive(tmp_path / "other")


def test_optimizing_keeps_every_row_while_archiving_goes_on(table: ArchiveTable) -> None:
    for first in range(0, 300, 50):
        archive(table, 0, first, first + 50)
    slow = open_archive(table.path)
    (run,) = plan_runs(slow.files())
    joined = list(rewrite_run(table.path, run))
    archive(table, 0, 300, 350)
    slow.replace(run, joined)
    archive(table, 0, 350, 400)
    assert offsets_of(table) == [(0, offset) for offset in range(400)]
    assert [(f.first, f.next_offset) for f in table.files()] == [(0, 300), (300, 350), (350, 400)]
    assert overlaps(table.files()) == []


def test_an_append_that_began_before_an_optimize_still_commits(table: ArchiveTable) -> None:
    archive(table, 0, 0, 50)
    archive(table, 0, 50, 100)
    optimizer = open_archive(table.path)
    (run,) = plan_runs(optimizer.files())
    optimizer.replace(run, list(rewrite_run(table.path, run)))
    archive(table, 0, 100, 150)
    assert offsets_of(table) == [(0, offset) for offset in range(150)]


def test_vacuum_deletes_what_no_version_needs_and_leaves_the_rest(table: ArchiveTable) -> None:
    archive(table, 0, 0, 50)
    archive(table, 0, 50, 100)
    orphans = written(table, 0, 100, 150)
    (run,) = plan_runs(table.files())
    table.replace(run, list(rewrite_run(table.path, run)))
    with only_driver(table.path):
        table.vacuum(keep_hours=0)
        assert not (table.path / orphans[0].path).exists()
        assert len(list(table.path.rglob("*.parquet"))) == 1
        assert list((table.path / "_tidelog").glob("*.lock"))
    assert offsets_of(table) == [(0, offset) for offset in range(100)]


def test_cuts_outlive_checkpoints(table: ArchiveTable) -> None:
    for first in range(0, 30, 10):
        archive(table, 1, first, first + 10)
    DeltaTable(str(table.path)).create_checkpoint()
    for old in sorted((table.path / "_delta_log").glob("*.json"))[:-1]:
        old.unlink()
    assert open_archive(table.path).cut(1) == 30


def test_any_delta_reader_may_read_it(table: ArchiveTable) -> None:
    """No reader or writer feature is asked for: the oldest protocol there is."""
    archive(table, 0, 0, 10)
    protocol = DeltaTable(str(table.path)).protocol()
    assert protocol.min_reader_version == 1
    assert not protocol.reader_features
    assert not protocol.writer_features
