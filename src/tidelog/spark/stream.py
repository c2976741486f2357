"""A stream: Spark asks where it begins, how far the next batch may go, and how to split it.

One object lives in one Python process of the driver for as long as the query runs, and keeps its
connections. `latestOffset(start, …)` is called after a batch completed, with what was processed:
there the group's offsets are committed, so that every lag tool sees how far Spark is. (Spark's own
`commit` comes one batch late, and never for the last batch of a query that ends.)
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from tidelog.spark import losses
from tidelog.spark.cluster import Cluster
from tidelog.spark.errors import DataLoss, PipelineError, plainly
from tidelog.spark.offsets import StreamOffsets, ranges_between
from tidelog.spark.options import SourceOptions, connect
from tidelog.spark.planner import OffsetRange, plan_splits
from tidelog.spark.source import SplitPartition, read_partition
from tidelog.spark.stream_plan import Horizon, Limits, Loss, find_losses, plan_end
from tidelog.spark.subscription import assigned, clamp, find_topics, require_topics, resolve

log = logging.getLogger("tidelog.spark")

_LONG_AGO_S = -1e9
"""So that the first batch waits for nothing, as with Spark's Kafka source."""


class TidelogStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """What Spark calls on the driver; `read` it calls on executors, on a copy."""

    def __init__(self, options: SourceOptions, columns: tuple[str, ...]) -> None:
        self._options = options
        self._columns = columns
        self._cluster: Cluster | None = None
        self._target: Horizon | None = None
        """The end of a query that stops with what was there when it began."""
        self._committed: StreamOffsets | None = None
        self._last_batch_s = _LONG_AGO_S

    def __getstate__(self) -> dict[str, Any]:
        """A copy for an executor has no connections."""
        return {**self.__dict__, "_cluster": None}

    # --- what Spark calls ---------------------------------------------------------------------

    def initialOffset(self) -> dict[str, Any]:
        with plainly():
            options = self._options
            assert options.starting is not None
            topics = require_topics(self._connected(), options)
            places = assigned(options, topics)
            start = resolve(self._connected(), options, options.starting, places, is_start=True)
            ids = {name: view.topic_id for name, view in topics.items()}
            return StreamOffsets(start, ids).to_json()

    def getDefaultReadLimit(self) -> ReadLimit:
        most = self._options.max_offsets_per_trigger
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def prepareForTriggerAvailableNow(self) -> None:
        with plainly():
            self._target = self._horizon()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        with plainly():
            begin = StreamOffsets.from_json(start)
            horizon = self._horizon()
            self._commit_group(begin, horizon)
            for loss in find_losses(begin, horizon):
                self._lose(loss)
            if self._target is not None:
                horizon = horizon.capped(self._target)
            end = plan_end(begin, horizon, self._limits(limit))
            if end is begin:
                return start
            self._last_batch_s = time.monotonic()
            return end.to_json()

    def reportLatestOffset(self) -> dict[str, Any] | None:
        with plainly():
            horizon = self._horizon()
            return StreamOffsets(horizon.last, horizon.topic_ids).to_json()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        with plainly():
            options = self._options
            finish = StreamOffsets.from_json(end)
            ranges = ranges_between(StreamOffsets.from_json(start), finish)
            readable = self._without_gone_topics(ranges, finish)
            splits = plan_splits(
                clamp(self._connected(), options, readable),
                min_partitions=options.min_partitions,
                max_records_per_partition=options.max_records_per_partition,
                topic_ids=finish.topic_ids,
            )
            return [SplitPartition(split) for split in splits]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return read_partition(self._options, partition, self._columns)

    def stop(self) -> None:
        if self._cluster is not None:
            self._cluster.close()
            self._cluster = None

    # --- how it is done -----------------------------------------------------------------------

    def _connected(self) -> Cluster:
        if self._cluster is None:
            self._cluster = connect(self._options)
        return self._cluster

    def _horizon(self) -> Horizon:
        cluster, options = self._connected(), self._options
        topics = find_topics(cluster, options)
        places = assigned(options, topics)
        return Horizon(
            first=cluster.earliest(places),
            last=cluster.latest(places, is_committed=options.is_committed),
            topic_ids={name: view.topic_id for name, view in topics.items()},
        )

    def _limits(self, limit: ReadLimit) -> Limits:
        options = self._options
        return Limits(
            max_records=limit.max_rows if isinstance(limit, ReadMaxRows) else None,
            min_records=options.min_offsets_per_trigger,
            waited_ms=int((time.monotonic() - self._last_batch_s) * 1000),
            max_delay_ms=options.max_trigger_delay_ms,
            is_eager=self._target is not None,
        )

    def _without_gone_topics(
        self, ranges: list[OffsetRange], finish: StreamOffsets
    ) -> list[OffsetRange]:
        """The ranges of topics that are still those of the checkpoint."""
        readable = [each for each in ranges if each.count > 0]
        for topic in sorted({each.topic for each in readable}):
            gone = tuple(each for each in readable if each.topic == topic)
            view = self._connected().find_topic(topic)
            if view is None:
                cause = losses.DELETED
            elif not finish.is_same_topic(StreamOffsets({}, {topic: view.topic_id}), topic):
                cause = losses.CREATED_AGAIN
            else:
                continue
            self._lose(Loss(gone, cause))
            readable = [each for each in readable if each.topic != topic]
        return readable

    def _lose(self, loss: Loss) -> None:
        if self._options.fail_on_data_loss:
            raise DataLoss(str(loss))
        log.warning("%s", loss)

    def _commit_group(self, processed: StreamOffsets, horizon: Horizon) -> None:
        """Shown, not relied upon: Spark's checkpoint is what counts, so a failure is a warning."""
        if processed == self._committed:
            return
        now = StreamOffsets(horizon.last, horizon.topic_ids)
        offsets = {
            place: offset
            for place, offset in processed.next.items()
            if place in horizon.last and processed.is_same_topic(now, place.topic)
        }
        try:
            self._connected().commit(self._options.group, offsets)
        except PipelineError as error:
            log.warning("the progress of the stream is not shown: %s", error)
        self._committed = processed
