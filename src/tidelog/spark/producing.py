"""Arrow batches into topics: idempotent, acknowledged by all in-sync replicas, in order.

Usable without Spark::

    with TopicWriter(SinkOptions("127.0.0.1:9092", topic="orders")) as writer:
        for batch in batches:
            writer.write(batch)

While brokers store one request the next is encoded. Each partition has one batch under way at most,
so order holds whatever must be sent again; sequence numbers make sending again harmless. Memory:
two requests and one Arrow batch.
"""

from __future__ import annotations

import random
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, NamedTuple, Self

import pyarrow as pa

from tidelog.model.errors import ErrorCode
from tidelog.model.ids import TopicPartition
from tidelog.spark.connection import BrokerConnection
from tidelog.spark.errors import PipelineError, RefusedByBroker, StaleView, refusal
from tidelog.spark.record_encoding import (
    Identity,
    Rows,
    by_topic,
    choose_partitions,
    cut,
    encode,
    rows_of,
)
from tidelog.spark.sink_options import SinkOptions
from tidelog.wire.errors import DecodeError
from tidelog.wire.messages.init_producer_id import InitProducerIdRequest
from tidelog.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)

REQUEST_BYTES = 4 * 1024 * 1024
_PRODUCES_BY_NAME = 12
_SEQUENCES = 0x80000000
_ACKNOWLEDGE_MS = 30_000


class Ready(NamedTuple):
    """A batch, sealed, and where it goes."""

    place: TopicPartition
    data: bytearray
    records: int


@dataclass(slots=True)
class Written:
    """What has been acknowledged."""

    records: int = 0
    bytes: int = 0
    last_offsets: dict[TopicPartition, int] = field(default_factory=dict)


class TopicWriter:
    """Writes until closed; what `flush` returned from is stored. Belongs to one thread."""

    def __init__(
        self,
        options: SinkOptions,
        *,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self.written = Written()
        self._options = options
        self._cluster = options.connect()
        self._now_ms = now_ms
        self._turn = random.randrange(1 << 16)
        self._producer: tuple[int, int] | None = None
        self._sequences: dict[TopicPartition, int] = defaultdict(int)
        self._counts: dict[str, int] = {}
        self._waiting: deque[Ready] = deque()
        self._waiting_bytes = 0
        self._under_way: list[tuple[BrokerConnection, list[Ready]]] = []

    def write_all(self, batches: Iterable[pa.RecordBatch]) -> Written:
        """All of `batches`, stored."""
        for batch in batches:
            self.write(batch)
        return self.flush()

    def write(self, batch: pa.RecordBatch) -> None:
        """Columns `key`, `value`, `headers`, `partition`, `timestamp`, `topic`, all optional but
        `value`, and `topic` only where the options name one."""
        if not batch.num_rows:
            return
        for topic, part in by_topic(batch, self._options.topic):
            rows = rows_of(part, now_ms=self._now_ms())
            partitions = choose_partitions(
                rows, count=self._partition_count(topic), turn=self._turn, topic=topic
            )
            self._turn += 1
            for number, order, room in cut(
                rows, partitions, max_bytes=self._options.max_batch_bytes
            ):
                self._add(rows, TopicPartition(topic, number), order, room)

    def flush(self) -> Written:
        """Until all that was written is acknowledged."""
        while self._waiting or self._under_way:
            self._settle()
            self._send_waiting()
        return self.written

    def close(self) -> None:
        """Without waiting: `flush` first."""
        self._cluster.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if kind is None:
                self.flush()
        finally:
            self.close()

    # --- batches ------------------------------------------------------------------------------

    def _partition_count(self, topic: str) -> int:
        if topic not in self._counts:
            view = self._cluster.topic(topic, create_missing=True)
            self._counts[topic] = len(view.partitions)
        return self._counts[topic]

    def _add(self, rows: Rows, place: TopicPartition, order: Any, room: int) -> None:
        producer_id, epoch = self._identity()
        sequence = self._sequences[place]
        data = encode(
            rows,
            order,
            room,
            identity=Identity(producer_id, epoch, sequence),
            compression=self._options.compression,
        )
        self._sequences[place] = (sequence + len(order)) % _SEQUENCES
        self._waiting.append(Ready(place, data, len(order)))
        self._waiting_bytes += len(data)
        if self._waiting_bytes >= REQUEST_BYTES:
            self._settle()
            self._send_waiting()

    def _identity(self) -> tuple[int, int]:
        if self._producer is None:
            request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)

            def ask() -> tuple[int, int]:
                answer = self._cluster.ask_anyone(request)
                if answer.error_code.is_retriable:
                    raise StaleView(answer.error_code.explanation)
                if answer.error_code is not ErrorCode.NONE:
                    raise refusal("an idempotent producer", answer.error_code)
                return answer.producer_id, answer.producer_epoch

            self._producer = self._cluster.retrying("an idempotent producer", ask)
        return self._producer

    # --- requests -----------------------------------------------------------------------------

    def _send_waiting(self) -> None:
        """The first waiting batch of each partition, to all leaders at once."""
        chosen: dict[TopicPartition, Ready] = {}
        left: deque[Ready] = deque()
        size = 0
        for ready in self._waiting:
            if ready.place in chosen or size >= REQUEST_BYTES:
                left.append(ready)
            else:
                chosen[ready.place] = ready
                size += len(ready.data)
        self._waiting = left
        self._waiting_bytes -= size
        by_leader: dict[int, list[Ready]] = {}
        for ready in chosen.values():
            leader = self._retried(ready.place, self._cluster.leader_of)
            by_leader.setdefault(leader, []).append(ready)
        failed = [
            ready
            for leader, batches in by_leader.items()
            if not self._is_sent(leader, batches)
            for ready in batches
        ]
        if failed:
            self._settle()
            self._send_again(failed)

    def _is_sent(self, leader: int, batches: list[Ready]) -> bool:
        try:
            line = self._cluster.line_of(leader)
        except StaleView:
            return False
        try:
            line.send(_request(batches), at_most=_PRODUCES_BY_NAME)
        except OSError:
            self._cluster.drop(line.address)
            return False
        self._under_way.append((line, batches))
        return True

    def _settle(self) -> None:
        """Wait for all that is under way; send again what was not stored and may be sent again."""
        flights, self._under_way = self._under_way, []
        failed: list[Ready] = []
        for line, batches in flights:
            try:
                failed += self._note(line.receive(), batches)
            except (OSError, DecodeError):
                self._cluster.drop(line.address)
                failed += batches
        self._send_again(failed)

    def _send_again(self, batches: list[Ready]) -> None:
        """One by one, until stored: order within a partition holds, since nothing else of it is
        under way."""
        for ready in batches:
            self._cluster.forget(ready.place.topic)

            def attempt(place: TopicPartition, ready: Ready = ready) -> None:
                leader = self._cluster.leader_of(place)
                answer = self._cluster.ask_node(
                    leader, _request([ready]), at_most=_PRODUCES_BY_NAME
                )
                if self._note(answer, [ready]):
                    self._cluster.forget(place.topic)
                    raise StaleView("the batch was not stored")

            self._retried(ready.place, attempt)

    def _retried(self, place: TopicPartition, attempt: Callable[[TopicPartition], Any]) -> Any:
        return self._cluster.retrying(f"a write to partition {place}", lambda: attempt(place))

    def _note(self, answer: Any, batches: list[Ready]) -> list[Ready]:
        """Count what was stored; give what may be sent again; refuse the rest in words."""
        by_place = {ready.place: ready for ready in batches}
        failed: list[Ready] = []
        for topic in answer.responses:
            for row in topic.partition_responses:
                ready = by_place[TopicPartition(topic.name, row.index)]
                if row.error_code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
                    self._count(ready, row.base_offset)
                elif row.error_code.is_retriable:
                    failed.append(ready)
                else:
                    raise _refused(ready, row)
        return failed

    def _count(self, ready: Ready, base_offset: int) -> None:
        self.written.records += ready.records
        self.written.bytes += len(ready.data)
        if base_offset >= 0:
            self.written.last_offsets[ready.place] = base_offset + ready.records - 1


def _request(batches: list[Ready]) -> ProduceRequest:
    topics: dict[str, list[PartitionProduceData]] = {}
    for ready in batches:
        row = PartitionProduceData(index=ready.place.partition, records=ready.data)
        topics.setdefault(ready.place.topic, []).append(row)
    return ProduceRequest(
        acks=-1,
        timeout_ms=_ACKNOWLEDGE_MS,
        topic_data=[
            TopicProduceData(name=name, partition_data=rows) for name, rows in topics.items()
        ],
    )


def _refused(ready: Ready, row: Any) -> PipelineError:
    if row.error_code is ErrorCode.MESSAGE_TOO_LARGE:
        return RefusedByBroker(
            f"a record batch of {len(ready.data):,} bytes is larger than topic "
            f"{ready.place.topic!r} allows: set kafka.batch.size lower, or max.message.bytes of "
            "the topic higher"
        )
    said = f": {row.error_message}" if row.error_message else ""
    return RefusedByBroker(f"{refusal(f'partition {ready.place}', row.error_code)}{said}")
