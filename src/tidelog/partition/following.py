"""All that this node follows: a `Fetcher` for each node it follows partitions from."""

from __future__ import annotations

from collections.abc import Mapping

from tidelog.model.clock import Now, earliest
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

    def __len__(self) -> int:
        return len(self._sources)

    def place(self, replica: Replica) -> None:
        """Fetch for it where it follows now, and nowhere else."""
        source = self._sources.pop(replica.key, None)
        follower = replica.follower
        if source is not None and (follower is None or follower.source != source):
            self._fetchers[source].remove(replica.key)
        if follower is not None:
            source = self._sources[replica.key] = follower.source
            if source not in self._fetchers:
                self._fetchers[source] = Fetcher(source, self._membership)
            self._fetchers[source].add(follower)

    def next_fetches(self, now_ms: float) -> list[SendFetch]:
        """What to send now, at most one request to each node."""
        if not self._sources:
            return []
        asked = [fetcher.next_request(now_ms) for fetcher in self._fetchers.values()]
        return [request for request in asked if request is not None]

    def answered(
        self,
        now: Now,
        fetch: SendFetch,
        response: FetchResponse,
        topic_ids: Mapping[str, TopicId] = _NO_NAMES,
    ) -> Fetched:
        """Node `fetch.source` has answered. `DiskError` if the disk failed."""
        return self._fetchers[fetch.source].answered(now, fetch.number, response, topic_ids)

    def failed(self, now_ms: float, fetch: SendFetch) -> None:
        """The request could not be sent, or its answer won't come."""
        self._fetchers[fetch.source].failed(now_ms, fetch.number)

    def tick(self, now_ms: float) -> None:
        for fetcher in self._fetchers.values():
            fetcher.tick(now_ms)

    def next_deadline(self) -> float | None:
        if not self._sources:
            return None
        return earliest(*[fetcher.next_deadline() for fetcher in self._fetchers.values()])

    def validate(self, replicas: Mapping[PartitionKey, Replica]) -> None:
        """Just those are fetched that follow."""
        following = {key: r.follower.source for key, r in replicas.items() if r.follower}
        assert following == self._sources
        assert len(self._sources) == sum(len(fetcher) for fetcher in self._fetchers.values())
