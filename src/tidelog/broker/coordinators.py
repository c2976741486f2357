"""The group coordinators of this node: one shard per partition of `__consumer_offsets` it leads.

A request becomes a decision of its shard (`groups.Coordinator`): records and replies. The records
are appended to the shard's partition and replayed; the replies leave once everything in the
partition up to then is committed, so that nothing is ever answered from a state that could be lost.
If the append fails, the shard is made anew from its log and everybody who waits is told to come
back: what a decision had already done to the shard's memory must not outlive its records.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from tidelog.groups.coordinator import Coordinator, Decision, Reply
from tidelog.groups.records import GroupRecord
from tidelog.groups.settings import GroupSettings
from tidelog.groups.topics import Topics
from tidelog.log.disk import DiskError
from tidelog.model.clock import Now
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import Offset
from tidelog.partition.leader import Leader
from tidelog.wire.batch import iter_batches
from tidelog.wire.records import Record, decode_records, encode_batch

OFFSETS_TOPIC = "__consumer_offsets"
OFFSETS_CONFIGS = {"cleanup.policy": "compact", "segment.bytes": str(100 * 1024 * 1024)}
_READ_BYTES = 1 << 20
_MAX_BATCH_BYTES = 1 << 30

Ask = Callable[[Coordinator, int], Decision]


class ShardDamaged(Exception):
    """A partition of `__consumer_offsets` can't be read whole: its groups must not be guessed."""


class Shard:
    """One partition's groups, and the replies that wait for it to be committed."""

    def __init__(self, leader: Leader, coordinator: Coordinator) -> None:
        self.leader = leader
        self.coordinator = coordinator
        self.outbox: deque[tuple[Offset, list[Reply]]] = deque()
        self.tickets: dict[int, None] = {}

    def released(self) -> list[Reply]:
        """The replies whose state is committed by now."""
        replies: list[Reply] = []
        while self.outbox and self.outbox[0][0] <= self.leader.high_watermark:
            replies += self.outbox.popleft()[1]
        for reply in replies:
            self.tickets.pop(reply.ticket, None)
        return replies


class Coordinators:
    """All shards of the node. `partitions` of the offsets topic is 0 while there is none."""

    def __init__(self, settings: GroupSettings, topics: Topics, random: Random) -> None:
        self._settings = settings
        self._topics = topics
        self._random = random
        self._shards: dict[int, Shard] = {}
        self._by_leader: dict[Leader, Shard] = {}
        self.partitions = 0
        self.deadline_ms: float | None = None
        """The earliest of all shards', kept here because it is asked for after every step."""

    # --- which shard --------------------------------------------------------------------------

    def partition_for(self, group_id: str) -> int:
        """Kafka's choice, so that every tool that computes it agrees."""
        return (_java_hash(group_id) & 0x7FFFFFFF) % self.partitions

    def find(self, group_id: str) -> Shard | ErrorCode:
        if not self.partitions:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        shard = self._shards.get(self.partition_for(group_id))
        return ErrorCode.NOT_COORDINATOR if shard is None else shard

    def shards(self) -> list[Shard]:
        return list(self._shards.values())

    def shard_of(self, leader: Leader) -> Shard | None:
        return self._by_leader.get(leader)

    # --- loading ------------------------------------------------------------------------------

    def load(self, leader: Leader, now: Now) -> None:
        """Take up a partition of the offsets topic: replay its log, then start the clocks."""
        coordinator = Coordinator(self._settings, self._topics, self._random)
        for record in _records_of(leader):
            if record.key is not None:
                coordinator.replay(record.key, record.value)
        coordinator.loaded(now)
        old = self._shards.get(leader.key.partition)
        if old is not None:
            del self._by_leader[old.leader]
        shard = Shard(leader, coordinator)
        self._shards[leader.key.partition] = shard
        self._by_leader[leader] = shard
        self._update_deadline()

    def unload_all(self) -> None:
        """The offsets topic was deleted: there are no groups any more."""
        self._shards.clear()
        self._by_leader.clear()
        self.partitions = 0
        self.deadline_ms = None

    # --- deciding -----------------------------------------------------------------------------

    def ask(self, shard: Shard, ticket: int, ask: Ask, now: Now) -> None:
        """Let the shard decide about one request. Its reply comes through `Shard.released`, now or
        later; `DiskError` if the decision could not be written."""
        shard.tickets[ticket] = None
        self._carry_out(shard, ask(shard.coordinator, ticket), now)
        self._update_deadline()

    def tick(self, now: Now) -> list[Shard]:
        """Let every shard whose time has come decide; gives those that did."""
        due: list[Shard] = []
        for shard in self._shards.values():
            deadline_ms = shard.coordinator.next_deadline()
            if deadline_ms is not None and deadline_ms <= now.monotonic_ms:
                due.append(shard)
                self._carry_out(shard, shard.coordinator.tick(now), now)
        self._update_deadline()
        return due

    def abandon(self, shard: Shard, ticket: int) -> None:
        """Nobody hears the reply to `ticket` any more."""
        shard.tickets.pop(ticket, None)
        shard.coordinator.abandon(ticket)
        self._update_deadline()

    def _carry_out(self, shard: Shard, decision: Decision, now: Now) -> None:
        if decision.records:
            _append(shard.leader, decision.records, now)
            for record in decision.records:
                shard.coordinator.replay(record.key, record.value)
        if decision.replies:
            end = shard.leader.log.log_end_offset
            shard.outbox.append((end, list(decision.replies)))

    def _update_deadline(self) -> None:
        deadlines = [shard.coordinator.next_deadline() for shard in self._shards.values()]
        self.deadline_ms = min((at for at in deadlines if at is not None), default=None)

    def validate(self) -> None:
        for shard in self._shards.values():
            shard.coordinator.validate()

    def describe(self) -> list[dict[str, Any]]:
        return [
            {"partition": number, "groups": shard.coordinator.describe()}
            for number, shard in self._shards.items()
        ]


def _append(leader: Leader, records: Sequence[GroupRecord], now: Now) -> None:
    batch = encode_batch(
        [
            Record(offset=index, timestamp=now.wall_ms, key=record.key, value=record.value)
            for index, record in enumerate(records)
        ]
    )
    appended = leader.append(memoryview(batch), now.wall_ms)
    if appended.error is not ErrorCode.NONE:
        raise DiskError(f"the decision was refused by its own log: {appended.error.name}")


def _records_of(leader: Leader) -> list[Record]:
    records: list[Record] = []
    log = leader.log
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        span = log.read(
            offset, max_bytes=_READ_BYTES, limit_offset=log.log_end_offset, at_least_one=True
        )
        if span is None or isinstance(span, ErrorCode):
            raise ShardDamaged(f"{leader.name} is damaged at offset {offset}")
        for header, batch in iter_batches(memoryview(span.read())):
            records += decode_records(batch, _MAX_BATCH_BYTES)
            offset = Offset(header.next_offset)
    return records


def _java_hash(text: str) -> int:
    """`String.hashCode`: over UTF-16 units, in 32 bits."""
    value = 0
    units = text.encode("utf-16-be")
    for position in range(0, len(units), 2):
        value = (31 * value + int.from_bytes(units[position : position + 2], "big")) & 0xFFFFFFFF
    return value
