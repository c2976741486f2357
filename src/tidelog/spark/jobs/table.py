"""The compacted view of a topic: the latest value of each key, as a Delta table.

`latest_values(spark, options)` is a `Follower` (`follower.py`): tasks find what is new per key, the
driver merges it. Records without a key have no place in such a table and are left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tidelog.spark.jobs.archive_task import CountedBatches, source_options
from tidelog.spark.jobs.follower import Follower, Following, Listener, Moved
from tidelog.spark.jobs.log_ranges import OnLoss
from tidelog.spark.jobs.tasks import Answer, run_tasks
from tidelog.spark.lake.errors import DiskFull, NoLake
from tidelog.spark.lake.latest_table import (
    LATEST_SCHEMA,
    LatestTable,
    create_latest,
    open_latest,
)
from tidelog.spark.lake.staging import StagedFile, clear_staged, stage, winning_rows
from tidelog.spark.lake.topic_table import disk_full
from tidelog.spark.options import SourceOptions
from tidelog.spark.planner import Split
from tidelog.spark.reader import read_split

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BATCH_RECORDS = 1_000_000
"""The driver holds the keys of one batch."""

VACUUM_BATCHES = 20
"""A merge rewrites files; so often, the old ones that nobody may read any more are deleted."""

KEEP_HOURS = 1
"""How long a query that has begun may still read the version it began with."""


@dataclass(frozen=True, slots=True)
class TableOptions:
    """Which topic, and the directory of the table itself."""

    topic: str
    table: Path
    bootstrap: str
    group: str | None = None
    batch_records: int = BATCH_RECORDS
    on_loss: OnLoss = "fail"
    keep_hours: int = KEEP_HOURS


@dataclass(frozen=True)
class StageTask:
    """Sent to the executors as it is."""

    table: str
    source: SourceOptions

    def __call__(self, split: Split) -> Answer:
        columns = tuple(LATEST_SCHEMA.names)
        counted = CountedBatches(read_split(self.source, split, columns))
        staged = stage(Path(self.table), split.partition, counted)
        return {"file": asdict(staged), "data_bytes": counted.data_bytes}


def latest_values(
    spark: SparkSession, options: TableOptions, listener: Listener | None = None
) -> Follower:
    """The job, ready to be entered."""
    following = Following(
        topic=options.topic,
        table=options.table.absolute(),
        bootstrap=options.bootstrap,
        group=options.group or f"tidelog-table-{options.topic}",
        batch_records=options.batch_records,
        on_loss=options.on_loss,
    )
    return Follower(spark, following, TableMover(spark, options), listener)


class TableMover:
    """A batch of the table."""

    def __init__(self, spark: SparkSession, options: TableOptions) -> None:
        self._spark = spark
        self._options = options
        self._path = options.table.absolute()
        source = source_options(options.topic, options.bootstrap)
        self._task = StageTask(str(self._path), source)

    def open(self, topic_id: str) -> LatestTable:
        try:
            return open_latest(self._path)
        except NoLake:
            return create_latest(self._path, topic=self._options.topic, topic_id=topic_id)

    def move(self, table: LatestTable, splits: Sequence[Split], cuts: Mapping[int, int]) -> Moved:
        clear_staged(self._path)
        try:
            answers = run_tasks(self._spark, self._task, splits)
            staged = [StagedFile(**answer["file"]) for answer in answers]
            table.merge(winning_rows(self._path, staged), cuts)
        except DiskFull:
            raise disk_full(table.path) from None
        clear_staged(self._path)
        if table.batch_id % VACUUM_BATCHES == 0:
            table.vacuum(keep_hours=self._options.keep_hours)
        return Moved(
            rows=sum(file.rows for file in staged),
            data_bytes=sum(answer["data_bytes"] for answer in answers),
            file_bytes=sum(file.size for file in staged),
            files=len(staged),
        )
