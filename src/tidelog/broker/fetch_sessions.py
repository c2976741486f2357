"""Fetch sessions (KIP-227): a consumer of many partitions names them once, then only what changed.

A session is a list of partitions with their next offsets, kept here between fetches. Each fetch of
it carries the next epoch; a wrong epoch or an unknown session is answered with the error that makes
the client start over with a full fetch. Losing a session is therefore always safe.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from random import Random
from uuid import UUID

from tidelog.model.errors import ErrorCode
from tidelog.model.ids import LeaderEpoch, Offset, TopicId
from tidelog.model.limits import MAX_FETCH_SESSION_PARTITIONS
from tidelog.wire.messages.fetch import FetchRequest

NO_SESSION = 0
_NEW_SESSION_EPOCH = 0
_FINAL_EPOCH = -1
_MAX_EPOCH = 2**31 - 1

ItemKey = tuple[str, UUID, int]


class FetchItem:
    """One partition to fetch, as the client last described it."""

    __slots__ = (
        "current_leader_epoch",
        "fetch_offset",
        "last_fetched_epoch",
        "log_start_offset",
        "max_bytes",
        "partition",
        "sent_high_watermark",
        "sent_log_start_offset",
        "topic",
        "topic_id",
    )

    def __init__(self, topic: str, topic_id: TopicId, partition: int) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.partition = partition
        self.fetch_offset = Offset(0)
        self.max_bytes = 0
        self.current_leader_epoch = LeaderEpoch(-1)
        self.last_fetched_epoch = LeaderEpoch(-1)
        self.log_start_offset = Offset(-1)
        """A follower's own; -1 from consumers."""
        self.sent_high_watermark = -1
        self.sent_log_start_offset = -1

    @property
    def key(self) -> ItemKey:
        return (self.topic, self.topic_id, self.partition)


class FetchSession:
    """The partitions of one consumer, and the epoch its next fetch must carry."""

    __slots__ = ("epoch", "items", "session_id")

    def __init__(self, session_id: int) -> None:
        self.session_id = session_id
        self.epoch = 1
        self.items: dict[ItemKey, FetchItem] = {}

    def move_to_end(self, item: FetchItem) -> None:
        """Who was served goes last, so that a busy partition can't starve the others."""
        if self.items.pop(item.key, None) is not None:
            self.items[item.key] = item


@dataclass(frozen=True, slots=True)
class FetchPlan:
    """What to fetch. `is_incremental`: leave out partitions with nothing new."""

    items: list[FetchItem]
    session: FetchSession | None = None
    is_incremental: bool = False

    @property
    def session_id(self) -> int:
        return NO_SESSION if self.session is None else self.session.session_id


class FetchSessions:
    """All sessions, the longest unused first."""

    def __init__(self, *, max_sessions: int, random: Random) -> None:
        self._sessions: dict[int, FetchSession] = {}
        self._max_sessions = max_sessions
        self._partitions = 0
        self._random = random

    def __len__(self) -> int:
        return len(self._sessions)

    def plan(self, request: FetchRequest) -> FetchPlan | ErrorCode:
        """What this request fetches, once its session is opened, continued or closed."""
        if request.session_epoch in (_NEW_SESSION_EPOCH, _FINAL_EPOCH):
            self._drop(request.session_id)
            items = list({item.key: item for item in _items(request)}.values())
            if request.session_epoch == _FINAL_EPOCH:
                return FetchPlan(items)
            return FetchPlan(items, self._open(items))
        return self._continue(request)

    def _continue(self, request: FetchRequest) -> FetchPlan | ErrorCode:
        session = self._sessions.get(request.session_id)
        if session is None:
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        if request.session_epoch != session.epoch:
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH
        session.epoch = 1 if session.epoch == _MAX_EPOCH else session.epoch + 1
        self._sessions[session.session_id] = self._sessions.pop(session.session_id)
        before = len(session.items)
        for item in _items(request):
            known = session.items.get(item.key)
            if known is not None:
                item.sent_high_watermark = known.sent_high_watermark
                item.sent_log_start_offset = known.sent_log_start_offset
            session.items[item.key] = item
        for topic in request.forgotten_topics_data:
            for partition in topic.partitions:
                session.items.pop((topic.topic, topic.topic_id, partition), None)
        self._partitions += len(session.items) - before
        while self._partitions > MAX_FETCH_SESSION_PARTITIONS:
            self._drop(next(iter(self._sessions)))
        if session.session_id not in self._sessions:
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        return FetchPlan(list(session.items.values()), session, is_incremental=True)

    def _open(self, items: list[FetchItem]) -> FetchSession | None:
        if not items or self._max_sessions == 0 or len(items) > MAX_FETCH_SESSION_PARTITIONS:
            return None
        while self._sessions and (
            len(self._sessions) >= self._max_sessions
            or self._partitions + len(items) > MAX_FETCH_SESSION_PARTITIONS
        ):
            self._drop(next(iter(self._sessions)))
        session_id = self._random.randrange(1, 2**31)
        while session_id in self._sessions:
            session_id = self._random.randrange(1, 2**31)
        session = FetchSession(session_id)
        session.items = {item.key: item for item in items}
        self._sessions[session_id] = session
        self._partitions += len(session.items)
        return session

    def _drop(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self._partitions -= len(session.items)

    def validate(self) -> None:
        assert self._partitions == sum(len(s.items) for s in self._sessions.values())
        assert len(self._sessions) <= self._max_sessions


def _items(request: FetchRequest) -> Iterable[FetchItem]:
    """As asked for. One partition may be named many times; only the last time counts, or a small
    request could wait with a million reads to do at every append."""
    for topic in request.topics:
        topic_id = TopicId(topic.topic_id)
        for partition in topic.partitions:
            item = FetchItem(topic.topic, topic_id, partition.partition)
            item.fetch_offset = Offset(partition.fetch_offset)
            item.max_bytes = partition.partition_max_bytes
            item.current_leader_epoch = LeaderEpoch(partition.current_leader_epoch)
            item.last_fetched_epoch = LeaderEpoch(partition.last_fetched_epoch)
            item.log_start_offset = Offset(partition.log_start_offset)
            yield item
