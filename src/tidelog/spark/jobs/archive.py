"""Archive a topic: its records to a Delta table that any Delta reader can read.

`archive(spark, options)` is a `Follower` (`follower.py`): tasks write the files of their splits,
one commit shows them and moves the cuts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tidelog.spark.jobs.archive_task import ArchiveTask, source_options
from tidelog.spark.jobs.follower import Follower, Following, Listener, Moved
from tidelog.spark.jobs.log_ranges import OnLoss
from tidelog.spark.jobs.tasks import run_tasks
from tidelog.spark.lake.archive_table import ArchiveTable, create_archive, open_archive
from tidelog.spark.lake.errors import DiskFull, NoLake
from tidelog.spark.lake.files import OffsetFile
from tidelog.spark.lake.topic_table import disk_full
from tidelog.spark.lake.writing import TARGET_FILE_BYTES
from tidelog.spark.planner import Split

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BATCH_RECORDS = 4_000_000
"""At most in one commit: what a kill can cost is the work of one batch."""


@dataclass(frozen=True, slots=True)
class ArchiveOptions:
    """What to archive, and where to: the table is `lake/topic`."""

    topic: str
    lake: Path
    bootstrap: str
    group: str | None = None
    batch_records: int = BATCH_RECORDS
    target_file_bytes: int = TARGET_FILE_BYTES
    on_loss: OnLoss = "fail"

    @property
    def table(self) -> Path:
        return self.lake.absolute() / self.topic


def archive(
    spark: SparkSession, options: ArchiveOptions, listener: Listener | None = None
) -> Follower:
    """The job, ready to be entered."""
    following = Following(
        topic=options.topic,
        table=options.table,
        bootstrap=options.bootstrap,
        group=options.group or f"tidelog-archive-{options.topic}",
        batch_records=options.batch_records,
        on_loss=options.on_loss,
    )
    return Follower(spark, following, ArchiveMover(spark, options), listener)


class ArchiveMover:
    """A batch of the archive."""

    def __init__(self, spark: SparkSession, options: ArchiveOptions) -> None:
        self._spark = spark
        self._options = options
        source = source_options(options.topic, options.bootstrap)
        self._task = ArchiveTask(str(options.table), source, options.target_file_bytes)

    def open(self, topic_id: str) -> ArchiveTable:
        options = self._options
        try:
            return open_archive(options.table)
        except NoLake:
            return create_archive(options.table, topic=options.topic, topic_id=topic_id)

    def move(self, table: ArchiveTable, splits: Sequence[Split], cuts: Mapping[int, int]) -> Moved:
        try:
            answers = run_tasks(self._spark, self._task, splits)
        except DiskFull:
            raise disk_full(table.path) from None
        files = [OffsetFile(**row) for answer in answers for row in answer["files"]]
        table.commit(files, cuts)
        return Moved(
            rows=sum(file.rows for file in files),
            data_bytes=sum(answer["data_bytes"] for answer in answers),
            file_bytes=sum(file.size for file in files),
            files=len(files),
        )
