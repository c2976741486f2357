"""Archive a topic: its records to a Delta table, exactly once, whatever dies on the way.

A batch is planned from the cuts in the lake and the ends of the log; tasks write the files of its
splits; one commit shows them and moves the cuts. What is killed before the commit leaves files that
nobody sees; what is killed after it finds the cuts moved. There is no other state: the consumer
group's offsets are told to the broker only so that lag tools see the archive.

The log must not have changed under the lake: a topic created again, a log that ends before the
cut, records deleted before they were archived are each refused with a sentence.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING

from tidelog.model.ids import TopicPartition
from tidelog.spark import group_offsets
from tidelog.spark.cluster import Cluster
from tidelog.spark.errors import NoBroker, PipelineError
from tidelog.spark.jobs.archive_task import ArchiveTask, source_options
from tidelog.spark.jobs.log_ranges import OnLoss, log_ranges
from tidelog.spark.jobs.tasks import parallelism, run_tasks
from tidelog.spark.lake.archive_table import ArchiveTable, create_archive, open_archive
from tidelog.spark.lake.errors import DiskFull, NoLake, TaskFailed
from tidelog.spark.lake.files import OffsetFile
from tidelog.spark.lake.lock import only_driver
from tidelog.spark.lake.topic_table import disk_full, explained
from tidelog.spark.lake.writing import TARGET_FILE_BYTES, clear_unfinished
from tidelog.spark.planner import OffsetRange, Split, plan_limited, plan_splits

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BATCH_RECORDS = 4_000_000
"""At most in one commit: what a kill can cost is the work of one batch."""

SPLIT_RECORDS = 50_000
"""Below this a further task, and file, costs more than it gains."""

MAX_FAILURES = 4
"""Batches that may fail in a row before a job without --every gives up."""

_BROKER_PATIENCE_S = 20.0
_LONGEST_PAUSE_S = 10.0


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

    @property
    def shown_group(self) -> str:
        return self.group or f"tidelog-archive-{self.topic}"


@dataclass(frozen=True, slots=True)
class BatchDone:
    """One commit."""

    batch_id: int
    rows: int
    data_bytes: int
    file_bytes: int
    files: int
    seconds: float
    lag: int
    cuts: Mapping[int, int]


@dataclass(slots=True)
class Listener:
    """Who wants to hear how it goes on."""

    on_batch: Callable[[BatchDone], None] = field(default=lambda _done: None)
    on_trouble: Callable[[str], None] = field(default=lambda _reason: None)


class Archive:
    """`with Archive(spark, options) as archive: archive.catch_up()`. One driver a lake."""

    def __init__(
        self, spark: SparkSession, options: ArchiveOptions, listener: Listener | None = None
    ) -> None:
        self._spark = spark
        self._options = options
        self._listener = listener or Listener()
        self._cluster = Cluster(options.bootstrap, timeout_s=_BROKER_PATIENCE_S)
        self._source = source_options(options.topic, options.bootstrap)
        self._parallelism = parallelism(spark)
        self._lock = only_driver(options.table)

    def __enter__(self) -> Archive:
        """`LakeInUse` if another driver is at work; `UnknownTopic` before anything is made."""
        self._cluster.topic(self._options.topic)
        try:
            self._lock.__enter__()
        except OSError as error:
            raise explained(error, self._options.table) from None
        clear_unfinished(self._options.table)
        return self

    def __exit__(self, *_reason: object) -> None:
        self._lock.__exit__(None, None, None)
        self._cluster.close()

    def catch_up(self) -> None:
        """Until everything is archived that was in the log when this began."""
        ends = self._ends()
        failures = 0
        is_done = False
        while not is_done:
            try:
                is_done = self._batch(ends)
                failures = 0
            except TaskFailed as error:
                failures += 1
                if failures == MAX_FAILURES:
                    raise
                self._listener.on_trouble(f"{error}; the batch is done again")

    def follow(self, every_s: float, stop: Event) -> None:
        """Until `stop`: catch up, wait, catch up. A broker or a worker that is away is waited for;
        what would fail again in the same way is raised."""
        while True:
            pause_s = every_s
            try:
                self.catch_up()
            except (NoBroker, TaskFailed) as error:
                self._listener.on_trouble(f"{error}; trying again")
                pause_s = min(every_s, _LONGEST_PAUSE_S)
            if stop.wait(pause_s):
                return

    def _ends(self) -> dict[TopicPartition, int]:
        view = self._cluster.topic(self._options.topic)
        places = [TopicPartition(view.name, partition) for partition in view.partitions]
        return self._cluster.latest(places, is_committed=True)

    def _batch(self, ends: Mapping[TopicPartition, int]) -> bool:
        """Archive the next batch before `ends`; whether there was none."""
        began = time.monotonic()
        view = self._cluster.topic(self._options.topic)
        table = self._table(view.topic_id)
        cuts = table.cuts(view.partitions)
        wanted = log_ranges(
            view.name, cuts, self._cluster.earliest(ends), ends, on_loss=self._options.on_loss
        )
        limited = plan_limited(wanted, max_records=self._options.batch_records)
        batch = [OffsetRange(r.topic, r.partition, r.start, limited[r.place]) for r in wanted]
        splits = self._splits(batch, view.topic_id)
        if not splits:
            self._tell_group(cuts)
            return True
        files, data_bytes = self._write(splits)
        moved = {each.partition: each.end for each in batch if each.count}
        table.commit(files, moved)
        lag = sum(each.count for each in wanted) - sum(each.count for each in batch)
        self._tell_group({**cuts, **moved})
        self._listener.on_batch(
            BatchDone(
                batch_id=table.batch_id,
                rows=sum(file.rows for file in files),
                data_bytes=data_bytes,
                file_bytes=sum(file.size for file in files),
                files=len(files),
                seconds=time.monotonic() - began,
                lag=lag,
                cuts=moved,
            )
        )
        return False

    def _table(self, topic_id: str) -> ArchiveTable:
        """Read afresh for each batch: the lake is the only memory."""
        options = self._options
        try:
            table = open_archive(options.table)
        except NoLake:
            table = create_archive(options.table, topic=options.topic, topic_id=topic_id)
        table.check_topic(options.topic, topic_id)
        return table

    def _splits(self, batch: list[OffsetRange], topic_id: str) -> list[Split]:
        records = sum(each.count for each in batch)
        return plan_splits(
            batch,
            min_partitions=min(self._parallelism, 1 + records // SPLIT_RECORDS),
            max_records_per_partition=max(
                SPLIT_RECORDS, -(-self._options.batch_records // self._parallelism)
            ),
            topic_ids={self._options.topic: topic_id},
        )

    def _write(self, splits: list[Split]) -> tuple[list[OffsetFile], int]:
        options = self._options
        task = ArchiveTask(str(options.table), self._source, options.target_file_bytes)
        try:
            answers = run_tasks(self._spark, task, splits)
        except DiskFull:
            raise disk_full(options.table) from None
        files = [OffsetFile(**row) for answer in answers for row in answer["files"]]
        return files, sum(answer["data_bytes"] for answer in answers)

    def _tell_group(self, cuts: Mapping[int, int]) -> None:
        """For lag tools only: a broker that refuses it does not stop the archive."""
        topic = self._options.topic
        offsets = {TopicPartition(topic, each): cuts[each] for each in sorted(cuts)}
        try:
            group_offsets.commit(self._cluster, self._options.shown_group, offsets)
        except PipelineError as error:
            self._listener.on_trouble(f"the group's offsets could not be committed: {error}")
