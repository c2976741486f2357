"""A task reads its split: fetch, check, decode, yield Arrow batches. Runs on executors; no JVM.

The next fetch is on its way while an answer is decoded, so a task holds two answers at most. A
leader that moves is followed; a broker that comes back within the timeout is waited for.

Not every offset of a split has a record: compaction, markers of transactions and deleted records
leave gaps, and a gap is not loss. Loss is a wanted offset that lies before the log's start, or
after its end, or in a topic that is not there any more; `losses.py` has the words for each.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pyarrow as pa

from tidelog.model.errors import ErrorCode
from tidelog.model.ids import TopicPartition
from tidelog.spark import losses
from tidelog.spark.cluster import Cluster
from tidelog.spark.connection import BrokerConnection
from tidelog.spark.errors import CorruptData, DataLoss, NoBroker, StaleView, UnknownTopic, refusal
from tidelog.spark.options import SourceOptions, connect
from tidelog.spark.planner import OffsetRange, Split
from tidelog.spark.record_decoding import Aborted, Target, decode, scan
from tidelog.wire.errors import DecodeError
from tidelog.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tidelog.wire.schema import NO_UUID

_BY_NAME = 12
"""The last version of Fetch that names topics."""

_MAX_WAIT_MS = 500
_PAUSE_S = 0.1
_EMPTY_ANSWERS = 3
"""So often in a row the leader must say that nothing follows before it is taken for a gap."""

_SHORT_ANSWERS = 20
"""So often that its log ends before the split does: a new leader may not know better for a while.
At half a second each."""

_MOVED = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)
_MOVED_ID = ErrorCode.INCONSISTENT_TOPIC_ID

log = logging.getLogger("tidelog.spark")


def read_split(
    options: SourceOptions, split: Split, columns: tuple[str, ...]
) -> Iterator[pa.RecordBatch]:
    """The records of the split as Arrow batches of exactly these columns."""
    with connect(options) as cluster:
        yield from _Reading(cluster, options, split, columns).batches()


class _Reading:
    """One split on its way. `position` is the next offset to be read."""

    def __init__(
        self, cluster: Cluster, options: SourceOptions, split: Split, columns: tuple[str, ...]
    ) -> None:
        self._cluster = cluster
        self._options = options
        self._split = split
        self._place = TopicPartition(split.topic, split.partition)
        self._target = Target(split.topic, split.partition, split.start, split.end, columns)
        self._position = split.start
        self._empty_answers = 0
        self._give_up_s = time.monotonic() + options.timeout_s
        self._line: BrokerConnection | None = None

    def batches(self) -> Iterator[pa.RecordBatch]:
        while self._position < self._split.end:
            try:
                answer = self._next_answer()
            except StaleView as error:
                self._wait(str(error))
                continue
            except UnknownTopic:
                self._check_topic()
                continue
            if answer is not None:
                yield from self._opened(answer)

    def _next_answer(self) -> Any:
        """The answer for this partition, or None where there is nothing to decode in it."""
        try:
            if self._line is None:
                self._ask()
            assert self._line is not None
            answer = self._line.receive()
        except (OSError, DecodeError) as error:
            raise StaleView(self._disconnected(error)) from None
        self._line = None
        if answer.error_code is not ErrorCode.NONE:
            return self._refused(answer.error_code)
        data = answer.responses[0].partitions[0]
        if data.error_code is not ErrorCode.NONE:
            return self._refused(data.error_code)
        self._give_up_s = time.monotonic() + self._options.timeout_s
        if data.records is None or not len(data.records):
            return self._nothing(answer, data)
        return data

    def _opened(self, data: Any) -> Iterator[pa.RecordBatch]:
        scanned = scan(memoryview(data.records), self._target)
        if scanned.next_offset is None:
            raise CorruptData(f"{self._place}: an answer holds not one whole record batch")
        self._empty_answers = 0
        # A whole batch comes, however little of it was asked for, deleted records included.
        target = self._target._replace(start=self._position)
        self._position = max(self._position, scanned.next_offset)
        if self._position < self._split.end:
            self._ask_ahead()
        aborted = [
            Aborted(each.producer_id, each.first_offset)
            for each in data.aborted_transactions or ()
            if self._options.is_committed
        ]
        yield from decode(
            scanned,
            target,
            max_decompressed_bytes=self._options.max_decompressed_bytes,
            aborted=aborted,
        )

    def _ask_ahead(self) -> None:
        """While the answer is decoded; what fails here is met when the next is wanted."""
        try:
            self._ask()
        except (OSError, StaleView, UnknownTopic) as error:
            log.info("%s: %s", self._place, error)
            self._disconnected(error)

    # --- asking -------------------------------------------------------------------------------

    def _ask(self) -> None:
        line = self._cluster.line_of(self._cluster.leader_of(self._place))
        self._line = line
        has_id = bool(self._split.topic_id) and line.version_for(1) > _BY_NAME
        partition = FetchPartition(
            partition=self._split.partition,
            fetch_offset=self._position,
            partition_max_bytes=self._options.fetch_max_bytes,
        )
        topic = FetchTopic(
            topic=self._split.topic,
            topic_id=UUID(self._split.topic_id) if has_id else NO_UUID,
            partitions=[partition],
        )
        request = FetchRequest(
            max_wait_ms=_MAX_WAIT_MS,
            min_bytes=1,
            max_bytes=self._options.fetch_max_bytes,
            isolation_level=1 if self._options.is_committed else 0,
            topics=[topic],
        )
        line.send(request, at_most=None if has_id else _BY_NAME)

    def _disconnected(self, error: Exception) -> str:
        if self._line is not None:
            self._cluster.drop(self._line.address)
            self._line = None
        self._cluster.forget(self._place.topic)
        return str(error)

    def _wait(self, why: str) -> None:
        if time.monotonic() + _PAUSE_S >= self._give_up_s:
            raise NoBroker(
                f"partition {self._place} can't be read at offset {self._position}: "
                f"no answer for {self._options.timeout_s:g} s: {why}"
            )
        time.sleep(_PAUSE_S)

    # --- answers without records --------------------------------------------------------------

    def _nothing(self, answer: Any, data: Any) -> None:
        """Throttled, at the end of the log too early, or before a gap that reaches to the end."""
        if answer.throttle_time_ms > 0:
            return
        self._empty_answers += 1
        is_committed = self._options.is_committed
        end = data.last_stable_offset if is_committed else data.high_watermark
        is_short = end < self._split.end
        if self._empty_answers < (_SHORT_ANSWERS if is_short else _EMPTY_ANSWERS):
            return
        if is_short:
            self._lose(OffsetRange(*self._place, max(end, 0), self._split.end), losses.LOG_SHORTER)
        self._position = self._split.end

    def _refused(self, code: ErrorCode) -> None:
        if code is ErrorCode.OFFSET_OUT_OF_RANGE:
            self._out_of_range()
            return
        if code in _MOVED or code is _MOVED_ID:
            self._check_topic()
        if not code.is_retriable:
            raise refusal(f"partition {self._place}", code)
        self._cluster.forget(self._place.topic)
        raise StaleView(code.explanation)

    def _out_of_range(self) -> None:
        """Before the log's start: retention was faster. After its end: another, shorter log."""
        start = self._cluster.earliest([self._place])[self._place]
        if start > self._position:
            gone = OffsetRange(*self._place, self._position, min(start, self._split.end))
            self._lose(gone, losses.RETENTION)
            self._position = gone.end
            return
        end = self._cluster.latest([self._place])[self._place]
        if end >= self._split.end:
            raise StaleView("the offset is out of range no more")
        self._lose(OffsetRange(*self._place, max(end, 0), self._split.end), losses.LOG_SHORTER)
        self._position = self._split.end

    def _check_topic(self) -> None:
        """Deleted, or another topic of the same name? Else the broker will know it soon."""
        view = self._cluster.find_topic(self._place.topic)
        left = OffsetRange(*self._place, self._position, self._split.end)
        if view is None:
            cause = losses.DELETED
        elif self._split.topic_id and view.topic_id != self._split.topic_id:
            cause = losses.CREATED_AGAIN
        elif self._place.partition not in view.leaders:
            cause = losses.NO_PARTITION
        else:
            return
        self._lose(left, cause)
        self._position = self._split.end

    def _lose(self, gone: OffsetRange, cause: str) -> None:
        if self._options.fail_on_data_loss:
            raise DataLoss(losses.sentence([gone], cause))
        log.warning("%s", losses.sentence([gone], cause))
