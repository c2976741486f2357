"""All partitions followed from one node, in one fetch request after the other.

A request names every partition that may be asked for and is not being asked for already. It may
wait long for its answer; who comes later, or had to pause, goes into a second request meanwhile, on
a connection of its own (`SendFetch.lane`, since answers on one connection come in order). An answer
is matched by the request's number and each partition's offset, and whatever is not the answer to
what is being waited for is dropped. The next request waits until all that was appended is flushed,
which one round of the node's group commit does for all of them. Who got records goes to the end of
the line, so that a busy partition can't starve the others; the bytes of an answer are bounded.

No fetch session is used: the request is complete in itself, and a leader that restarts need not
remember anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf
from typing import NamedTuple

from tidelog.model.clock import Now
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NodeId, Offset, PartitionKey, TopicId
from tidelog.partition.follower import Follower
from tidelog.partition.membership import Membership, pause_ms
from tidelog.wire.messages.fetch import FetchRequest, FetchResponse, FetchTopic, ReplicaState

_NO_SESSION_EPOCH = -1


_BYTES = (bytes, bytearray, memoryview)

LANES = 2
"""Requests to one node that may be under way together."""


class SendFetch(NamedTuple):
    """To node `source`, on its connection `lane` (0 or 1); whoever sends it brings the answer back
    with its `number`."""

    source: NodeId
    number: int
    request: FetchRequest
    lane: int = 0


@dataclass(slots=True)
class _Asked:
    """A request under way: which partitions, at which offsets, and until when it is waited for."""

    number: int
    partitions: dict[PartitionKey, tuple[Follower, Offset]]
    timeout_ms: float
    reserved: dict[PartitionKey, int] = field(default_factory=dict)
    """Bytes of the throttle's budget, for those that are throttled."""


class Fetched(NamedTuple):
    """What an answer led to: logs that want a flush, and watermarks that moved."""

    written: list[PartitionKey]
    moved: list[PartitionKey]


class Fetcher:
    """One source node's."""

    def __init__(self, source: NodeId, membership: Membership) -> None:
        self.source = source
        self._membership = membership
        self._throttle = membership.throttle
        self._followers: dict[PartitionKey, Follower] = {}
        self._free: dict[PartitionKey, Follower] = {}
        """Those that are not asked for: who has waited longest comes first."""
        self._lanes: list[_Asked | None] = [None] * LANES
        self._number = 0
        self._failures = 0
        self._ready_ms = -inf
        self._waits_for_flush = False
        self._look_again_ms = inf
        """While a flush is waited for: compaction may sync a log, and nobody hears of it."""

    def __len__(self) -> int:
        return len(self._followers)

    def add(self, follower: Follower) -> None:
        self._followers[follower.key] = follower
        if not follower.is_asked_for:
            self._free[follower.key] = follower

    def remove(self, key: PartitionKey) -> None:
        self._followers.pop(key, None)
        self._free.pop(key, None)

    # --- asking -------------------------------------------------------------------------------

    def next_request(self, now_ms: float) -> SendFetch | None:
        """What to send now; none while answers or a flush are waited for, or nothing is due."""
        self._waits_for_flush = False
        if not self._free or now_ms < self._ready_ms or None not in self._lanes:
            return None
        due = [follower for follower in self._free.values() if follower.ready_ms <= now_ms]
        if self._throttle.is_on:
            due = [follower for follower in due if self._ready_at(follower) <= now_ms]
        self._waits_for_flush = bool(due) and not all(follower.is_settled for follower in due)
        if not due or self._waits_for_flush:
            self._look_again_ms = now_ms + self._membership.settings.fetch_wait_max_ms
            return None
        topics: dict[TopicId, FetchTopic] = {}
        partitions: dict[PartitionKey, tuple[Follower, Offset]] = {}
        reserved: dict[PartitionKey, int] = {}
        for follower in due:
            if self._is_held_back(follower) and self._throttle.ready_ms > now_ms:
                continue  # another has taken the rest of the budget just now
            topic = topics.get(follower.key.topic_id)
            if topic is None:
                topic = topics[follower.key.topic_id] = FetchTopic(
                    topic=follower.name.topic, topic_id=follower.key.topic_id, partitions=[]
                )
            fetch = follower.fetch()
            if self._is_held_back(follower):
                size = self._throttle.reserve(now_ms, fetch.partition_max_bytes)
                fetch.partition_max_bytes = reserved[follower.key] = size
            topic.partitions.append(fetch)
            partitions[follower.key] = (follower, Offset(fetch.fetch_offset))
            follower.is_asked_for = True
            del self._free[follower.key]
        settings = self._membership.settings
        self._number += 1
        lane = self._lanes.index(None)
        timeout_ms = now_ms + settings.fetch_wait_max_ms + settings.request_timeout_ms
        self._lanes[lane] = _Asked(self._number, partitions, timeout_ms, reserved)
        return SendFetch(self.source, self._number, self._request(list(topics.values())), lane)

    def _is_held_back(self, follower: Follower) -> bool:
        return self._throttle.is_on and follower.is_throttled

    def _ready_at(self, follower: Follower) -> float:
        if self._is_held_back(follower):
            return max(follower.ready_ms, self._throttle.ready_ms)
        return follower.ready_ms

    def _pay(self, now_ms: float, asked: _Asked, response: FetchResponse | None) -> None:
        """Give back what was reserved and did not come."""
        if not asked.reserved:
            return
        used = 0
        for topic in () if response is None else response.responses:
            for data in topic.partitions:
                key = PartitionKey(TopicId(topic.topic_id), data.partition_index)
                if key in asked.reserved and isinstance(data.records, _BYTES):
                    used += len(data.records)
        reserved = sum(asked.reserved.values())
        self._throttle.settle(now_ms, reserved=reserved, used=used)

    def _request(self, topics: list[FetchTopic]) -> FetchRequest:
        node, settings = self._membership, self._membership.settings
        return FetchRequest(
            replica_id=node.node_id,
            replica_state=ReplicaState(replica_id=node.node_id, replica_epoch=node.broker_epoch),
            max_wait_ms=settings.fetch_wait_max_ms,
            min_bytes=settings.fetch_min_bytes,
            max_bytes=settings.fetch_response_max_bytes,
            session_epoch=_NO_SESSION_EPOCH,
            topics=topics,
        )

    # --- the answer ---------------------------------------------------------------------------

    def answered(
        self, now: Now, number: int, response: FetchResponse, topic_ids: Mapping[str, TopicId]
    ) -> Fetched:
        """The answer to request `number`. `topic_ids` are for answers that name topics by their
        names (before v13). `DiskError` if the disk failed; what was done before that is done."""
        fetched = Fetched([], [])
        asked = self._take(number)
        if asked is None:
            return fetched
        self._pay(now.monotonic_ms, asked, response)
        if response.error_code is not ErrorCode.NONE:
            self._pause(now.monotonic_ms)
            return fetched
        self._failures = 0
        for topic in response.responses:
            named = topic_ids.get(topic.topic) if topic.topic else None
            topic_id = TopicId(topic.topic_id) if named is None else named
            for data in topic.partitions:
                key = PartitionKey(topic_id, data.partition_index)
                follower, offset = asked.partitions.get(key, (None, Offset(-1)))
                if follower is None or self._followers.get(key) is not follower:
                    continue
                follower.take(now, data, asked=offset)
                self._collect(follower, fetched)
                if data.records:
                    self._free[key] = self._free.pop(key)
        return fetched

    def _take(self, number: int) -> _Asked | None:
        """The request of that number, which is no longer under way."""
        for lane, asked in enumerate(self._lanes):
            if asked is not None and asked.number == number:
                self._lanes[lane] = None
                for key, (follower, _) in asked.partitions.items():
                    follower.is_asked_for = False
                    if self._followers.get(key) is follower:
                        self._free[key] = follower
                return asked
        return None

    @staticmethod
    def _collect(follower: Follower, fetched: Fetched) -> None:
        if follower.has_written:
            fetched.written.append(follower.key)
        if follower.has_moved:
            fetched.moved.append(follower.key)
        follower.has_written = follower.has_moved = False

    def failed(self, now_ms: float, number: int) -> None:
        """Request `number` could not be sent, or its answer will not come."""
        asked = self._take(number)
        if asked is not None:
            self._pay(now_ms, asked, None)
            self._pause(now_ms)

    def tick(self, now_ms: float) -> None:
        """An answer that is overdue is no longer waited for."""
        for asked in self._lanes:
            if asked is not None and now_ms >= asked.timeout_ms:
                self.failed(now_ms, asked.number)

    def _pause(self, now_ms: float) -> None:
        self._failures += 1
        self._ready_ms = now_ms + pause_ms(self._failures, self._membership.settings)

    def next_deadline(self) -> float | None:
        """When to ask again, or to give up waiting. None if something else must happen first."""
        deadlines = [asked.timeout_ms for asked in self._lanes if asked is not None]
        if self._free and None in self._lanes and not self._waits_for_flush:
            waiting = [self._ready_at(follower) for follower in self._free.values()]
            soonest = max(min(waiting), self._ready_ms)
            if soonest != -inf:
                deadlines.append(soonest)
        if self._waits_for_flush:
            deadlines.append(self._look_again_ms)
        return min(deadlines, default=None)
