"""A member of a group of the newer protocol (KIP-848): it follows what the coordinator tells it.

It heartbeats, gives up what it is to give up and takes what it gets, commits at its epoch and now
and then at an older one, pauses for longer than its session, dies, leaves for good or (a static
one) for a while. When the world is over the members stay until every partition is somebody's.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from uuid import UUID

from tidelog.model.errors import ErrorCode
from tidelog.sim.actors.committer import Commit, FetchOffset, find
from tidelog.sim.checkers.finding import Finding
from tidelog.sim.client import Answer, Client
from tidelog.sim.history import EntryType
from tidelog.sim.schedule import Pause, Script
from tidelog.sim.workload import consumer_group_heartbeat, offset_commit, offset_fetch
from tidelog.sim.workload.consumer_group_heartbeat import (
    API_KEY,
    FIRST_WITH_REGEX,
    JOINING,
    LEAVING,
    LEAVING_FOR_A_WHILE,
    Beaten,
    BeatPlan,
    Owned,
)
from tidelog.sim.workload.offset_commit import CommitPlan
from tidelog.sim.workload.offset_fetch import FetchOffsetPlan
from tidelog.sim.workload.world import TopicFacts, World

_TIMEOUT_MS = 2_000
_RETRY_MS = 20.0
_CLOCK_SKEW = 0.8
_REGEX = "(topic|owned)[0-9]+"


@dataclass(slots=True)
class NewerRoster:
    """One group: what each of its members has, as the members believe."""

    group: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    statics: int = 0
    epochs: dict[int, int] = field(default_factory=dict)
    owned: dict[int, Owned] = field(default_factory=dict)
    is_settled: bool = False

    def settle(self, world: World) -> None:
        """Once, all at one epoch and every partition of the lasting topics somebody's."""
        wanted = [
            (str(facts.topic_id), number)
            for facts in world.topics.values()
            for number in range(facts.partitions)
        ]
        own = [tp for owned in self.owned.values() for tp in owned]
        is_complete = sorted(tp for tp in own if tp in wanted) == sorted(wanted)
        if len(set(self.epochs.values())) == 1 and is_complete:
            self.is_settled = True


class _NewerMember:
    """One process, under one member id after another; it makes them itself."""

    def __init__(self, world: World, roster: NewerRoster, number: int) -> None:
        self.world = world
        self.roster = roster
        self.client: Client = world.client(f"newer{number}")
        self.is_found = False
        self.instance_id = f"static{number}" if number < roster.statics else None
        self._number = number
        self._lives = 0
        self._welcome_ms = 0.0
        self._has_to_give = False
        """The last answer took something from it."""
        self._uses_regex = False
        self._must_tell_all = False
        """The last answer did not come, or was a refusal: who knows what it said."""
        self.epoch = JOINING
        self.owned: Owned = ()
        self.forget()

    def forget(self) -> None:
        """The next heartbeat is somebody new's. An answer to a join or a leave that was lost may
        mean one that is still under way: it must not hit the next of that name."""
        self._lives += 1
        self.member_id = f"member{self._number}-{self._lives}"
        self.proc = self.world.history.new_process()
        self.start_over()

    def start_over(self) -> None:
        self.epoch, self.owned = JOINING, ()
        self._believe()

    def _believe(self) -> None:
        self.roster.epochs[self._number] = self.epoch
        self.roster.owned[self._number] = self.owned

    # --- heartbeats ------------------------------------------------------------------------------

    def beat(self) -> Script[bool]:
        """One heartbeat, which also joins; whether all is well."""
        world, random = self.world, self.world.random
        if self.epoch == JOINING:
            self._uses_regex = random.random() < 0.4
        plan = BeatPlan(
            self.roster.group,
            self.member_id,
            self.epoch,
            self.owned,
            self.roster.rebalance_timeout_ms,
            topics=None if self._uses_regex else list(world.topics),
            regex=_REGEX if self._uses_regex else None,
            instance_id=self.instance_id,
            assignor=random.choice((None, "uniform", "range")),
            is_full=self._must_tell_all,
        )
        self._must_tell_all = True
        sent_ms = world.schedule.now_ms
        reply = yield from self._send(plan)
        if reply is None:
            if plan.epoch == JOINING:
                self.forget()
            return False
        beaten, emitted_ms = reply
        if beaten.error is not ErrorCode.NONE:
            if beaten.error is ErrorCode.UNKNOWN_MEMBER_ID:
                self._check_eviction(emitted_ms)
            yield from self._hear(beaten.error)
            return False
        self._welcome_ms = sent_ms
        self._must_tell_all = False
        self.epoch = beaten.epoch
        kept = self.owned if beaten.assigned is None else beaten.assigned
        self._has_to_give = any(tp not in kept for tp in self.owned)
        self.owned = kept
        self._believe()
        return True

    def _send(self, plan: BeatPlan) -> Script[tuple[Beaten, float] | None]:
        world = self.world
        version = world.draw_version(API_KEY, first=FIRST_WITH_REGEX)
        self._note("invoke", plan.epoch, plan.owned)
        request = consumer_group_heartbeat.build(plan)
        reply = yield self.client.call(request, version, timeout_ms=_TIMEOUT_MS)
        if not isinstance(reply, Answer):
            world.counted["ConsumerGroupHeartbeat: no answer"] += 1
            self._note("info", plan.epoch, None)
            return None
        beaten = consumer_group_heartbeat.classify(reply.body)
        allowed = consumer_group_heartbeat.predict(plan, world, reply.incarnation)
        about = f"of {plan.member_id} at epoch {plan.epoch}"
        world.expect("ConsumerGroupHeartbeat", beaten.error, allowed, about=about)
        is_ok = beaten.error is ErrorCode.NONE
        self._note("ok" if is_ok else "fail", beaten.epoch, beaten.assigned)
        return beaten, reply.emitted_ms

    def _note(self, type: EntryType, epoch: int, tps: Owned | None) -> None:
        self.world.history.add(
            self.proc,
            type,
            "reconcile",
            group=self.roster.group,
            member=self.member_id,
            gen=epoch,
            value=None if tps is None else [list(tp) for tp in tps],
        )

    def _check_eviction(self, emitted_ms: float) -> None:
        """G5, as for members of the classic protocol. Who has to give something up may have been
        told so before, by an answer that did not come: its time counts from that one."""
        roster = self.roster
        passed_ms = emitted_ms - self._welcome_ms
        if passed_ms < _CLOCK_SKEW * roster.session_timeout_ms and not self._has_to_give:
            text = f"{self.member_id} of {roster.group} was given up before its session was over"
            self.world.findings.append(Finding("G5", text, len(self.world.history.entries)))

    def _hear(self, error: ErrorCode) -> Script[None]:
        """Who is fenced gives up all it has and starts over."""
        if error is ErrorCode.FENCED_MEMBER_EPOCH:
            self.start_over()
        elif error in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
            self.forget()
        else:
            yield Pause(_RETRY_MS)

    def leave(self, epoch: int) -> Script[None]:
        """For good, or for a while."""
        plan = BeatPlan(
            self.roster.group,
            self.member_id,
            epoch,
            (),
            self.roster.rebalance_timeout_ms,
            instance_id=self.instance_id,
        )
        # What it owned, it owns no more from here on, whatever becomes of the request.
        yield from self._send(plan)
        self.forget()

    # --- offsets ---------------------------------------------------------------------------------

    def commit(self, *, epoch: int) -> Script[None]:
        """One commit, or a look at what is committed."""
        world = self.world
        mine = [(facts, number) for topic, number in self.owned if (facts := self._lasting(topic))]
        if not mine:
            return
        facts, partition = world.random.choice(mine)
        if world.random.random() < 0.2:
            version = world.draw_version(offset_fetch.API_KEY, first=offset_fetch.FIRST_WITH_EPOCHS)
            look = FetchOffsetPlan(
                self.roster.group,
                facts,
                partition,
                version,
                member_id=self.member_id,
                epoch=epoch,
            )
            yield from FetchOffset(world, self.client, look).end()
            return
        plan = CommitPlan(
            self.roster.group,
            facts,
            partition,
            world.new_value(),
            generation=epoch,
            member_id=self.member_id,
            first_version=offset_commit.FIRST_WITH_EPOCHS,
        )
        outcome = yield from Commit(world, self.client, plan).end()
        if outcome is not None and outcome.error is ErrorCode.UNKNOWN_MEMBER_ID:
            self.forget()

    def _lasting(self, topic: str) -> TopicFacts | None:
        """The topic of that id, if it is one that is never deleted."""
        for facts in self.world.topics.values():
            if facts.topic_id == UUID(topic):
                return facts
        return None


def newer_member(
    world: World, roster: NewerRoster, *, number: int, pause_ms: float
) -> Script[None]:
    """In and out of the group until the world is over and every partition was somebody's."""
    me = _NewerMember(world, roster, number)
    while not (world.is_over and roster.is_settled):
        if not me.is_found:
            me.is_found = yield from find(world, me.client, roster.group)
        elif me.epoch == JOINING:
            yield from me.beat()
        elif world.is_over:
            is_well = yield from me.beat()
            if is_well:
                roster.settle(world)
        else:
            yield from _live(me)
        yield Pause(world.random.expovariate(1.0 / pause_ms))
    if me.epoch != JOINING:
        yield from me.leave(LEAVING)
    me.client.hang_up()


def _live(me: _NewerMember) -> Script[None]:
    """One thing that a member does."""
    luck = me.world.random.random()
    if luck < 0.5:
        yield from me.beat()
    elif luck < 0.8:
        yield from me.commit(epoch=me.epoch)
    elif luck < 0.85:
        yield from me.commit(epoch=me.epoch - 1)
    elif luck < 0.92:
        yield Pause(me.roster.session_timeout_ms * me.world.random.uniform(0.5, 3.0))
        yield from me.commit(epoch=me.epoch)
    elif luck < 0.96:
        is_static = me.instance_id is not None
        yield from me.leave(LEAVING_FOR_A_WHILE if is_static and luck < 0.94 else LEAVING)
    else:
        me.client.hang_up()
        me.forget()
