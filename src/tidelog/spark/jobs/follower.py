"""The loop of every job that follows a topic into a Delta table, exactly once.

A batch is planned from the cuts in the table and the ends of the log; the job's `Mover` moves its
records and commits them together with the new cuts. What is killed before the commit leaves files
that nobody sees; what is killed after it finds the cuts moved. There is no other state: the
consumer group's offsets are told to the broker only so that lag tools see the job.

The log must not have changed under the table: a topic created again, a log that ends before the
cut, records deleted before they were read are each refused with a sentence.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self, TypeVar

from tidelog.model.ids import TopicPartition
from tidelog.spark import group_offsets
from tidelog.spark.cluster import Cluster
from tidelog.spark.errors import DataLoss, NoBroker, PipelineError
from tidelog.spark.jobs.log_ranges import OnLoss, log_ranges
from tidelog.spark.jobs.tasks import parallelism
from tidelog.spark.lake.errors import LostRecords, TaskFailed
from tidelog.spark.lake.lock import only_driver
from tidelog.spark.lake.topic_table import TopicTable, explained
from tidelog.spark.lake.writing import clear_unfinished
from tidelog.spark.planner import OffsetRange, Split, plan_limited, plan_splits

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SPLIT_RECORDS = 50_000
"""Below this a further task, and file, costs more than it gains."""

MAX_FAILURES = 4
"""Batches that may fail in a row before a job gives up, or waits for its next turn."""

_BROKER_PATIENCE_S = 20.0
_LONGEST_PAUSE_S = 10.0

Followed = TypeVar("Followed", bound=TopicTable)


@dataclass(frozen=True, slots=True)
class Following:
    """What is followed, and how."""

    topic: str
    table: Path
    bootstrap: str
    group: str
    batch_records: int
    on_loss: OnLoss = "fail"


@dataclass(frozen=True, slots=True)
class Moved:
    """What a batch left in the table."""

    rows: int
    data_bytes: int
    file_bytes: int
    files: int


@dataclass(frozen=True, slots=True)
class BatchDone:
    """One commit. `lag` is what was in the log when the job last looked, and is not done yet."""

    batch_id: int
    moved: Moved
    seconds: float
    lag: int
    cuts: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class Listener:
    """Who wants to hear how it goes on."""

    on_batch: Callable[[BatchDone], None] = field(default=lambda _done: None)
    on_trouble: Callable[[str], None] = field(default=lambda _reason: None)


class Mover(Protocol[Followed]):
    """What a job does with a batch."""

    def open(self, topic_id: str) -> Followed:
        """The table as it is now; an empty one if there is none."""

    def move(self, table: Followed, splits: Sequence[Split], cuts: Mapping[int, int]) -> Moved:
        """Move the records of `splits` and commit them with `cuts`, at once."""


class Follower:
    """`with Follower(spark, following, mover) as job: job.catch_up()`. One driver a table."""

    def __init__(
        self,
        spark: SparkSession,
        following: Following,
        mover: Mover[Followed],
        listener: Listener | None = None,
    ) -> None:
        self._following = following
        self._mover = mover
        self._listener = listener or Listener()
        self._cluster = Cluster(following.bootstrap, timeout_s=_BROKER_PATIENCE_S)
        self._parallelism = parallelism(spark)
        self._lock = only_driver(following.table)
        self.stop = Event()
        """Set it, from any thread or signal handler, to end the job after its current batch."""

    def __enter__(self) -> Self:
        """`UnknownTopic` before anything is made; `LakeInUse` if another driver is at work."""
        self._cluster.topic(self._following.topic)
        try:
            self._lock.__enter__()
        except OSError as error:
            raise explained(error, self._following.table) from None
        clear_unfinished(self._following.table)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._lock.__exit__(None, None, None)
        self._cluster.close()

    def catch_up(self) -> None:
        """Until everything is done that was in the log when this began."""
        ends = self._ends()
        failures = 0
        is_done = False
        while not is_done and not self.stop.is_set():
            try:
                is_done = self._batch(ends)
                failures = 0
            except (TaskFailed, DataLoss) as error:
                if isinstance(error, DataLoss) and self._following.on_loss == "fail":
                    raise _lost(error) from None
                failures += 1
                if failures == MAX_FAILURES:
                    raise
                self._listener.on_trouble(f"{error}; the batch is done again")

    def follow(self, every_s: float) -> None:
        """Until `stop`: catch up, wait, catch up. A broker or a worker that is away is waited for;
        what would fail again in the same way is raised."""
        while True:
            pause_s = every_s
            try:
                self.catch_up()
            except (NoBroker, TaskFailed) as error:
                self._listener.on_trouble(f"{error}; trying again")
                pause_s = min(every_s, _LONGEST_PAUSE_S)
            if self.stop.wait(pause_s):
                return

    def _ends(self) -> dict[TopicPartition, int]:
        """Asked anew each time, so partitions that were added are seen."""
        view = self._cluster.topic(self._following.topic)
        places = [TopicPartition(view.name, partition) for partition in view.partitions]
        return self._cluster.latest(places, is_committed=True)

    def _batch(self, ends: Mapping[TopicPartition, int]) -> bool:
        """Move the next batch before `ends`; whether there was nothing left to move."""
        began = time.monotonic()
        following = self._following
        view = self._cluster.topic(following.topic)
        table = self._mover.open(view.topic_id)
        table.check_topic(following.topic, view.topic_id)
        cuts = table.cuts(view.partitions)
        earliest = self._cluster.earliest(ends)
        wanted = log_ranges(view.name, cuts, earliest, ends, on_loss=following.on_loss)
        batch = self._limited(wanted)
        splits = self._splits(batch, view.topic_id)
        moved_cuts = {each.partition: each.end for each in batch if each.count}
        if splits:
            moved = self._mover.move(table, splits, moved_cuts)
            lag = sum(each.count for each in wanted) - sum(each.count for each in batch)
            seconds = time.monotonic() - began
            self._listener.on_batch(BatchDone(table.batch_id, moved, seconds, lag, moved_cuts))
        self._tell_group({**cuts, **moved_cuts})
        return not splits

    def _limited(self, wanted: list[OffsetRange]) -> list[OffsetRange]:
        ends = plan_limited(wanted, max_records=self._following.batch_records)
        return [
            OffsetRange(each.topic, each.partition, each.start, ends[each.place]) for each in wanted
        ]

    def _splits(self, batch: list[OffsetRange], topic_id: str) -> list[Split]:
        records = sum(each.count for each in batch)
        share = -(-self._following.batch_records // self._parallelism)
        return plan_splits(
            batch,
            min_partitions=min(self._parallelism, 1 + records // SPLIT_RECORDS),
            max_records_per_partition=max(SPLIT_RECORDS, share),
            topic_ids={self._following.topic: topic_id},
        )

    def _tell_group(self, cuts: Mapping[int, int]) -> None:
        """For lag tools only: a broker that refuses it does not stop the job."""
        topic = self._following.topic
        offsets = {TopicPartition(topic, each): cuts[each] for each in sorted(cuts)}
        try:
            group_offsets.commit(self._cluster, self._following.group, offsets)
        except PipelineError as error:
            self._listener.on_trouble(f"the group's offsets could not be committed: {error}")


def _lost(error: DataLoss) -> LostRecords:
    """What a task found gone, with the option of this job instead of the source's."""
    what = str(error).partition(". Set failOnDataLoss")[0]
    return LostRecords(f"{what}; --on-loss continue goes on with what is left")
