"""The fetcher's end of a fetch session (KIP-227): what its leader has been told, and is to be told.

The other end is `broker/fetch_sessions.py`. The first request is **full**: epoch 0, with every
partition. If its answer gives the session an id, the requests after it are **incremental**: they
carry the id and the next epoch, name the partitions of which something else is to be said than
before, and those to be forgotten. Of every other partition such a request says once more what was
said last: the same fetch offset, so the same durable end, in the same leader epoch.

One request of a session is under way at a time. Whether a request without an answer has reached the
leader can't be known, so the session starts over with a full request then; and whenever the leader
says that it has another view (or none), or our registration is another one.

    start over ──► full request ──► answer with an id ──► incremental requests, epochs 1, 2, 3 ...
        ▲                │ without an id (no room)                   │ no answer, an error,
        └────────────────┴───────────────────────────────────────────┘ another registration
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from tidelog.model.errors import ErrorCode
from tidelog.model.ids import PartitionKey, TopicId
from tidelog.partition.follower import Follower
from tidelog.partition.membership import Membership
from tidelog.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    ReplicaState,
)

SESSION_ERRORS = frozenset(
    (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.INVALID_FETCH_SESSION_EPOCH)
)
"""The leader knows no such session, or is at another epoch of it."""

_NO_SESSION = 0
_FULL = 0
_MAX_EPOCH = 2**31 - 1


class Told(NamedTuple):
    """What was last said of a partition, and by which follower."""

    follower: Follower
    fetch: FetchPartition


class FetcherSession:
    """One lane's of a fetcher. `told` is the leader's view of it once the request has arrived."""

    __slots__ = ("_broker_epoch", "_epoch", "_forgotten", "_membership", "_session_id", "told")

    def __init__(self, membership: Membership) -> None:
        self._membership = membership
        self._session_id = _NO_SESSION
        self._epoch = _FULL
        self._broker_epoch = membership.broker_epoch
        self.told: dict[PartitionKey, Told] = {}
        self._forgotten: dict[PartitionKey, str] = {}
        """Partitions that the leader has in the session and no longer should, with their topics."""

    @property
    def is_full(self) -> bool:
        """The next request names everything."""
        return self._epoch == _FULL

    @property
    def is_outdated(self) -> bool:
        """It was begun by another registration of this node, whose word does not count for ours."""
        return not self.is_full and self._broker_epoch != self._membership.broker_epoch

    def knows(self, follower: Follower) -> bool:
        """The leader was told of it, and there is nothing else to say."""
        told = self.told.get(follower.key)
        return told is not None and told.follower is follower and _says(told.fetch, follower)

    def forget(self, key: PartitionKey) -> None:
        told = self.told.pop(key, None)
        if told is not None:  # in a request that is under way, perhaps the first
            self._forgotten[key] = told.follower.name.topic

    def start_over(self) -> dict[PartitionKey, Follower]:
        """The next request is full. Returns the followers that it is to name again."""
        told, self.told = self.told, {}
        self._forgotten = {}
        self._epoch = _FULL
        return {key: one.follower for key, one in told.items()}

    def request(self, named: Iterable[tuple[Follower, FetchPartition]]) -> FetchRequest:
        """The next one. What is `named` was not told before, or other than it is now."""
        topics: dict[TopicId, FetchTopic] = {}
        for follower, fetch in named:
            key = follower.key
            self.told[key] = Told(follower, fetch)
            self._forgotten.pop(key, None)
            topic = topics.get(key.topic_id)
            if topic is None:
                topic = topics[key.topic_id] = FetchTopic(
                    topic=follower.name.topic, topic_id=key.topic_id, partitions=[]
                )
            topic.partitions.append(fetch)
        node, settings = self._membership, self._membership.settings
        self._broker_epoch = node.broker_epoch
        return FetchRequest(
            replica_id=node.node_id,
            replica_state=ReplicaState(replica_id=node.node_id, replica_epoch=node.broker_epoch),
            max_wait_ms=settings.fetch_wait_max_ms,
            min_bytes=settings.fetch_min_bytes,
            max_bytes=settings.fetch_response_max_bytes,
            session_id=self._session_id,
            session_epoch=self._epoch,
            topics=list(topics.values()),
            forgotten_topics_data=self._take_forgotten(),
        )

    def _take_forgotten(self) -> list[ForgottenTopic]:
        forgotten, self._forgotten = self._forgotten, {}
        topics: dict[TopicId, ForgottenTopic] = {}
        for key, name in forgotten.items():
            if key.topic_id not in topics:
                topics[key.topic_id] = ForgottenTopic(topic=name, topic_id=key.topic_id)
            topics[key.topic_id].partitions.append(key.partition)
        return list(topics.values())

    def answered(self, response: FetchResponse) -> bool:
        """The answer to the last request, which has no error of its own. Whether the session goes
        on; if not, it is to be started over."""
        if response.session_id == _NO_SESSION:
            self._session_id = _NO_SESSION
            return False
        if self.is_full:
            self._session_id = response.session_id
        elif response.session_id != self._session_id:
            return False
        self._epoch = 1 if self._epoch == _MAX_EPOCH else self._epoch + 1
        return True

    def refused(self, error: ErrorCode) -> None:
        """The answer was an error. An id that is not known is not to be closed either: somebody
        else may be given it."""
        if error is ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
            self._session_id = _NO_SESSION


def _says(told: FetchPartition, follower: Follower) -> bool:
    """Whether `told` is what the follower would say now. How high its watermark is does not matter:
    the leader goes by what it has answered."""
    now = follower.fetch()
    return (
        told.fetch_offset == now.fetch_offset
        and told.current_leader_epoch == now.current_leader_epoch
        and told.last_fetched_epoch == now.last_fetched_epoch
        and told.log_start_offset == now.log_start_offset
        and told.partition_max_bytes == now.partition_max_bytes
    )
