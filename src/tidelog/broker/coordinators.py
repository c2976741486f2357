"""The group coordinators of this node: one shard per partition of `__consumer_offsets` it leads.

A request becomes a decision of its shard (`groups.Coordinator`): records and replies. The records
are appended to the shard's partition and replayed; the replies leave once everything in the
partition up to then is committed, so that nothing is ever answered from a state that could be lost.
If the append fails, the shard is made anew from its log and everybody who waits there is told to
come back: what a decision had done to the shard's memory must not outlive its records.

A request about several groups is several questions, perhaps to several shards; its row in `Pending`
is answered when the last of them is.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from tidelog.broker.consumed import ConsumedOffset
from tidelog.broker.offsets_log import ShardDamaged, append_records, read_records
from tidelog.groups.coordinator import Coordinator
from tidelog.groups.decision import Decision, Reply
from tidelog.groups.settings import GroupSettings
from tidelog.groups.topics import Topics
from tidelog.log.disk import DiskError
from tidelog.model.clock import Now
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import Offset, TopicPartition
from tidelog.model.safeguards import Safeguard
from tidelog.partition.replica import Replica

Ask = Callable[[Coordinator, int], Decision]
Refuse = Callable[[ErrorCode], Any]


@dataclass(frozen=True, slots=True)
class Question:
    """One group's part of a request, or one shard's where it names the `partition`. `refuse` makes
    the reply for when nobody can decide it."""

    group_id: str
    ask: Ask
    refuse: Refuse
    partition: int | None = None


class Shard:
    """One partition's groups, and the replies that wait for it to be committed."""

    def __init__(self, leader: Replica, coordinator: Coordinator) -> None:
        self.leader = leader
        self.leader_epoch = leader.leader_epoch
        self.coordinator = coordinator
        self.outbox: deque[tuple[Offset, list[Reply]]] = deque()


class Gathering:
    """The replies to one request's questions, as they come."""

    __slots__ = ("_missing", "_replies", "build", "number", "tickets")

    def __init__(self, number: int, size: int, build: Callable[[list[Any]], Any]) -> None:
        self.number = number
        self.build = build
        self.tickets: list[int] = []
        self._replies: list[Any] = [None] * size
        self._missing = size

    def put(self, index: int, reply: Any) -> bool:
        """Whether that was the last."""
        self._replies[index] = reply
        self._missing -= 1
        return self._missing == 0

    def response(self) -> Any:
        return self.build(self._replies)


@dataclass(frozen=True, slots=True)
class _Ticket:
    gathering: Gathering
    index: int
    question: Question
    shard: Shard


class Coordinators:
    """All shards of the node. `partitions` of the offsets topic is 0 while there is none."""

    def __init__(
        self,
        settings: GroupSettings,
        topics: Topics,
        random: Random,
        *,
        on_append: Callable[[Replica], None],
        may_write: Callable[[], bool],
        leader_of: Callable[[int], Replica | None],
        safeguards: frozenset[Safeguard],
    ) -> None:
        self._settings = settings
        self._topics = topics
        self._random = random
        self._on_append = on_append
        self._may_write = may_write
        self._leader_of = leader_of
        self._safeguards = safeguards
        self._shards: dict[int, Shard] = {}
        self._by_leader: dict[Replica, Shard] = {}
        self._tickets: dict[int, _Ticket] = {}
        self._gatherings: dict[int, Gathering] = {}
        self._next_ticket = 0
        self._completed: list[Gathering] = []
        self._consumed: dict[TopicPartition, ConsumedOffset] = {}
        self.partitions = 0
        self.deadline_ms: float | None = None
        """The earliest of all shards', kept here because it is asked for after every step."""

    # --- shards -------------------------------------------------------------------------------

    def partition_for(self, group_id: str) -> int:
        """Kafka's choice, so that every tool that computes it agrees."""
        return (_java_hash(group_id) & 0x7FFFFFFF) % self.partitions

    def _find(self, question: Question, now: Now) -> Shard | ErrorCode:
        if not self.partitions or not self._may_write():
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        partition = question.partition
        if partition is None:
            partition = self.partition_for(question.group_id)
        if partition not in self._shards:
            leader = self._leader_of(partition)
            if leader is None or leader.leader is None:
                return ErrorCode.NOT_COORDINATOR
            self.try_load(leader, now)
        shard = self._shards.get(partition)
        if shard is None:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if shard.leader.leader is None or not shard.leader.leader.may_acknowledge:
            return ErrorCode.NOT_COORDINATOR  # another may know members that this one does not
        return shard

    def loaded_partitions(self) -> list[int]:
        return list(self._shards)

    def let_go_of_old(self, replica: Replica) -> None:
        """The replica's role may be another one: groups that are not ours any more, or ours anew,
        are forgotten, and who waits for them is sent to look for their coordinator."""
        shard = self._by_leader.get(replica)
        if shard is None:
            return
        if replica.leader is None or shard.leader_epoch != replica.leader_epoch:
            self._forget(shard, ErrorCode.NOT_COORDINATOR)
            self.update_deadline()

    def try_load(self, leader: Replica, now: Now) -> str | None:
        """Take up a partition of the offsets topic; gives why it could not be, if so. Then it is
        tried again when one of its groups is asked for."""
        try:
            self._load(leader, now)
        except (DiskError, ShardDamaged) as error:
            return str(error)
        return None

    def _load(self, leader: Replica, now: Now) -> None:
        """Replay the partition's log, then start the clocks."""
        coordinator = Coordinator(
            self._settings, self._random, self._topics, safeguards=self._safeguards
        )
        for record in read_records(leader):
            if record.key is not None:
                coordinator.replay(record.key, record.value)
        coordinator.loaded(now)
        shard = Shard(leader, coordinator)
        self._shards[leader.key.partition] = shard
        self._by_leader[leader] = shard
        self.update_deadline()

    # --- questions ----------------------------------------------------------------------------

    def put(
        self,
        questions: Sequence[Question],
        *,
        number: int,
        now: Now,
        build: Callable[[list[Any]], Any],
    ) -> None:
        """Ask each question's shard. The response to row `number` comes through `take_completed`,
        in this step or a later one."""
        gathering = self._gatherings[number] = Gathering(number, len(questions), build)
        for index, question in enumerate(questions):
            shard = self._find(question, now)
            if isinstance(shard, ErrorCode):
                self._receive(gathering, index, question.refuse(shard))
                continue
            ticket = self._next_ticket
            self._next_ticket += 1
            self._tickets[ticket] = _Ticket(gathering, index, question, shard)
            gathering.tickets.append(ticket)
            self._carry_out(shard, question.ask(shard.coordinator, ticket), now)
        self.update_deadline()

    def tick(self, now: Now) -> None:
        """Let every shard decide whose time has come."""
        if not self._may_write():
            self.deadline_ms = None
            return
        for shard in list(self._shards.values()):
            deadline_ms = shard.coordinator.next_deadline()
            if deadline_ms is not None and deadline_ms <= now.monotonic_ms:
                self._carry_out(shard, shard.coordinator.tick(now), now)
        self.update_deadline()

    def abandon(self, number: int) -> None:
        """Nobody hears the response to row `number` any more."""
        gathering = self._gatherings.pop(number, None)
        for ticket in gathering.tickets if gathering is not None else ():
            waiting = self._tickets.pop(ticket, None)
            if waiting is not None:
                waiting.shard.coordinator.abandon(ticket)
        self.update_deadline()

    def advanced(self, leader: Replica) -> None:
        """The leader's watermark moved: replies that waited for it may leave."""
        shard = self._by_leader.get(leader)
        if shard is not None:
            self._release(shard)

    def take_completed(self) -> list[tuple[int, Any]]:
        """Rows whose last reply is there, with their responses."""
        completed, self._completed = self._completed, []
        return [(gathering.number, gathering.response()) for gathering in completed]

    def consumed_offset(self, partition: TopicPartition) -> Offset | None:
        """What lies below has been read by every group that reads the partition; None if there is
        no such group, or if one has not begun. Only commits that can't be lost any more count: a
        group that fell back behind the start of its log would miss what was there."""
        read = [
            offset
            for shard in self._shards.values()
            for offset in shard.coordinator.read_by_groups(partition)
        ]
        is_all_loaded = len(self._shards) == self.partitions
        if not read or min(read) < 0 or not is_all_loaded:
            self._consumed.pop(partition, None)
            return None
        seen = self._consumed.setdefault(partition, ConsumedOffset())
        return seen.advance(
            Offset(min(read)),
            {n: shard.leader.log.log_end_offset for n, shard in self._shards.items()},
            {n: shard.leader.high_watermark for n, shard in self._shards.items()},
        )

    # --- decisions ----------------------------------------------------------------------------

    def _carry_out(self, shard: Shard, decision: Decision, now: Now) -> None:
        if decision.records:
            try:
                append_records(shard.leader, decision.records, now)
            except DiskError:
                self._start_over(shard, now)
                return
            self._on_append(shard.leader)
            for record in decision.records:
                shard.coordinator.replay(record.key, record.value)
        if decision.replies:
            shard.outbox.append((shard.leader.log.log_end_offset, decision.replies))
        self._release(shard)

    def _release(self, shard: Shard) -> None:
        """Send the replies whose state is committed by now."""
        outbox, watermark = shard.outbox, shard.leader.high_watermark
        waits = Safeguard.COMMIT_BEFORE_ANSWER in self._safeguards
        while outbox and (outbox[0][0] <= watermark or not waits):
            for reply in outbox.popleft()[1]:
                waiting = self._tickets.pop(reply.ticket, None)
                if waiting is not None:
                    self._receive(waiting.gathering, waiting.index, reply.response)

    def _start_over(self, shard: Shard, now: Now) -> None:
        """A decision could not be written: back to what the log says."""
        self._forget(shard, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if shard.leader.leader is not None:
            self.try_load(shard.leader, now)

    def _forget(self, shard: Shard, error: ErrorCode) -> None:
        del self._shards[shard.leader.key.partition]
        del self._by_leader[shard.leader]
        for ticket, waiting in list(self._tickets.items()):
            if waiting.shard is shard:
                del self._tickets[ticket]
                refusal = waiting.question.refuse(error)
                self._receive(waiting.gathering, waiting.index, refusal)

    def refuse_all(self) -> None:
        """Nothing can be written any more: nobody waits for a reply that won't come."""
        for waiting in self._tickets.values():
            refusal = waiting.question.refuse(ErrorCode.COORDINATOR_NOT_AVAILABLE)
            self._receive(waiting.gathering, waiting.index, refusal)
        self._tickets.clear()
        for shard in self._shards.values():
            shard.outbox.clear()
        self.deadline_ms = None

    def _receive(self, gathering: Gathering, index: int, reply: Any) -> None:
        if gathering.put(index, reply):
            self._gatherings.pop(gathering.number, None)
            self._completed.append(gathering)

    def update_deadline(self) -> None:
        deadlines = [shard.coordinator.next_deadline() for shard in self._shards.values()]
        self.deadline_ms = min((at for at in deadlines if at is not None), default=None)

    # --- looking at it ------------------------------------------------------------------------

    def validate(self) -> None:
        for shard in self._shards.values():
            shard.coordinator.validate()

    def describe(self) -> list[dict[str, Any]]:
        return [
            {"partition": number, "recorded": shard.coordinator.recorded()}
            for number, shard in self._shards.items()
        ]


def _java_hash(text: str) -> int:
    """`String.hashCode`: over UTF-16 units, in 32 bits."""
    value = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for position in range(0, len(units), 2):
        value = (31 * value + int.from_bytes(units[position : position + 2], "big")) & 0xFFFFFFFF
    return value
