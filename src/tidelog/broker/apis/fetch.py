"""Fetch: batches from many partitions, as file ranges, with a long poll; for consumers the
committed ones, for followers all.

- A fetch in the middle of a batch gets the whole batch: the client skips to its offset.
- The first partition with data gets at least one batch, however large; `max_bytes` and each
  `partition_max_bytes` bound the rest.
- Too little data (`min_bytes`) waits until `max_wait_ms`; an error is answered at once.
- What is not in memory is read as an effect (`broker/reading.py`). If there is something else to
  give, that is answered at once; else the fetch waits for the read, and then collects afresh.
- Nothing is transactional yet, so the last stable offset is the high watermark and
  `read_committed` reads the same records.
- A consumer that names its rack is told of a replica there (KIP-392), and may read from a follower
  (from v11 on) what that knows to be committed.
- A follower (`replica_id` not below 0) says with its offset what it holds durably; that is noted
  once, when the fetch arrives. It is answered when there is something to append, or when it does
  not know the watermark or the log's start yet, so that its own readers learn them soon. Its epochs
  are checked before anything else; out of range, it is told where the log begins. A copy in the
  making gets no more than `leader.replication.throttled.rate` allows, if its topic says so."""

from __future__ import annotations

from tidelog.broker import follower_sessions
from tidelog.broker.current_leader import WRONG_LEADER, endpoints_of, leader_now
from tidelog.broker.fetch_sessions import (
    CONSUMERS,
    FetchItem,
    FetchPlan,
    FetchSession,
    SessionReader,
    Terms,
    reader_of,
)
from tidelog.broker.pending import Postponed, Wait
from tidelog.broker.reading import ColdReads
from tidelog.broker.state import PARKED, BrokerState, Call, Sentinel
from tidelog.log.disk import DiskError, FileSpan, NotInMemory
from tidelog.model.clock import Now
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NO_EPOCH, NO_NODE, NodeId, PartitionKey
from tidelog.partition.divergence import EpochEnd, find_divergence
from tidelog.partition.progress import FollowerFetch
from tidelog.partition.replica import Replica
from tidelog.wire.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)

_READ_COMMITTED = 1
_FIRST_FROM_FOLLOWERS = 11
"""From this version on, consumers may read from followers."""

READ_PATIENCE_MS = 10_000.0
"""So long after `max_wait_ms` a consumer's fetch waits for the disk, if it has nothing else to
give: well below the 30 s after which clients believe that nobody is there. It is answered without
those records then; their next fetch waits for the same read."""

FOLLOWERS_PATIENCE_MS = 1_000.0
"""A follower gives the connection up about two seconds after it has asked."""


class FetchWait(Wait):
    """A long poll: too few bytes so far, or they are being read."""

    __slots__ = ("_due_ms", "_fetch", "_has_patience")

    def __init__(self, fetch: _Fetch, *, due_ms: float) -> None:
        self._fetch = fetch
        self._due_ms = due_ms
        self._has_patience = True
        fetch.forget()

    def resume(self, now: Now, *, is_expired: bool) -> FetchResponse | Postponed | None:
        fetch, now_ms = self._fetch, now.monotonic_ms
        fetch.collect(now_ms)
        is_due = is_expired or now_ms >= self._due_ms
        if fetch.is_enough or (is_due and not fetch.waits_for_disk):
            return fetch.respond()
        if is_expired and not self._has_patience:
            return fetch.respond()
        fetch.forget()
        if is_expired:
            self._has_patience = False
            return Postponed(now_ms + fetch.patience_ms)
        return None

    def describe(self) -> str:
        fetch = self._fetch
        what = f"Fetch waits for {fetch.min_bytes} bytes of {len(fetch.plan)} partitions"
        cold = fetch.cold
        if cold is None or not cold.awaited:
            return what
        return f"{what}, and for {', '.join(map(str, cold.awaited.values()))} to be read"

    def abandoned(self, number: int) -> None:
        if self._fetch.cold is not None:
            self._fetch.cold.let_go()

    def keys(self) -> list[PartitionKey]:
        """The partitions that it waits for."""
        return self._fetch.keys()


def handle(state: BrokerState, call: Call, request: FetchRequest) -> FetchResponse | Sentinel:
    reader = reader_of(request)
    sessions = state.sessions if reader is CONSUMERS else state.follower_sessions
    plan = sessions.plan(request, reader)
    while sessions.dropped:
        _watch_itself(state, sessions.dropped.pop())
    if isinstance(plan, ErrorCode):
        return FetchResponse(error_code=plan, responses=[])
    fetch = _fetch_for(state, call, request, plan, reader)
    fetch.collect(call.now.monotonic_ms)
    if fetch.is_enough or len(plan) == 0:
        return fetch.respond()
    if request.max_wait_ms <= 0 and not fetch.waits_for_disk:
        return fetch.respond()
    deadline_ms = due_ms = call.now.monotonic_ms + request.max_wait_ms
    wait = FetchWait(fetch, due_ms=due_ms)
    if plan.session is not None and plan.is_incremental:
        among = plan.session.waiting
        row = state.pending.park_among(call.slot, wait, among, deadline_ms=deadline_ms)
    else:
        keys = fetch.keys()
        row = state.pending.park_on_partitions(
            call.slot, wait, partitions=keys, deadline_ms=deadline_ms
        )
    fetch.row = row.number
    if fetch.cold is not None:
        fetch.cold.row = row.number
    return PARKED


def _watch_itself(state: BrokerState, dropped: FetchSession) -> None:
    """Whoever waits in a session that is dropped is woken by its partitions, and looks at all."""
    for row in dropped.waiting.values():
        if isinstance(row.wait, FetchWait):
            state.pending.watch(row, row.wait.keys())


def is_from_follower(request: FetchRequest) -> bool:
    """Another node copies, no client reads."""
    return reader_of(request) is not CONSUMERS


def _fetch_for(
    state: BrokerState, call: Call, request: FetchRequest, plan: FetchPlan, reader: SessionReader
) -> _Fetch:
    if reader is CONSUMERS:
        return _Fetch(state, request, plan, version=call.slot.header.api_version)
    fetch = _FollowersFetch(state, request, plan, reader)
    fetch.note(call.now.monotonic_ms)
    return fetch


class _Fetch:
    """One fetch under way: collected afresh each time it is woken."""

    patience_ms = READ_PATIENCE_MS

    def __init__(
        self, state: BrokerState, request: FetchRequest, plan: FetchPlan, *, version: int
    ) -> None:
        self._state = state
        self._max_bytes = min(max(0, request.max_bytes), state.config.settings.fetch_max_bytes)
        self._no_transactions: list[AbortedTransaction] | None = (
            [] if request.isolation_level == _READ_COMMITTED else None
        )
        self._rack = request.rack_id
        self._may_follow = version >= _FIRST_FROM_FOLLOWERS
        self.min_bytes = request.min_bytes
        self.plan = plan
        self.collected: list[tuple[FetchItem, PartitionData]] = []
        self._bytes = 0
        self._now_ms = 0.0
        self._may_block = False
        self._has_error = False
        self._leaders: list[int] = []
        self._has_left = False
        """What was read last has more to give or to tell than was collected of it."""
        self.is_cold = False
        """Some of what was collected last is not in memory."""
        self.cold: ColdReads | None = None
        """What is being read for it, once something is."""
        self.row: int | None = None
        """Of `Pending`, while it waits."""
        if plan.session is not None and plan.is_incremental:
            terms = Terms(request.rack_id, request.isolation_level, version)
            self._look_at_session(plan.session, terms)

    def _look_at_session(self, session: FetchSession, terms: Terms) -> None:
        """Which of its partitions may have news when the fetch arrives."""
        session.asks_on(terms)
        if self._rack and self._may_redirect:
            session.look_at_all()  # how far others have come does not count as a move

    @property
    def _may_redirect(self) -> bool:
        nodes = self._state.replicas.membership
        return nodes.settings.selects_by_rack and nodes.rack_of(nodes.node_id) != self._rack

    @property
    def is_enough(self) -> bool:
        if self.is_cold and not self._bytes:
            return False
        return self._bytes >= self.min_bytes or self._has_error

    @property
    def waits_for_disk(self) -> bool:
        """All that there may be to give is being read."""
        return self.is_cold and not self._bytes

    def keys(self) -> list[PartitionKey]:
        found = (self._find(item) for item in self.plan.all_items())
        return [replica.key for replica in found if isinstance(replica, Replica)]

    def collect(self, now_ms: float, *, may_block: bool = False) -> None:
        """Read every partition that is due, in its order, until the bytes are used up."""
        self._now_ms = now_ms
        self._bytes = 0
        self._has_error = self.is_cold = False
        self._leaders = []
        self._may_block = may_block or self._state.reads.is_over
        if self.plan.session is None or not self.plan.is_incremental:
            self.collected = [(item, self._read(item)) for item in self.plan.items]
        else:
            self._collect_from(self.plan.session)

    def _collect_from(self, session: FetchSession) -> None:
        """What has neither news nor more to give waits to be moved."""
        self.collected = []
        if self._state.advanced:
            session.look_at(self._state.advanced)  # before they are woken at the end of the step
        for item in session.due():
            self._has_left = False
            data = self._read(item)
            if self.is_news(item, data):
                self.collected.append((item, data))
            elif not self._has_left:
                session.is_told(item)

    def is_news(self, item: FetchItem, data: PartitionData) -> bool:
        """The client of a session does not know it yet."""
        return (
            bool(data.records)
            or data.error_code is not ErrorCode.NONE
            or data.diverging_epoch.epoch >= 0
            or data.preferred_read_replica >= 0
            or data.high_watermark != item.sent_high_watermark
            or data.log_start_offset != item.sent_log_start_offset
        )

    def forget(self) -> None:
        """Nothing is sent yet: whoever waits must not keep files that are deleted meanwhile."""
        self.collected = []

    def respond(self) -> FetchResponse:
        """What was collected; in a session only what the client does not know yet."""
        if self.cold is not None:
            self.cold.let_go()
        topics: list[FetchableTopicResponse] = []
        session = self.plan.session
        for item, data in self.collected:
            item.sent_high_watermark = data.high_watermark
            item.sent_log_start_offset = data.log_start_offset
            if session is not None and data.records:
                session.served(item)
            last = topics[-1] if topics else None
            if last is None or last.topic != item.topic or last.topic_id != item.topic_id:
                last = FetchableTopicResponse(
                    topic=item.topic, topic_id=item.topic_id, partitions=[]
                )
                topics.append(last)
            last.partitions.append(data)
        response = FetchResponse(session_id=self.plan.session_id, responses=topics)
        if self._leaders:
            response.node_endpoints = [
                NodeEndpoint(node_id=node.node_id, host=node.host, port=node.port, rack=node.rack)
                for node in endpoints_of(self._state.replicas, self._leaders)
            ]
        return response

    def _find(self, item: FetchItem) -> Replica | ErrorCode:
        return self._state.replicas.find(item.topic, item.partition, topic_id=item.topic_id)

    def _read(self, item: FetchItem) -> PartitionData:
        replica = self._find(item)
        if isinstance(replica, ErrorCode):
            return self._refused(item, replica)
        if replica.leader is None and not (replica.follower is not None and self._may_follow):
            return self._refused(item, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        error = replica.check_epoch(item.current_leader_epoch)
        if error is not ErrorCode.NONE:
            return self._refused(item, error)
        diverging = _divergence(replica, item)
        if isinstance(diverging, ErrorCode):
            return self._refused(item, diverging)
        if diverging is not None:
            self._has_error = True
            return self._data(item, replica, b"", diverging)
        if self._rack and replica.leader is not None:
            nearer = replica.leader.choose_read_replica(self._rack, item.fetch_offset)
            if nearer is not None:
                self._has_error = True  # to be answered at once
                data = self._data(item, replica, b"")
                data.preferred_read_replica = nearer
                return data
        return self._read_span(item, replica)

    def _read_span(self, item: FetchItem, replica: Replica) -> PartitionData:
        room = self._max_bytes - self._bytes
        is_first = self._bytes == 0
        if room <= 0 and not is_first:
            self._has_left = True
            return self._data(item, replica, b"")
        disk = self._state.reads.disk
        disk.reads_may_block = self._may_block
        try:
            span = self._span(replica, item, min(room, item.max_bytes), is_first)
        except NotInMemory as missing:
            return self._have_read(item, replica, missing)
        except DiskError:
            return self._refused(item, ErrorCode.KAFKA_STORAGE_ERROR)
        finally:
            disk.reads_may_block = True
        if isinstance(span, ErrorCode):
            self._state.touched[replica] = None
            self._state.replicas.stir(replica)  # a leader that finds damage resigns
            return self._refused(item, span)
        if span is None:
            self._has_left = self._has_left or not is_first  # there may be some that do not fit
            return self._data(item, replica, b"")
        self._bytes += span.size
        return self._data(item, replica, span)

    def _have_read(self, item: FetchItem, replica: Replica, missing: NotInMemory) -> PartitionData:
        """Nothing yet of what is not in memory; in a session it stays dirty."""
        if self.cold is None:
            self.cold = ColdReads(self._state.reads, row=self.row)
        cold = self.cold
        if cold.has_failed(missing):
            return self._refused(item, ErrorCode.KAFKA_STORAGE_ERROR)
        if cold.is_hopeless(missing):
            self._may_block = True
            data = self._read_span(item, replica)
            self._may_block = False
            return data
        cold.wait_for(missing)
        self.is_cold = self._has_left = True
        return self._data(item, replica, b"")

    def _span(
        self, replica: Replica, item: FetchItem, max_bytes: int, at_least_one: bool
    ) -> FileSpan | ErrorCode | None:
        return replica.read(item.fetch_offset, max_bytes=max_bytes, at_least_one=at_least_one)

    def _watermark(self, replica: Replica) -> int:
        """-1 as long as we don't know better than others who have told theirs already."""
        return replica.high_watermark if replica.is_proven else -1

    def _data(
        self,
        item: FetchItem,
        replica: Replica,
        records: FileSpan | bytes,
        diverging: EpochEnd | None = None,
    ) -> PartitionData:
        watermark = self._watermark(replica)
        data = PartitionData(
            partition_index=item.partition,
            high_watermark=watermark,
            last_stable_offset=watermark,
            log_start_offset=replica.log.log_start_offset,
            aborted_transactions=self._no_transactions,
            records=records,
        )
        if diverging is not None:
            data.diverging_epoch = EpochEndOffset(
                epoch=diverging.epoch, end_offset=diverging.end_offset
            )
        return data

    def _refused(
        self, item: FetchItem, error: ErrorCode, *, log_start_offset: int = -1
    ) -> PartitionData:
        self._has_error = True
        data = PartitionData(
            partition_index=item.partition,
            error_code=error,
            high_watermark=-1,
            last_stable_offset=-1,
            log_start_offset=log_start_offset,
            aborted_transactions=self._no_transactions,
            records=b"",
        )
        if error in WRONG_LEADER:
            node, epoch = leader_now(
                self._state.replicas, item.topic, item.partition, topic_id=item.topic_id
            )
            data.current_leader = LeaderIdAndEpoch(leader_id=node, leader_epoch=epoch)
            if node != NO_NODE:
                self._leaders.append(node)
        return data


def validate_sessions(state: BrokerState) -> None:
    """Nobody waits in vain: of a partition that is not dirty there is nothing to tell."""
    for session in state.sessions.sessions():
        clean = [item for key, item in session.items.items() if key not in session.dirty]
        terms = session.terms
        if terms is None or not clean or state.advanced:
            continue
        request = FetchRequest(
            max_wait_ms=0, min_bytes=1, topics=[], isolation_level=terms.isolation_level
        )
        look = _Fetch(state, request, FetchPlan(clean), version=terms.version)
        look.collect(0.0, may_block=True)
        for item, data in look.collected:
            assert not look.is_news(item, data), f"{item.key}: nobody looks for {data}"


class _FollowersFetch(_Fetch):
    """A follower's: up to the end of the log, and the follower's word on what it has."""

    patience_ms = FOLLOWERS_PATIENCE_MS

    def __init__(
        self,
        state: BrokerState,
        request: FetchRequest,
        plan: FetchPlan,
        reader: SessionReader,
    ) -> None:
        super().__init__(state, request, plan, version=0)
        self._reader = reader
        self._node_id = NodeId(reader.replica_id)
        self._has_news = False
        self._is_untold = False
        self._throttle = state.replicas.membership.leader_throttle
        self._throttled_bytes = 0

    def _look_at_session(self, session: FetchSession, terms: Terms) -> None:
        """What has no news has none for the follower either, whatever it says with its fetch."""

    @property
    def is_enough(self) -> bool:
        return self._has_news or super().is_enough

    def note(self, now_ms: float) -> None:
        """Once, when it arrives: how far the follower has come."""
        follower_sessions.note(self._state, self.plan, self._reader, now_ms)

    def collect(self, now_ms: float, *, may_block: bool = False) -> None:
        self._has_news = False
        self._throttled_bytes = 0
        super().collect(now_ms, may_block=may_block)

    def respond(self) -> FetchResponse:
        for item, data in self.collected:
            replica = self._find(item)
            is_told = data.error_code is ErrorCode.NONE and data.diverging_epoch.epoch < 0
            if is_told and isinstance(replica, Replica) and replica.leader is not None:
                replica.leader.told(self._node_id)
        self._throttle.settle(self._now_ms, reserved=0, used=self._throttled_bytes)
        return super().respond()

    def is_news(self, item: FetchItem, data: PartitionData) -> bool:
        """Or this leadership has not told it yet."""
        return self._is_untold or super().is_news(item, data)

    def _said(self, item: FetchItem) -> FollowerFetch:
        return follower_sessions.said_in(item, self._reader, self.plan.session)

    def _read(self, item: FetchItem) -> PartitionData:
        self._is_untold = False
        replica = self._find(item)
        if isinstance(replica, ErrorCode):
            return self._refused(item, replica)
        leader = replica.leader
        if leader is None:
            return self._refused(item, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        verdict = leader.check_fetch(self._said(item))
        if verdict is ErrorCode.OFFSET_OUT_OF_RANGE:
            return self._refused(item, verdict, log_start_offset=leader.log.log_start_offset)
        if isinstance(verdict, ErrorCode):
            return self._refused(item, verdict)
        if verdict is not None:
            self._has_error = True
            return self._data(item, replica, b"", verdict)
        if leader.has_news_for(self._node_id):
            self._has_news = self._is_untold = self._has_left = True
        session = self.plan.session
        if session is not None and leader.has_to_note(self._node_id, session.last_fetch):
            self._has_left = True
        if leader.withholds(self._node_id, item.fetch_offset):
            self._has_left = True
            return self._data(item, replica, b"")
        return self._read_span(item, replica)

    def _span(
        self, replica: Replica, item: FetchItem, max_bytes: int, at_least_one: bool
    ) -> FileSpan | ErrorCode | None:
        if replica.leader is None:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        is_throttled = self._throttle.is_on and replica.is_throttled_for(self._node_id)
        if is_throttled:
            left = self._throttle.available(self._now_ms) - self._throttled_bytes
            if left <= 0:
                self._has_left = True
                return None
            max_bytes = min(max_bytes, left)
        span = replica.leader.read_to_end(
            item.fetch_offset, max_bytes=max_bytes, at_least_one=at_least_one
        )
        if is_throttled and isinstance(span, FileSpan):
            self._throttled_bytes += span.size
        return span

    def _watermark(self, replica: Replica) -> int:
        return replica.high_watermark


def _divergence(replica: Replica, item: FetchItem) -> EpochEnd | ErrorCode | None:
    """Where the reader's log parts from ours, if the epoch it last read says that it does. A log
    that knows no epoch yet (the topic was created again) can't say where: the reader starts over.
    """
    if item.last_fetched_epoch == NO_EPOCH:
        return None
    if replica.log.epochs.latest == NO_EPOCH:
        return ErrorCode.OFFSET_OUT_OF_RANGE
    return find_divergence(replica.log, epoch=item.last_fetched_epoch, offset=item.fetch_offset)
