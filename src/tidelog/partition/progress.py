"""How far a follower has come, as its leader knows it from the follower's fetches.

A fetch at an offset says: all below it is with me, durably. So progress is known only from fetches
in this leader epoch; what a follower said to an earlier leader may have been truncated since.
"""

from __future__ import annotations

from tidelog.model.ids import NO_OFFSET, NodeId, Offset
from tidelog.partition.membership import UNKNOWN_BROKER_EPOCH


class Progress:
    """One follower's, in one leader epoch. `fetch_offset` is -1 until its first fetch."""

    __slots__ = (
        "_leader_end_then",
        "broker_epoch",
        "caught_up_ms",
        "fetch_offset",
        "fetched_ms",
        "is_close",
        "log_start_offset",
        "most_fetched",
        "node_id",
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
        self.caught_up_ms = now_ms
        """When it last had all that the leader had: a new leader gives everybody time."""
        self.fetched_ms = now_ms
        self.is_close = False
        """At its last fetch it had all that we had at the one before."""
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
    ) -> None:
        """A fetch came. Who has reached what the leader had at its *last* fetch was caught up then:
        under steady load nobody ever reaches the end of now."""
        if fetch_offset >= leader_end:
            self.caught_up_ms = now_ms
        elif self.fetch_offset != NO_OFFSET and fetch_offset >= self._leader_end_then:
            self.caught_up_ms = max(self.caught_up_ms, self.fetched_ms)
        self.is_close = self.fetch_offset != NO_OFFSET and fetch_offset >= self._leader_end_then
        is_same = broker_epoch == self.broker_epoch
        self.most_fetched = max(self.most_fetched, fetch_offset) if is_same else fetch_offset
        self.fetch_offset = fetch_offset
        self.log_start_offset = log_start_offset
        self.broker_epoch = broker_epoch
        self.fetched_ms = now_ms
        self._leader_end_then = leader_end

    def describe(self, leader_end: Offset) -> dict[str, object]:
        is_known = self.fetch_offset != NO_OFFSET
        return {
            "node_id": self.node_id,
            "fetch_offset": self.fetch_offset,
            "lag": leader_end - self.fetch_offset if is_known else None,
            "caught_up_ms": self.caught_up_ms,
        }
