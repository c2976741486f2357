"""All that this node follows: a `Fetcher` for each node it follows partitions from.

A fetcher is asked what to send only if something has happened to it since it was asked last
(`Membership.may_fetch_from`): a follower was placed or configured, an answer came or will not come,
a flush is over, its deadline has passed. So a step that concerns none costs nothing, however many
there are. A budget that all share (`throttle`) concerns all of them.
"""

from __future__ import annotations

from collections.abc import Mapping

from tidelog.model.clock import Now
from tidelog.model.ids import NodeId, PartitionKey, TopicId
from tidelog.partition.fetcher import Fetched, Fetcher, SendFetch
from tidelog.partition.membership import Membership
from tidelog.partition.replica import Replica
from tidelog.wire.messages.fetch import FetchResponse

_NO_NAMES: Mapping[str, TopicId] = {}


class Following:
    """The fetchers, by the node they ask."""

    def __init__(self, membership: Membership) -> None:
        self._membership = membership
        self._fetchers: dict[NodeId, Fetcher] = {}
        self._sources: dict[PartitionKey, NodeId] = {}
        self._deadlines: dict[NodeId, float] = {}
        self._next_ms: float | None = None
        """The soonest of `_deadlines`."""
        self._rate = membership.throttle.rate

    def __len__(self) -> int:
        return len(self._sources)

    def place(self, replica: Replica) -> None:
        """Fetch for it where it follows now, and nowhere else."""
        source = self._sources.pop(replica.key, None)
        follower = replica.follower
        if source is not None and (follower is None or follower.source != source):
            self._fetchers[source].remove(replica.key)
            self._membership.may_fetch_from[source] = None
        if follower is not None:
            source = self._sources[replica.key] = follower.source
            if source not in self._fetchers:
                self._fetchers[source] = Fetcher(source, self._membership)
            self._fetchers[source].add(follower)
            self._membership.may_fetch_from[source] = None

    def next_fetches(self, now_ms: float) -> list[SendFetch]:
        """What to send now, at most one request to each node."""
        throttle, concerned = self._membership.throttle, self._membership.may_fetch_from
        if throttle.rate != self._rate:
            self._rate = throttle.rate
            for fetcher in self._fetchers.values():
                fetcher.look_at_all()
            self._concerns_all()
        if not concerned:
            return []
        asked = [self._fetchers[source].next_request(now_ms) for source in self._concerned()]
        self._note_deadlines(self._concerned())
        concerned.clear()
        return [request for request in asked if request is not None]

    def _concerned(self) -> list[NodeId]:
        return [node for node in self._membership.may_fetch_from if node in self._fetchers]

    def _concerns_all(self) -> None:
        self._membership.may_fetch_from.update(dict.fromkeys(self._fetchers))

    def _note_deadlines(self, sources: list[NodeId]) -> None:
        for source in sources:
            deadline = self._fetchers[source].next_deadline()
            if deadline is None:
                self._deadlines.pop(source, None)
            else:
                self._deadlines[source] = deadline
        self._next_ms = min(self._deadlines.values(), default=None)

    def answered(
        self,
        now: Now,
        fetch: SendFetch,
        response: FetchResponse,
        topic_ids: Mapping[str, TopicId] = _NO_NAMES,
    ) -> Fetched:
        """Node `fetch.source` has answered. `DiskError` if the disk failed."""
        self._has_heard_of(fetch.source)
        return self._fetchers[fetch.source].answered(now, fetch.number, response, topic_ids)

    def failed(self, now_ms: float, fetch: SendFetch) -> None:
        """The request could not be sent, or its answer won't come."""
        self._has_heard_of(fetch.source)
        self._fetchers[fetch.source].failed(now_ms, fetch.number)

    def _has_heard_of(self, source: NodeId) -> None:
        """What was asked for there has come, or won't. Others may use what it leaves of the
        budget."""
        self._membership.may_fetch_from[source] = None
        if self._membership.throttle.is_on:
            self._concerns_all()

    def tick(self, now_ms: float) -> None:
        """Those whose deadline has passed give up waiting, or may ask again."""
        if self._next_ms is None or now_ms < self._next_ms:
            return
        for source in [source for source, at in self._deadlines.items() if at <= now_ms]:
            self._fetchers[source].tick(now_ms)
            self._has_heard_of(source)
        self._note_deadlines(self._concerned())

    def next_deadline(self) -> float | None:
        if self._membership.may_fetch_from:
            self._note_deadlines(self._concerned())
        return self._next_ms

    def validate(self, replicas: Mapping[PartitionKey, Replica]) -> None:
        """Just those are fetched that follow."""
        following = {key: r.follower.source for key, r in replicas.items() if r.follower}
        assert following == self._sources
        assert len(self._sources) == sum(len(fetcher) for fetcher in self._fetchers.values())
        for fetcher in self._fetchers.values():
            fetcher.validate()
