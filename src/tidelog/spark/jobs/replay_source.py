"""Where a replay's records come from: an archive, or a range of a log. Sent to the executors.

Both give the records of one partition in the order of their offsets, from any offset on, and only
those of the wanted time. The order never changes, also when files were joined meanwhile: that is
what lets a replay go on by counting.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from tidelog.spark.lake.files import OffsetFile
from tidelog.spark.lake.optimizing import stored_batches
from tidelog.spark.options import SourceOptions
from tidelog.spark.planner import OffsetRange, Split
from tidelog.spark.reader import read_split

REPLAYED = ("key", "value", "headers", "timestamp", "offset")


@dataclass(frozen=True, slots=True)
class Period:
    """From `since_us` to `until_us` (not included), microseconds since 1970; None is no bound."""

    since_us: int | None = None
    until_us: int | None = None

    def only(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows of this time."""
        times = batch.column("timestamp").cast(pa.int64())
        if self.since_us is not None:
            wanted = pc.greater_equal(times, self.since_us)
            batch, times = batch.filter(wanted), times.filter(wanted)
        if self.until_us is not None:
            batch = batch.filter(pc.less(times, self.until_us))
        return batch


class ReplaySource(Protocol):
    """What a task asks."""

    def batches(self, partition: int, offset: int) -> Iterator[pa.RecordBatch]:
        """The wanted records of the partition from `offset` on, with the columns `REPLAYED`."""


@dataclass(frozen=True)
class ArchiveSource:
    """The files of one version of an archive."""

    table: str
    files: tuple[OffsetFile, ...]
    period: Period

    @property
    def partitions(self) -> list[int]:
        return sorted({file.partition for file in self.files})

    def batches(self, partition: int, offset: int) -> Iterator[pa.RecordBatch]:
        chosen = [
            file
            for file in self.files
            if file.partition == partition
            and file.next_offset > offset
            and file.may_hold(since_us=self.period.since_us, until_us=self.period.until_us)
        ]
        for batch in stored_batches(Path(self.table), chosen, REPLAYED):
            later = batch.filter(pc.greater_equal(batch.column("offset"), offset))
            yield self.period.only(later)


@dataclass(frozen=True)
class LogSource:
    """A range of each partition of a topic, as it was when the replay began."""

    options: SourceOptions
    ranges: Mapping[int, OffsetRange]
    topic_id: str
    period: Period

    @property
    def partitions(self) -> list[int]:
        return sorted(self.ranges)

    def batches(self, partition: int, offset: int) -> Iterator[pa.RecordBatch]:
        whole = self.ranges[partition]
        start = max(offset, whole.start)
        if start >= whole.end:
            return
        split = Split(OffsetRange(whole.topic, partition, start, whole.end), self.topic_id)
        for batch in read_split(self.options, split, REPLAYED):
            yield self.period.only(batch)
