"""What an executor does for the archive: read a split from the broker, leave files in the lake."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import pyarrow as pa

from tidelog.spark.jobs.tasks import Answer
from tidelog.spark.lake.schema import COLUMNS
from tidelog.spark.lake.writing import write_range
from tidelog.spark.options import SourceOptions
from tidelog.spark.planner import Split
from tidelog.spark.reader import read_split

READ_COLUMNS = tuple(name for name in COLUMNS if name != "partition")


@dataclass(frozen=True)
class ArchiveTask:
    """Sent to the executors as it is."""

    table: str
    source: SourceOptions
    target_bytes: int

    def __call__(self, split: Split) -> Answer:
        counted = CountedBatches(read_split(self.source, split, READ_COLUMNS))
        files = write_range(
            Path(self.table), split.offsets, counted, target_bytes=self.target_bytes
        )
        return {"files": [asdict(file) for file in files], "data_bytes": counted.data_bytes}


class CountedBatches:
    """Passes batches on and knows how many bytes they were."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._batches = batches
        self.data_bytes = 0

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for batch in self._batches:
            self.data_bytes += batch.nbytes
            yield batch


def source_options(topic: str, bootstrap: str) -> SourceOptions:
    """Only what is committed is archived: an aborted record never reaches the lake."""
    return SourceOptions.parse(
        {
            "kafka.bootstrap.servers": bootstrap,
            "subscribe": topic,
            "includeHeaders": "true",
            "isolation.level": "read_committed",
        }
    )
