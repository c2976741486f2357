"""What an executor does for a replay: one partition's next records to the same partition elsewhere.

Exactly once without transactions, by counting: while a replay is the only writer of its target, the
target's partition has grown by exactly the records that were replayed. So a task, the first as well
as one that Spark runs again, asks how much it has grown, skips as many of the source's records and
goes on. The producer is idempotent and keeps order, so what is there is always a beginning of what
should be there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from tidelog.model.ids import TopicPartition
from tidelog.spark.jobs.replay_source import ReplaySource
from tidelog.spark.jobs.tasks import Answer
from tidelog.spark.lake.errors import LakeError
from tidelog.spark.producing import TopicWriter
from tidelog.spark.sink_options import SinkOptions


@dataclass(frozen=True, slots=True)
class Position:
    """The next thing to replay of one partition: after `count` records, at `offset` or later.
    `begins_at` is where the target's partition ended before the first of them."""

    partition: int
    begins_at: int
    count: int = 0
    offset: int = 0


@dataclass(frozen=True)
class ReplayTask:
    """Sent to the executors as it is."""

    source: ReplaySource
    sink: SinkOptions
    max_records: int

    def __call__(self, position: Position) -> Answer:
        assert self.sink.topic is not None
        place = TopicPartition(self.sink.topic, position.partition)
        with self.sink.connect() as cluster:
            grown = cluster.latest([place])[place] - position.begins_at
        skipping = _Skipping(grown - position.count)
        if skipping.left < 0:
            raise LakeError(f"partition {place} has shrunk: it is not the topic of this replay")
        batches = self.source.batches(position.partition, position.offset)
        sent, offset = 0, position.offset
        with TopicWriter(self.sink) as writer:
            for batch in skipping.rest(batches):
                part = batch.slice(0, self.max_records - sent)
                writer.write(_addressed(part, position.partition))
                sent += part.num_rows
                offset = part.column("offset")[-1].as_py() + 1
                if sent == self.max_records:
                    break
            written = writer.flush()
        is_end = sent < self.max_records
        if skipping.left:
            raise LakeError(
                f"partition {place} has {skipping.left:,} records more than were replayed: "
                "somebody else writes to it; replay into a topic of its own, or with --again"
            )
        return {
            "partition": position.partition,
            "records": written.records,
            "data_bytes": written.bytes,
            "count": grown + written.records,
            "offset": offset,
            "is_end": is_end,
        }


class _Skipping:
    """Leaves out the first so many rows; `left` are those it has not met yet."""

    def __init__(self, count: int) -> None:
        self.left = count

    def rest(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            skipped = min(self.left, batch.num_rows)
            self.left -= skipped
            if skipped < batch.num_rows:
                yield batch.slice(skipped)


def _addressed(batch: pa.RecordBatch, partition: int) -> pa.RecordBatch:
    """For the same partition of the other topic."""
    columns = {name: batch.column(name) for name in ("key", "value", "headers", "timestamp")}
    columns["partition"] = pa.array([partition] * batch.num_rows, pa.int32())
    return pa.RecordBatch.from_pydict(columns)
