"""Fetch sessions (KIP-227): who fetches many partitions names them once, then only what changed.

A session is a list of partitions with their next offsets, kept here between fetches. Each fetch of
it carries the next epoch; a wrong epoch or an unknown session is answered with the error that makes
the client start over with a full fetch. Losing a session is therefore always safe.

A partition of a session is **dirty** if there may be something to tell the client about it: the
client has just described it, the partition has moved since it was looked at (`moved`), or what it
had did not all fit into the last answer. Only dirty partitions are looked at, those first that have
waited longest for their turn. A partition is clean again once it was looked at and had no news.
`watched` has the sessions of each partition, so that a move costs only those concerned.

A session belongs to one **reader**: to consumers, or to a follower in one incarnation of its node,
and nobody else may go on with it. Followers have a `FetchSessions` of their own, so that consumers
can't drive theirs out. What a follower's session says of its progress is in `apis/fetch.py` and
`partition/progress.py`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from operator import attrgetter
from random import Random
from typing import NamedTuple

from tidelog.broker.pending import Row
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import (
    NO_TOPIC_ID,
    LeaderEpoch,
    Offset,
    PartitionKey,
    TopicId,
    TopicPartition,
)
from tidelog.model.limits import (
    MAX_FETCH_SESSION_PARTITIONS,
    MAX_FOLLOWER_SESSION_PARTITIONS,
    MAX_FOLLOWER_SESSIONS,
)
from tidelog.partition.progress import LastFetch
from tidelog.partition.replica import Replica
from tidelog.wire.messages.fetch import FetchPartition, FetchRequest

NO_SESSION = 0
_NEW_SESSION_EPOCH = 0
_FINAL_EPOCH = -1
_MAX_EPOCH = 2**31 - 1

ItemKey = PartitionKey | TopicPartition
"""A partition as the client names it: by its topic's id, or before v13 by its name."""

_in_turn = attrgetter("turn")
_NOBODY: dict[int, FetchSession] = {}


class FetchItem:
    """One partition to fetch, as the client last described it."""

    __slots__ = (
        "current_leader_epoch",
        "fetch_offset",
        "key",
        "last_fetched_epoch",
        "log_start_offset",
        "max_bytes",
        "partition",
        "sent_high_watermark",
        "sent_log_start_offset",
        "topic",
        "topic_id",
        "turn",
    )

    def __init__(self, topic: str, topic_id: TopicId, asked: FetchPartition) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.partition = asked.partition
        self.key = _item_key(topic, topic_id, asked.partition)
        self.fetch_offset = Offset(asked.fetch_offset)
        self.max_bytes = asked.partition_max_bytes
        self.current_leader_epoch = LeaderEpoch(asked.current_leader_epoch)
        self.last_fetched_epoch = LeaderEpoch(asked.last_fetched_epoch)
        self.log_start_offset = Offset(asked.log_start_offset)
        """A follower's own; -1 from consumers."""
        self.sent_high_watermark = -1
        self.sent_log_start_offset = -1
        self.turn = 0
        """Its place in the line: the least is served first."""


class SessionReader(NamedTuple):
    """Whose a session is."""

    replica_id: int
    replica_epoch: int


CONSUMERS = SessionReader(-1, -1)
"""All of them."""


def reader_of(request: FetchRequest) -> SessionReader:
    """Where it stands depends on the version."""
    state = request.replica_state
    if request.replica_id < 0 and state.replica_id < 0:
        return CONSUMERS
    return SessionReader(max(request.replica_id, state.replica_id), state.replica_epoch)


class Terms(NamedTuple):
    """What an answer depends on beside the partitions."""

    rack: str
    isolation_level: int
    version: int


class FetchSession:
    """The partitions of one reader, and the epoch its next fetch must carry."""

    __slots__ = (
        "_last_turn",
        "dirty",
        "epoch",
        "is_dropped",
        "items",
        "last_fetch",
        "reader",
        "session_id",
        "terms",
        "waiting",
    )

    def __init__(self, session_id: int, reader: SessionReader, items: Iterable[FetchItem]) -> None:
        self.session_id = session_id
        self.reader = reader
        self.last_fetch = LastFetch()
        """When all that a follower said of its partitions was true last."""
        self.epoch = 1
        self.items: dict[ItemKey, FetchItem] = {}
        self.dirty: dict[ItemKey, FetchItem] = {}
        self.waiting: dict[int, Row] = {}
        """Its long polls, by their numbers in `Pending`."""
        self.is_dropped = False
        """Nobody notes any longer what is dirty in it."""
        self._last_turn = 0
        self.terms: Terms | None = None
        """Those of its last fetch; None if it is a follower's."""
        for item in items:
            self.put(item)

    def put(self, item: FetchItem) -> None:
        """The client describes a partition, for the first time or anew. It keeps its place. A
        follower that does so may have become another meanwhile, and is told all again."""
        known = self.items.get(item.key)
        if known is None:
            self.served(item)
        else:
            item.turn = known.turn
        if known is not None and self.reader is CONSUMERS:
            item.sent_high_watermark = known.sent_high_watermark
            item.sent_log_start_offset = known.sent_log_start_offset
        self.items[item.key] = self.dirty[item.key] = item

    def forget(self, key: ItemKey) -> None:
        self.items.pop(key, None)
        self.dirty.pop(key, None)

    def served(self, item: FetchItem) -> None:
        """Who was served goes last, so that a busy partition can't starve the others."""
        self._last_turn = item.turn = self._last_turn + 1

    def due(self) -> list[FetchItem]:
        """What to look at, in its order."""
        items = self.items if self.is_dropped else self.dirty
        return sorted(items.values(), key=_in_turn)

    def is_told(self, item: FetchItem) -> None:
        """It was looked at as it is described now, and the client knows all there is to know."""
        if self.dirty.get(item.key) is item:
            del self.dirty[item.key]

    def look_at_all(self) -> None:
        self.dirty.update(self.items)

    def look_at(self, moved: dict[Replica, None]) -> None:
        """Those of `moved` that it has, whichever takes fewer questions."""
        if len(moved) > len(self.items):
            self.look_at_all()
            return
        for replica in moved:
            for key in (replica.key, replica.name):
                item = self.items.get(key)
                if item is not None:
                    self.dirty[key] = item

    def asks_on(self, terms: Terms) -> None:
        """If they are not as they were, all may have news."""
        if terms != self.terms:
            self.terms = terms
            self.look_at_all()


@dataclass(frozen=True, slots=True)
class FetchPlan:
    """What to fetch: `items`, or in an incremental fetch what is dirty in the session, of which
    partitions with nothing new are left out."""

    items: list[FetchItem]
    session: FetchSession | None = None
    is_incremental: bool = False
    forgotten: tuple[FetchItem, ...] = ()
    """Taken out of the session by this fetch."""

    @property
    def session_id(self) -> int:
        return NO_SESSION if self.session is None else self.session.session_id

    def __len__(self) -> int:
        """Of how many partitions news are waited for."""
        return len(self.session.items if self.session and self.is_incremental else self.items)

    def all_items(self) -> Iterable[FetchItem]:
        if self.session is not None and self.is_incremental:
            return self.session.items.values()
        return self.items

    def due(self) -> list[FetchItem]:
        """What to look at now, in its order."""
        if self.session is not None and self.is_incremental:
            return self.session.due()
        return self.items


class FetchSessions:
    """All sessions, the longest unused first."""

    def __init__(self, *, max_sessions: int, max_partitions: int, random: Random) -> None:
        self._sessions: dict[int, FetchSession] = {}
        self._max_sessions = max_sessions
        self._max_partitions = max_partitions
        self._partitions = 0
        self._random = random
        self.watched: dict[ItemKey, dict[int, FetchSession]] = {}
        """The sessions that have a partition, by its name and by its key."""
        self.dropped: list[FetchSession] = []
        """Sessions that are no more, though a long poll of theirs still waits. What moves is not
        noted in them any longer."""

    def __len__(self) -> int:
        return len(self._sessions)

    def plan(
        self, request: FetchRequest, reader: SessionReader = CONSUMERS
    ) -> FetchPlan | ErrorCode:
        """What this request fetches, once its session is opened, continued or closed."""
        if request.session_epoch in (_NEW_SESSION_EPOCH, _FINAL_EPOCH):
            session = self._sessions.get(request.session_id)
            if session is not None and session.reader == reader:
                self._drop(request.session_id)
            items = list(_items(request).values())
            if request.session_epoch == _FINAL_EPOCH:
                return FetchPlan(items)
            return FetchPlan(items, self._open(reader, items))
        return self._continue(request, reader)

    def _continue(self, request: FetchRequest, reader: SessionReader) -> FetchPlan | ErrorCode:
        session = self._sessions.get(request.session_id)
        if session is None or session.reader != reader:
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        if request.session_epoch != session.epoch:
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH
        session.epoch = 1 if session.epoch == _MAX_EPOCH else session.epoch + 1
        self._sessions[session.session_id] = self._sessions.pop(session.session_id)
        before = len(session.items)
        forgotten: list[FetchItem] = []
        for item in _items(request).values():
            if item.key not in session.items:
                self.watched.setdefault(item.key, {})[session.session_id] = session
            session.put(item)
        for topic in request.forgotten_topics_data:
            for partition in topic.partitions:
                key = _item_key(topic.topic, TopicId(topic.topic_id), partition)
                if key in session.items:
                    forgotten.append(session.items[key])
                self._unwatch(key, session)
                session.forget(key)
        self._partitions += len(session.items) - before
        while self._partitions > self._max_partitions:
            self._drop(next(iter(self._sessions)))
        if session.session_id not in self._sessions:
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        return FetchPlan([], session, is_incremental=True, forgotten=tuple(forgotten))

    def _open(self, reader: SessionReader, items: list[FetchItem]) -> FetchSession | None:
        if not items or self._max_sessions == 0 or len(items) > self._max_partitions:
            return None
        while self._sessions and (
            len(self._sessions) >= self._max_sessions
            or self._partitions + len(items) > self._max_partitions
        ):
            self._drop(next(iter(self._sessions)))
        session_id = self._random.randrange(1, 2**31)
        while session_id in self._sessions:
            session_id = self._random.randrange(1, 2**31)
        session = FetchSession(session_id, reader, items)
        for key in session.items:
            self.watched.setdefault(key, {})[session_id] = session
        self._sessions[session_id] = session
        self._partitions += len(session.items)
        return session

    def _drop(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is None:
            return
        self._partitions -= len(session.items)
        for key in session.items:
            self._unwatch(key, session)
        if session.waiting:
            session.is_dropped = True
            self.dropped.append(session)

    def _unwatch(self, key: ItemKey, session: FetchSession) -> None:
        sessions = self.watched.get(key)
        if sessions is not None:
            sessions.pop(session.session_id, None)
            if not sessions:
                del self.watched[key]

    def moved(self, replicas: Iterable[Replica]) -> list[Row]:
        """There may be something new about them. Gives the long polls that wait for that."""
        rows: dict[int, Row] = {}
        for replica in replicas:
            for key in (replica.key, replica.name):
                for session in self.watched.get(key, _NOBODY).values():
                    session.dirty[key] = session.items[key]
                    rows.update(session.waiting)
        return list(rows.values())

    def heard_elsewhere(
        self, item: FetchItem, reader: SessionReader, here: FetchSession | None
    ) -> None:
        """A follower has said something of the partition that is not in its other sessions, if it
        has any with it: what those say is noted again when they are used, if they still are."""
        for session in self.watched.get(item.key, _NOBODY).values():
            if session is not here and session.reader.replica_id == reader.replica_id:
                session.dirty[item.key] = session.items[item.key]

    def sessions(self) -> Iterable[FetchSession]:
        return self._sessions.values()

    def validate(self) -> None:
        assert self._partitions == sum(len(s.items) for s in self._sessions.values())
        assert len(self._sessions) <= self._max_sessions
        assert self._partitions == sum(len(sessions) for sessions in self.watched.values())
        for session in self._sessions.values():
            assert all(self.watched[key][session.session_id] is session for key in session.items)
            assert all(session.items[key] is item for key, item in session.dirty.items())


def sessions_of_consumers(max_sessions: int, random: Random) -> FetchSessions:
    return FetchSessions(
        max_sessions=max_sessions, max_partitions=MAX_FETCH_SESSION_PARTITIONS, random=random
    )


def sessions_of_followers(random: Random) -> FetchSessions:
    return FetchSessions(
        max_sessions=MAX_FOLLOWER_SESSIONS,
        max_partitions=MAX_FOLLOWER_SESSION_PARTITIONS,
        random=random,
    )


def _item_key(topic: str, topic_id: TopicId, partition: int) -> ItemKey:
    if topic_id == NO_TOPIC_ID:
        return TopicPartition(topic, partition)
    return PartitionKey(topic_id, partition)


def _items(request: FetchRequest) -> dict[ItemKey, FetchItem]:
    """As asked for. One partition may be named many times; only the last time counts, or a small
    request could wait with a million reads to do at every append."""
    items: dict[ItemKey, FetchItem] = {}
    for topic in request.topics:
        topic_id = TopicId(topic.topic_id)
        for partition in topic.partitions:
            item = FetchItem(topic.topic, topic_id, partition)
            items[item.key] = item
    return items
