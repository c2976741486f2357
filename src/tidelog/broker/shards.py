"""One partition of `__consumer_offsets` that this node leads: its groups, and whether they can be
asked.

    state     a question is answered with       until
    LOADING   COORDINATOR_LOAD_IN_PROGRESS      all records were replayed          -> READY
    READY     what its coordinator decides      a decision could not be written    -> STALLED
    STALLED   COORDINATOR_NOT_AVAILABLE         a while is over, and a write
                                                would find room again              -> LOADING

A partition may hold very many records, so it is replayed in slices between requests. A decision
changes the coordinator's memory before its records are written. If they can't be, that memory is
put away and the log is replayed once a write would succeed, but not before: on a full disk every
commit would have the whole partition replayed for nothing. The same goes for a partition that could
not be read.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from enum import Enum, auto
from itertools import islice
from math import inf

from tidelog.broker.offsets_log import read_records
from tidelog.broker.questions import Gathering
from tidelog.groups.coordinator import Coordinator
from tidelog.groups.decision import Reply
from tidelog.model.clock import Now
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import Offset
from tidelog.partition.replica import Replica
from tidelog.wire.records import Record

RECORDS_PER_SLICE = 256
"""Records to replay in one slice: 10 to 25 ms."""

RETRY_MS = 1000.0
"""How long a stalled shard refuses before it looks whether it could write."""


class ShardState(Enum):
    LOADING = auto()
    READY = auto()
    STALLED = auto()


_REFUSALS = {
    ShardState.LOADING: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ShardState.STALLED: ErrorCode.COORDINATOR_NOT_AVAILABLE,
}


class Shard:
    """One partition's groups, and the replies that wait for it to be committed. `coordinator` is
    whole in the state READY only."""

    def __init__(self, replica: Replica, coordinator: Coordinator) -> None:
        self.replica = replica
        self.leader_epoch = replica.leader_epoch
        self.outbox: deque[tuple[Offset, list[Reply]]] = deque()
        self.waiting: dict[int, tuple[Gathering, int]] = {}
        """By ticket: whose question has no reply yet, and which of its questions it is."""
        self.noted_ms = inf
        """The deadline that the node knows of. None of the coordinator's is before it."""
        self.retry_ms = 0.0
        """When to look whether a stalled shard could be loaded."""
        self.trouble: str | None = None
        """Why it could not be read the last time, as the operator was told."""
        self.begin_loading(coordinator)

    @property
    def partition(self) -> int:
        return self.replica.key.partition

    @property
    def refusal(self) -> ErrorCode | None:
        """What a question is answered with, if the groups can't be asked now."""
        if self.state is not ShardState.READY:
            return _REFUSALS[self.state]
        leader = self.replica.leader
        if leader is None or not leader.may_acknowledge:
            return ErrorCode.NOT_COORDINATOR  # another may know members that this one does not
        return None

    @property
    def is_committed(self) -> bool:
        """What the coordinator knows can't be lost: it may be told at once."""
        replica = self.replica
        return replica.log.log_end_offset <= replica.high_watermark

    def begin_loading(self, coordinator: Coordinator) -> None:
        """From the beginning of the partition, into a coordinator that knows nothing."""
        self.state = ShardState.LOADING
        self.coordinator = coordinator
        self._unread: Iterator[Record] = read_records(self.replica)

    def load(self, limit: int, now: Now) -> int:
        """Replay the next records, `limit` at most; returns how many. Once all are replayed, the
        clocks start. `DiskError` or `ShardDamaged` if they can't be read."""
        number = 0
        for record in islice(self._unread, limit):
            number += 1
            if record.key is not None:
                self.coordinator.replay(record.key, record.value, record.headers)
        if number < limit:
            self.coordinator.loaded(now)
            self.state = ShardState.READY
            self.trouble = None
        return number

    def stall(self, now: Now) -> None:
        """What the coordinator knows is not what the log says."""
        self.state = ShardState.STALLED
        self.retry_ms = now.monotonic_ms + RETRY_MS
        self.outbox.clear()

    def next_deadline(self) -> float | None:
        """When there is something to do. A shard that is being loaded is asked in every turn."""
        if self.state is ShardState.READY:
            return self.coordinator.next_deadline()
        return self.retry_ms if self.state is ShardState.STALLED else None
