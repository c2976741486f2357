"""Fetch: committed batches from many partitions, as file ranges, with a long poll.

- A fetch in the middle of a batch gets the whole batch: the client skips to its offset.
- The first partition with data gets at least one batch, however large; `max_bytes` and each
  `partition_max_bytes` bound the rest.
- Too little data (`min_bytes`) waits until `max_wait_ms`; an error is answered at once.
- Nothing is transactional yet, so the last stable offset is the high watermark and
  `read_committed` reads the same records.
"""

from __future__ import annotations

from tidelog.broker.fetch_sessions import FetchItem, FetchPlan
from tidelog.broker.pending import Wait
from tidelog.broker.state import PARKED, BrokerState, Call, Sentinel
from tidelog.log.disk import DiskError, FileSpan
from tidelog.model.clock import Now
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NO_EPOCH, PartitionKey
from tidelog.partition.leader import Leader
from tidelog.wire.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)

_READ_COMMITTED = 1


class FetchWait(Wait):
    """A long poll: too few bytes so far."""

    __slots__ = ("_fetch",)

    def __init__(self, fetch: _Fetch) -> None:
        self._fetch = fetch

    def resume(self, now: Now, *, is_expired: bool) -> FetchResponse | None:
        self._fetch.collect()
        return self._fetch.respond() if is_expired or self._fetch.is_enough else None

    def describe(self) -> str:
        fetch = self._fetch
        return f"Fetch waits for {fetch.min_bytes} bytes of {len(fetch.plan.items)} partitions"


def handle(state: BrokerState, call: Call, request: FetchRequest) -> FetchResponse | Sentinel:
    plan = state.sessions.plan(request)
    if isinstance(plan, ErrorCode):
        return FetchResponse(error_code=plan, responses=[])
    fetch = _Fetch(state, request, plan)
    fetch.collect()
    if fetch.is_enough or request.max_wait_ms <= 0 or not plan.items:
        return fetch.respond()
    state.pending.park_on_partitions(
        call.slot,
        FetchWait(fetch),
        partitions=fetch.keys(),
        deadline_ms=call.now.monotonic_ms + request.max_wait_ms,
    )
    return PARKED


class _Fetch:
    """One fetch under way: collected afresh each time it is woken."""

    def __init__(self, state: BrokerState, request: FetchRequest, plan: FetchPlan) -> None:
        self._state = state
        self._max_bytes = min(max(0, request.max_bytes), state.config.settings.fetch_max_bytes)
        self._no_transactions: list[AbortedTransaction] | None = (
            [] if request.isolation_level == _READ_COMMITTED else None
        )
        self.min_bytes = request.min_bytes
        self.plan = plan
        self._collected: list[PartitionData] = []
        self._bytes = 0
        self._has_error = False

    @property
    def is_enough(self) -> bool:
        return self._bytes >= self.min_bytes or self._has_error

    def keys(self) -> list[PartitionKey]:
        leaders = (self._find(item) for item in self.plan.items)
        return [leader.key for leader in leaders if isinstance(leader, Leader)]

    def collect(self) -> None:
        """Read every partition of the plan, in its order, until the bytes are used up."""
        self._bytes = 0
        self._has_error = False
        self._collected = [self._read(item) for item in self.plan.items]

    def respond(self) -> FetchResponse:
        """What was collected; in a session only what the client does not know yet."""
        topics: list[FetchableTopicResponse] = []
        session = self.plan.session
        for item, data in zip(self.plan.items, self._collected, strict=True):
            if self.plan.is_incremental and not _is_news(item, data):
                continue
            item.sent_high_watermark = data.high_watermark
            item.sent_log_start_offset = data.log_start_offset
            if session is not None and data.records:
                session.move_to_end(item)
            last = topics[-1] if topics else None
            if last is None or last.topic != item.topic or last.topic_id != item.topic_id:
                last = FetchableTopicResponse(
                    topic=item.topic, topic_id=item.topic_id, partitions=[]
                )
                topics.append(last)
            last.partitions.append(data)
        return FetchResponse(session_id=self.plan.session_id, responses=topics)

    def _find(self, item: FetchItem) -> Leader | ErrorCode:
        return self._state.replicas.find(item.topic, item.partition, topic_id=item.topic_id)

    def _read(self, item: FetchItem) -> PartitionData:
        leader = self._find(item)
        if isinstance(leader, ErrorCode):
            return self._refused(item, leader)
        error = leader.check_epoch(item.current_leader_epoch)
        if error is not ErrorCode.NONE:
            return self._refused(item, error)
        diverging = _divergence(leader, item)
        if isinstance(diverging, ErrorCode):
            return self._refused(item, diverging)
        if diverging is not None:
            self._has_error = True
            return self._data(item, leader, b"", diverging)
        room = self._max_bytes - self._bytes
        is_first = self._bytes == 0
        if room <= 0 and not is_first:
            return self._data(item, leader, b"")
        try:
            span = leader.read(
                item.fetch_offset, max_bytes=min(room, item.max_bytes), at_least_one=is_first
            )
        except DiskError:
            return self._refused(item, ErrorCode.KAFKA_STORAGE_ERROR)
        if isinstance(span, ErrorCode):
            self._state.touched[leader] = None
            return self._refused(item, span)
        if span is None:
            return self._data(item, leader, b"")
        self._bytes += span.size
        return self._data(item, leader, span)

    def _data(
        self,
        item: FetchItem,
        leader: Leader,
        records: FileSpan | bytes,
        diverging: EpochEndOffset | None = None,
    ) -> PartitionData:
        watermark = leader.high_watermark
        data = PartitionData(
            partition_index=item.partition,
            high_watermark=watermark,
            last_stable_offset=watermark,
            log_start_offset=leader.log.log_start_offset,
            aborted_transactions=self._no_transactions,
            records=records,
        )
        if diverging is not None:
            data.diverging_epoch = diverging
        return data

    def _refused(self, item: FetchItem, error: ErrorCode) -> PartitionData:
        self._has_error = True
        return PartitionData(
            partition_index=item.partition,
            error_code=error,
            high_watermark=-1,
            last_stable_offset=-1,
            log_start_offset=-1,
            aborted_transactions=self._no_transactions,
            records=b"",
        )


def _divergence(leader: Leader, item: FetchItem) -> EpochEndOffset | ErrorCode | None:
    """Where the reader's log parts from ours, if the epoch it last read says that it does. A log
    that knows no epoch yet (the topic was created again) can't say where: the reader starts over.
    """
    if item.last_fetched_epoch == NO_EPOCH:
        return None
    epoch, end_offset = leader.log.epoch_end_offset(item.last_fetched_epoch)
    if epoch == NO_EPOCH:
        return ErrorCode.OFFSET_OUT_OF_RANGE
    if epoch == item.last_fetched_epoch and end_offset >= item.fetch_offset:
        return None
    return EpochEndOffset(epoch=epoch, end_offset=end_offset)


def _is_news(item: FetchItem, data: PartitionData) -> bool:
    return (
        bool(data.records)
        or data.error_code is not ErrorCode.NONE
        or data.diverging_epoch.epoch >= 0
        or data.high_watermark != item.sent_high_watermark
        or data.log_start_offset != item.sent_log_start_offset
    )
