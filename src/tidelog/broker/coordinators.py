"""The group coordinators of this node: one shard per partition of `__consumer_offsets` it leads.

A request becomes a decision of its shard (`groups.Coordinator`): records and replies. The records
are appended to the shard's partition and replayed; the replies leave once everything in the
partition up to then is committed, so that nothing is ever answered from a state that could be lost.

If there is no room for the records, a decision that had changed nothing yet (a commit) is refused
and forgotten. Any other had changed the shard's memory, which must not outlive its records; and
after an error of the disk they may be in the log or not. Then the shard stalls, everybody who waits
there is told to come back, and it is loaded again when a write would succeed (`shards`).

A request about several groups is several questions, perhaps to several shards; its row in `Pending`
is answered when the last of them is. One about very many is put a few at a time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import lru_cache
from math import inf
from random import Random
from typing import Any, Protocol

from tidelog.broker.consumed import ConsumedOffset
from tidelog.broker.offsets_log import DecisionRefused, ShardDamaged, append_records
from tidelog.broker.questions import Gathering, Question
from tidelog.broker.shards import RECORDS_PER_SLICE, Shard, ShardState
from tidelog.groups.coordinator import Coordinator
from tidelog.groups.decision import Decision
from tidelog.groups.settings import GroupSettings
from tidelog.groups.timers import Timers
from tidelog.groups.topics import Topics
from tidelog.log.disk import DiskError, DiskFull
from tidelog.model.clock import Now
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import Offset, TopicPartition
from tidelog.model.safeguards import Safeguard
from tidelog.model.steady_clock import SteadyClock
from tidelog.partition.replica import Replica

_AT_ONCE = 0.0

_KNOWN_HASHES, _USUAL_LENGTH = 10_000, 100
"""Group ids whose hash is kept, if they are no longer: every request needs it. 2 MB at most."""


class OffsetsLogs(Protocol):
    """The node's partitions of `__consumer_offsets`, and the disk they are on."""

    def leader_of(self, partition: int) -> Replica | None:
        """The replica, if it is here and leads."""

    def may_write(self) -> bool:
        """The disk can be trusted with another write."""

    def has_room(self, replica: Replica) -> bool:
        """A decision could be written to its log now."""

    def appended(self, replica: Replica) -> None:
        """A decision was written to its log."""

    def write_failed(self, replica: Replica, error: DiskError) -> None:
        """A decision could not be written."""

    def unreadable(self, replica: Replica, why: str) -> None:
        """Its groups can't be loaded."""


class Coordinators:
    """All shards of the node. `partitions` of the offsets topic is 0 while there is none."""

    def __init__(
        self,
        settings: GroupSettings,
        topics: Topics,
        random: Random,
        *,
        logs: OffsetsLogs,
        clock: SteadyClock,
        safeguards: frozenset[Safeguard],
    ) -> None:
        self._settings = settings
        self._topics = topics
        self._random = random
        self._logs = logs
        self._clock = clock
        self._safeguards = safeguards
        self._waits_for_commit = Safeguard.COMMIT_BEFORE_ANSWER in safeguards
        self._shards: dict[int, Shard] = {}
        self._by_replica: dict[Replica, Shard] = {}
        self._loading: deque[Shard] = deque()
        self._deadlines: Timers[int] = Timers()
        """When each shard has something to do, by its partition."""
        self._gatherings: dict[int, Gathering] = {}
        """Those whose questions are put one by one, by the number of their row."""
        self._next_ticket = 0
        self.completed: list[Gathering] = []
        self._consumed: dict[TopicPartition, ConsumedOffset] = {}
        self.partitions = 0
        self.deadline_ms: float | None = None
        """The earliest of all shards', kept here because it is asked for after every step. It may
        be before anything is due (`groups/timers.py`), never after."""

    # --- shards -------------------------------------------------------------------------------

    def partition_for(self, group_id: str) -> int:
        """Kafka's choice, so that every tool that computes it agrees."""
        hashed = _known_hash if len(group_id) <= _USUAL_LENGTH else _java_hash
        return (hashed(group_id) & 0x7FFFFFFF) % self.partitions

    def _find(self, question: Question, now: Now) -> Shard | ErrorCode:
        if not self.partitions or not self._logs.may_write():
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        partition = question.partition
        if partition is None:
            partition = self.partition_for(question.group_id)
        shard = self._shards.get(partition)
        if shard is None:
            replica = self._logs.leader_of(partition)
            if replica is None:
                return ErrorCode.NOT_COORDINATOR
            shard = self.take_up(replica)
            self.load(now)
        return shard.refusal or shard

    def partitions_led(self) -> list[int]:
        return list(self._shards)

    def most_groups(self) -> int:
        """At least as many as are known here."""
        return sum(shard.coordinator.most_groups() for shard in self._shards.values())

    def refusal(self) -> ErrorCode | None:
        """What a question to all shards is answered with, if one of them can't be asked now."""
        refusals = (shard.refusal for shard in self._shards.values())
        return next((refusal for refusal in refusals if refusal is not None), None)

    def group_ids(self, partition: int) -> list[str]:
        """The groups of a partition, as far as they are known."""
        shard = self._shards.get(partition)
        return [] if shard is None else shard.coordinator.group_ids()

    def let_go_of_old(self, replica: Replica) -> None:
        """The replica's role may be another one: groups that are not ours any more, or ours anew,
        are forgotten, and who waits for them is sent to look for their coordinator."""
        shard = self._by_replica.get(replica)
        if shard is not None and (
            replica.leader is None or shard.leader_epoch != replica.leader_epoch
        ):
            self._forget(shard)

    def take_up(self, replica: Replica) -> Shard:
        """This node leads the partition now: to be loaded, in slices."""
        shard = Shard(replica, self._new_coordinator())
        self._shards[shard.partition] = self._by_replica[replica] = shard
        self._loading.append(shard)
        self._update_deadline()
        return shard

    def load(self, now: Now) -> None:
        """The next slice of what is to be loaded."""
        now = self._clock.stamp(now)
        left = RECORDS_PER_SLICE
        while self._loading and left > 0:
            shard = self._loading[0]
            try:
                left -= 1 + shard.load(left, now)
            except (DiskError, ShardDamaged) as error:
                self._could_not_load(shard, str(error), now)
            if shard.state is not ShardState.LOADING:
                self._loading.popleft()
                self._note_deadline(shard)
        self._update_deadline()

    def _could_not_load(self, shard: Shard, why: str, now: Now) -> None:
        shard.stall(now)
        if shard.trouble != why:
            shard.trouble = why
            self._logs.unreadable(shard.replica, why)

    def _reload(self, shard: Shard, now: Now) -> None:
        """A stalled shard, if it could be written to by now."""
        if self._logs.has_room(shard.replica):
            shard.begin_loading(self._new_coordinator())
            self._loading.append(shard)
        else:
            shard.stall(now)

    def _new_coordinator(self) -> Coordinator:
        return Coordinator(self._settings, self._random, self._topics, safeguards=self._safeguards)

    # --- questions ----------------------------------------------------------------------------

    def answer(self, group_id: str, ask: Callable[[Coordinator], Any | None]) -> Any | None:
        """What the group's coordinator says without deciding anything. None if it has to decide, or
        if there is none that may say at once what it knows: then the question is to be `put`."""
        if not self.partitions or not self._logs.may_write():
            return None
        shard = self._shards.get(self.partition_for(group_id))
        if shard is None or shard.refusal is not None or not shard.is_committed:
            return None
        response = ask(shard.coordinator)
        if shard.coordinator.timers.earliest < shard.noted_ms:
            self._note_deadline(shard)
        return response

    def put(
        self, questions: list[Question], now: Now, build: Callable[[list[Any]], Any]
    ) -> Gathering:
        """Ask each question's shard. Unless all have replied at once, the gathering is to be told
        the number of a row in `Pending`; the response to it comes through `take_completed`."""
        gathering = Gathering(questions, build)
        for index, question in enumerate(questions):
            self._ask(gathering, index, question, now)
        return gathering

    def begin(self, number: int, build: Callable[[list[Any]], Any]) -> None:
        """The same for questions that are put one by one, by `add`: `build` gets the replies after
        `end`."""
        last = Question("", _never_asked, lambda error: error)
        gathering = Gathering([last], lambda replies: build(replies[1:]))
        gathering.number = number
        self._gatherings[number] = gathering

    def add(self, number: int, question: Question, now: Now) -> None:
        gathering = self._gatherings.get(number)
        if gathering is not None:
            self._ask(gathering, gathering.grow(question), question, now)

    def end(self, number: int) -> None:
        gathering = self._gatherings.get(number)
        if gathering is not None:
            self._receive(gathering, 0, None)

    def _ask(self, gathering: Gathering, index: int, question: Question, now: Now) -> None:
        now = self._clock.stamp(now)
        shard = self._find(question, now)
        if isinstance(shard, ErrorCode):
            self._receive(gathering, index, question.refuse(shard))
            return
        ticket = self._next_ticket
        self._next_ticket += 1
        shard.waiting[ticket] = gathering, index
        gathering.asked.append((shard, ticket))
        self._carry_out(shard, question.ask(shard.coordinator, ticket), now)
        if shard.state is not ShardState.READY or (
            shard.coordinator.timers.earliest < shard.noted_ms
        ):
            self._note_deadline(shard)

    def tick(self, now: Now) -> None:
        """Load the next slice, and let every shard decide whose time has come."""
        if not self._logs.may_write():
            self.deadline_ms = None
            return
        now = self._clock.stamp(now)
        expires = not self._clock.is_held
        self.load(now)
        for partition in list(self._deadlines.take_due(now.monotonic_ms)):
            shard = self._shards[partition]
            if shard.state is ShardState.READY:
                self._carry_out(shard, shard.coordinator.tick(now, expires=expires), now)
            else:
                self._reload(shard, now)
            self._note_deadline(shard)
        self._update_deadline()

    def abandon(self, number: int) -> None:
        """Nobody hears the response to row `number`, whose questions were put one by one."""
        gathering = self._gatherings.pop(number, None)
        if gathering is not None:
            self.forget(gathering)

    def forget(self, gathering: Gathering) -> None:
        """Nobody hears the response any more."""
        for shard, ticket in gathering.asked:
            if shard.waiting.pop(ticket, None) is not None:
                shard.coordinator.abandon(ticket)

    def advanced(self, replica: Replica) -> None:
        """The leader's watermark moved: replies that waited for it may leave."""
        shard = self._by_replica.get(replica)
        if shard is not None:
            self._release(shard)

    def take_completed(self) -> list[tuple[int, Any]]:
        """Rows whose last reply is there, with their responses."""
        completed, self.completed = self.completed, []
        return [(g.number, g.response()) for g in completed if g.number is not None]

    def consumed_offset(self, partition: TopicPartition) -> Offset | None:
        """What lies below has been read by every group that reads the partition; None if there is
        no such group, or if one has not begun. Only commits that can't be lost any more count: a
        group that fell back behind the start of its log would miss what was there."""
        ready = {n: s for n, s in self._shards.items() if s.state is ShardState.READY}
        read = [
            offset
            for shard in ready.values()
            for offset in shard.coordinator.read_by_groups(partition)
        ]
        if not read or min(read) < 0 or len(ready) != self.partitions:
            self._consumed.pop(partition, None)
            return None
        seen = self._consumed.setdefault(partition, ConsumedOffset())
        return seen.advance(
            Offset(min(read)),
            {n: shard.replica.log.log_end_offset for n, shard in ready.items()},
            {n: shard.replica.high_watermark for n, shard in ready.items()},
        )

    # --- decisions ----------------------------------------------------------------------------

    def _carry_out(self, shard: Shard, decision: Decision, now: Now) -> None:
        if decision.records:
            try:
                append_records(shard.replica, decision.records, now)
            except (DiskError, DecisionRefused) as error:
                self._could_not_write(shard, decision, error, now)
                return
            self._logs.appended(shard.replica)
            for record in decision.records:
                shard.coordinator.replay(*record)
        if decision.replies:
            shard.outbox.append((shard.replica.log.log_end_offset, decision.replies))
        self._release(shard)

    def _release(self, shard: Shard) -> None:
        """Send the replies whose state is committed by now."""
        outbox, watermark = shard.outbox, shard.replica.high_watermark
        while outbox and (outbox[0][0] <= watermark or not self._waits_for_commit):
            for reply in outbox.popleft()[1]:
                waiting = shard.waiting.pop(reply.ticket, None)
                if waiting is not None:
                    self._receive(*waiting, reply.response)

    def _could_not_write(
        self, shard: Shard, decision: Decision, error: DiskError | DecisionRefused, now: Now
    ) -> None:
        if isinstance(error, DiskError):
            self._logs.write_failed(shard.replica, error)
        may_be_in_the_log = isinstance(error, DiskError) and not isinstance(error, DiskFull)
        if decision.is_retractable and not may_be_in_the_log:
            for reply in decision.replies:
                self._refuse(shard, reply.ticket, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        else:
            self._refuse_waiting(shard, ErrorCode.COORDINATOR_NOT_AVAILABLE)
            shard.stall(now)

    def _forget(self, shard: Shard) -> None:
        del self._shards[shard.partition]
        del self._by_replica[shard.replica]
        self._deadlines.cancel(shard.partition)
        if shard.state is ShardState.LOADING:
            self._loading.remove(shard)
        self._refuse_waiting(shard, ErrorCode.NOT_COORDINATOR)
        self._update_deadline()

    def _refuse_waiting(self, shard: Shard, error: ErrorCode) -> None:
        for ticket in list(shard.waiting):
            self._refuse(shard, ticket, error)

    def _refuse(self, shard: Shard, ticket: int, error: ErrorCode) -> None:
        gathering, index = shard.waiting.pop(ticket)
        self._receive(gathering, index, gathering.questions[index].refuse(error))

    def refuse_all(self) -> None:
        """Nothing can be written any more: nobody waits for a reply that won't come."""
        for shard in self._shards.values():
            self._refuse_waiting(shard, ErrorCode.COORDINATOR_NOT_AVAILABLE)
            shard.outbox.clear()
        self.deadline_ms = None

    def _receive(self, gathering: Gathering, index: int, reply: Any) -> None:
        if gathering.put(index, reply) and gathering.number is not None:
            self._gatherings.pop(gathering.number, None)
            self.completed.append(gathering)

    # --- time ---------------------------------------------------------------------------------

    def topics_changed(self) -> None:
        """Every shard may have offsets to forget."""
        for shard in self._shards.values():
            self._note_deadline(shard)
        self._update_deadline()

    def _note_deadline(self, shard: Shard) -> None:
        """It has something to do at another time than was known. (That it has less to do need not
        be told: then it is looked at once in vain.)"""
        at = shard.next_deadline()
        if at is None:
            shard.noted_ms = inf
            self._deadlines.cancel(shard.partition)
        else:
            shard.noted_ms = at
            self._deadlines.arm(shard.partition, at)
        self._update_deadline()

    def _update_deadline(self) -> None:
        self.deadline_ms = _AT_ONCE if self._loading else self._deadlines.next_deadline()

    # --- looking at it ------------------------------------------------------------------------

    def validate(self) -> None:
        for shard in self._shards.values():
            if shard.state is ShardState.READY:
                shard.coordinator.validate()
            assert (shard in self._loading) == (shard.state is ShardState.LOADING)

    def describe(self) -> list[dict[str, Any]]:
        """`recorded` is what the log says, as far as it was replayed."""
        return [
            {
                "partition": number,
                "state": shard.state.name,
                "recorded": shard.coordinator.recorded(),
            }
            for number, shard in self._shards.items()
        ]


def _java_hash(text: str) -> int:
    """`String.hashCode`: over UTF-16 units, in 32 bits."""
    value = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for position in range(0, len(units), 2):
        value = (31 * value + int.from_bytes(units[position : position + 2], "big")) & 0xFFFFFFFF
    return value


_known_hash = lru_cache(_KNOWN_HASHES)(_java_hash)


def _never_asked(coordinator: Coordinator, ticket: int) -> Decision:
    raise AssertionError("the end of a gathering is not a question")
