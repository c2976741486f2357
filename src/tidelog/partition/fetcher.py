"""All partitions followed from one node, in one fetch request after the other.

One request is under way at a time. It names every partition that may be asked for; an answer is
matched by the request's number and each partition's offset, and whatever is not the answer to what
is being waited for is dropped. The next request waits until all that was appended is flushed, which
one round of the node's group commit does for all of them. Who got records goes to the end of the
line, so that a busy partition can't starve the others; the bytes of an answer are bounded.

No fetch session is used: the request is complete in itself, and a leader that restarts need not
remember anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import NamedTuple

from tidelog.model.clock import Now
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NodeId, Offset, PartitionKey, TopicId
from tidelog.partition.follower import Follower
from tidelog.partition.membership import Membership
from tidelog.wire.messages.fetch import FetchRequest, FetchResponse, FetchTopic, ReplicaState

_NO_SESSION_EPOCH = -1


class SendFetch(NamedTuple):
    """To node `source`; whoever sends it brings the answer back with its `number`."""

    source: NodeId
    number: int
    request: FetchRequest


class Fetched(NamedTuple):
    """What an answer led to: logs that want a flush, and watermarks that moved."""

    written: list[PartitionKey]
    moved: list[PartitionKey]


class Fetcher:
    """One source node's."""

    def __init__(self, source: NodeId, membership: Membership) -> None:
        self.source = source
        self._membership = membership
        self._followers: dict[PartitionKey, Follower] = {}
        self._asked: dict[PartitionKey, tuple[Follower, Offset]] = {}
        self._number = 0
        self._timeout_ms: float | None = None
        self._ready_ms = -inf
        self._waits_for_flush = False

    def __len__(self) -> int:
        return len(self._followers)

    @property
    def is_asking(self) -> bool:
        return self._timeout_ms is not None

    def add(self, follower: Follower) -> None:
        self._followers[follower.key] = follower

    def remove(self, key: PartitionKey) -> None:
        self._followers.pop(key, None)

    # --- asking -------------------------------------------------------------------------------

    def next_request(self, now_ms: float) -> SendFetch | None:
        """What to send now; none while an answer or a flush is waited for, or nothing is due."""
        if self.is_asking or now_ms < self._ready_ms:
            return None
        due = [follower for follower in self._followers.values() if follower.ready_ms <= now_ms]
        self._waits_for_flush = not all(follower.is_settled for follower in due)
        if not due or self._waits_for_flush:
            return None
        topics: dict[TopicId, FetchTopic] = {}
        self._asked = {}
        for follower in due:
            topic = topics.get(follower.key.topic_id)
            if topic is None:
                topic = topics[follower.key.topic_id] = FetchTopic(
                    topic=follower.name.topic, topic_id=follower.key.topic_id, partitions=[]
                )
            fetch = follower.fetch()
            topic.partitions.append(fetch)
            self._asked[follower.key] = (follower, Offset(fetch.fetch_offset))
        settings = self._membership.settings
        self._number += 1
        self._timeout_ms = now_ms + settings.fetch_wait_max_ms + settings.request_timeout_ms
        return SendFetch(self.source, self._number, self._request(list(topics.values())))

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
        if number != self._number or not self.is_asking:
            return fetched
        self._timeout_ms = None
        if response.error_code is not ErrorCode.NONE:
            self._pause(now.monotonic_ms)
            return fetched
        for topic in response.responses:
            named = topic_ids.get(topic.topic) if topic.topic else None
            topic_id = TopicId(topic.topic_id) if named is None else named
            for data in topic.partitions:
                key = PartitionKey(topic_id, data.partition_index)
                asked = self._asked.get(key)
                if asked is None or self._followers.get(key) is not asked[0]:
                    continue
                follower, offset = asked
                follower.take(now, data, asked=offset)
                self._collect(follower, fetched)
                if data.records:
                    self._followers[key] = self._followers.pop(key)
        return fetched

    @staticmethod
    def _collect(follower: Follower, fetched: Fetched) -> None:
        if follower.has_written:
            fetched.written.append(follower.key)
        if follower.has_moved:
            fetched.moved.append(follower.key)
        follower.has_written = follower.has_moved = False

    def failed(self, now_ms: float, number: int) -> None:
        """Request `number` could not be sent, or its answer will not come."""
        if number == self._number and self.is_asking:
            self._timeout_ms = None
            self._pause(now_ms)

    def tick(self, now_ms: float) -> None:
        """An answer that is overdue is no longer waited for."""
        if self._timeout_ms is not None and now_ms >= self._timeout_ms:
            self.failed(now_ms, self._number)

    def _pause(self, now_ms: float) -> None:
        self._ready_ms = now_ms + self._membership.settings.fetch_backoff_ms

    def next_deadline(self) -> float | None:
        """When to ask again, or to give up waiting. None if something else must happen first."""
        if self._timeout_ms is not None:
            return self._timeout_ms
        if self._waits_for_flush:
            return None
        waiting = [follower.ready_ms for follower in self._followers.values()]
        if not waiting:
            return None
        at = max(min(waiting), self._ready_ms)
        return None if at == -inf else at
