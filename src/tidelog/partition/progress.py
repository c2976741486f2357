"""How far a follower has come, as its leader knows it from the follower's fetches.

A fetch at an offset says: all below it is with me, durably. So progress is known only from fetches
in this leader epoch; what a follower said to an earlier leader may have been truncated since.

A fetch of a session (KIP-227) says of the partitions that it does not name what was said of them
last. Nobody walks over them for that: a `Progress` knows the `LastFetch` of the session that spoke
for it last, and asks there for the time when it matters. What the session says of a partition is
noted in full as soon as there may be a difference: when it is named, and when the leader's log has
grown. So a session that is used, and has nothing to note, says that a follower which had all that
its leader had still has all of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import inf
from typing import NamedTuple

from tidelog.model.ids import NO_OFFSET, LeaderEpoch, NodeId, Offset
from tidelog.partition.membership import UNKNOWN_BROKER_EPOCH


class LastFetch:
    """When a fetch session was used last; shared by all that it speaks for."""

    __slots__ = ("at_ms",)

    def __init__(self) -> None:
        self.at_ms = -inf


class FollowerFetch(NamedTuple):
    """What a follower says with a fetch of one partition."""

    node_id: NodeId
    broker_epoch: int
    leader_epoch: LeaderEpoch
    fetch_offset: Offset
    last_fetched_epoch: LeaderEpoch
    log_start_offset: Offset
    session: LastFetch | None = None
    """That of the fetch session which says it, and says it again with each of its fetches."""


class Progress:
    """One follower's, in one leader epoch. `fetch_offset` is -1 until its first fetch."""

    __slots__ = (
        "_caught_up_ms",
        "_fetched_ms",
        "_is_close",
        "_leader_end_then",
        "broker_epoch",
        "fetch_offset",
        "log_start_offset",
        "most_fetched",
        "node_id",
        "session",
        "told_high_watermark",
        "told_log_start_offset",
    )

    def __init__(self, node_id: NodeId, *, now_ms: float) -> None:
        self.node_id = node_id
        self.fetch_offset = NO_OFFSET
        self.most_fetched = NO_OFFSET
        """The largest offset that this incarnation has fetched at."""
        self.log_start_offset = NO_OFFSET
        self.broker_epoch = UNKNOWN_BROKER_EPOCH
        self._caught_up_ms = now_ms
        self._fetched_ms = now_ms
        self._is_close = False
        self.session: LastFetch | None = None
        """That of the session which has spoken for it last, if it did so in one."""
        self._leader_end_then = Offset(0)
        self.told_high_watermark = NO_OFFSET
        self.told_log_start_offset = NO_OFFSET

    def note(
        self,
        fetch_offset: Offset,
        *,
        leader_end: Offset,
        now_ms: float,
        broker_epoch: int,
        log_start_offset: Offset,
        session: LastFetch | None = None,
    ) -> None:
        """A fetch came. Who has reached what the leader had at its *last* fetch was caught up then:
        under steady load nobody ever reaches the end of now."""
        self._is_close = self.fetch_offset != NO_OFFSET and fetch_offset >= self._leader_end_then
        if fetch_offset >= leader_end:
            self._caught_up_ms = now_ms
        elif self._is_close:
            self._caught_up_ms = max(self.caught_up_ms, self.fetched_ms)
        else:
            self._caught_up_ms = self.caught_up_ms
        is_same = broker_epoch == self.broker_epoch
        self.most_fetched = max(self.most_fetched, fetch_offset) if is_same else fetch_offset
        self.fetch_offset = fetch_offset
        self.log_start_offset = log_start_offset
        self.broker_epoch = broker_epoch
        self._fetched_ms = now_ms
        self._leader_end_then = leader_end
        self.session = session

    def fell_silent(self, session: LastFetch) -> None:
        """The session speaks for it no longer, or what it says was refused."""
        if self.session is session:
            self._caught_up_ms, self._is_close = self.caught_up_ms, self.is_close
            self._fetched_ms = self.fetched_ms
            self.session = None

    @property
    def fetched_ms(self) -> float:
        """When it was last heard of."""
        return (
            self._fetched_ms if self.session is None else max(self._fetched_ms, self.session.at_ms)
        )

    @property
    def caught_up_ms(self) -> float:
        """When it last had all that the leader had: a new leader gives everybody time."""
        if self.session is None or self.fetch_offset < self._leader_end_then:
            return self._caught_up_ms
        return max(self._caught_up_ms, self.session.at_ms)

    @property
    def is_close(self) -> bool:
        """At its last fetch it had all that we had at the one before."""
        if self._is_close or self.session is None:
            return self._is_close
        return self.session.at_ms > self._fetched_ms and self.fetch_offset >= self._leader_end_then

    def describe(self, leader_end: Offset) -> dict[str, object]:
        is_known = self.fetch_offset != NO_OFFSET
        return {
            "node_id": self.node_id,
            "fetch_offset": self.fetch_offset,
            "lag": leader_end - self.fetch_offset if is_known else None,
            "caught_up_ms": self.caught_up_ms,
        }


def furthest_with(offset: Offset, followers: Iterable[Progress]) -> NodeId | None:
    """Of those that have what lies at `offset`, the one that has come furthest."""
    having = [one for one in followers if one.log_start_offset <= offset <= one.fetch_offset]
    best = max(having, key=lambda one: one.fetch_offset, default=None)
    return None if best is None else best.node_id
