"""Optimize a lake: small files joined to large ones, and what no version needs deleted.

May run while the archive does. A table of latest values is rewritten by Delta's own compaction:
its files cover no offsets that had to stay in order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tidelog.spark.jobs.tasks import Answer, run_tasks
from tidelog.spark.lake.archive_table import ArchiveTable
from tidelog.spark.lake.errors import DiskFull
from tidelog.spark.lake.files import OffsetFile
from tidelog.spark.lake.lock import only_driver
from tidelog.spark.lake.opening import open_any
from tidelog.spark.lake.optimizing import plan_runs, rewrite_run
from tidelog.spark.lake.topic_table import TopicTable, disk_full
from tidelog.spark.lake.writing import TARGET_FILE_BYTES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RUNS_A_COMMIT = 64
"""Runs of files rewritten before they are shown: what a kill can cost."""

SAFE_KEEP_HOURS = 24
"""Files younger than this may belong to a batch that is not committed yet, or to a query that is
still reading: to delete them, nobody may be writing."""


@dataclass(frozen=True, slots=True)
class Optimized:
    """Files and bytes, before and after; paths that vacuum deleted."""

    files_before: int
    files_after: int
    bytes_before: int
    bytes_after: int
    deleted: int


@dataclass(frozen=True)
class RewriteTask:
    """Sent to the executors as it is."""

    table: str
    target_bytes: int

    def __call__(self, run: Sequence[OffsetFile]) -> Answer:
        joined = rewrite_run(Path(self.table), run, target_bytes=self.target_bytes)
        return {"files": [asdict(file) for file in joined]}


def optimize(
    spark: SparkSession,
    path: Path,
    *,
    target_bytes: int = TARGET_FILE_BYTES,
    keep_hours: int = 7 * 24,
    on_progress: Callable[[int, int], None] = lambda _done, _of: None,
) -> Optimized:
    """Join files, then delete what is older than `keep_hours` and in no version.

    `LakeInUse` if another optimize runs, or if `keep_hours` is so short that a running archive's
    files could be meant and one is running.
    """
    table = open_any(path)
    with only_driver(path, what="optimize"):
        before = table.sizes()
        if isinstance(table, ArchiveTable):
            _join_files(spark, table, target_bytes=target_bytes, on_progress=on_progress)
        else:
            table.compact(target_bytes=target_bytes)
        after = table.sizes()
        deleted = _vacuum(table, keep_hours)
    return Optimized(len(before), len(after), sum(before), sum(after), deleted)


def _join_files(
    spark: SparkSession,
    table: ArchiveTable,
    *,
    target_bytes: int,
    on_progress: Callable[[int, int], None],
) -> None:
    runs = plan_runs(table.files(), target_bytes=target_bytes)
    task = RewriteTask(str(table.path), target_bytes)
    for start in range(0, len(runs), RUNS_A_COMMIT):
        chosen = runs[start : start + RUNS_A_COMMIT]
        try:
            answers = run_tasks(spark, task, chosen)
        except DiskFull:
            raise disk_full(table.path) from None
        joined = [OffsetFile(**row) for answer in answers for row in answer["files"]]
        table.replace([file for run in chosen for file in run], joined)
        on_progress(start + len(chosen), len(runs))


def _vacuum(table: TopicTable, keep_hours: int) -> int:
    if keep_hours >= SAFE_KEEP_HOURS:
        return len(table.vacuum(keep_hours=keep_hours))
    with only_driver(table.path):
        return len(table.vacuum(keep_hours=keep_hours))
