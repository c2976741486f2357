"""A member of a consumer group: joins, gets its share, commits, and goes in one way or another.

Members are as careless as real ones: they die without a word, and they pause for longer than their
session and then go on as if nothing had happened, in a generation that may be over. Static ones
come back under their instance id, and something of their former self may still be under way then.
When the world is over they stay until all of them are in one generation together: then the group is
stable.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tidelog.model.errors import ErrorCode
from tidelog.sim.actors.committer import Commit, FetchOffset, find
from tidelog.sim.checkers.finding import Finding
from tidelog.sim.client import Answer, Client
from tidelog.sim.history import EntryType, Partition
from tidelog.sim.schedule import Pause, Script
from tidelog.sim.workload import (
    heartbeat,
    join_group,
    leave_group,
    offset_commit,
    offset_fetch,
    sync_group,
)
from tidelog.sim.workload.heartbeat import HeartbeatPlan
from tidelog.sim.workload.join_group import Joined, JoinPlan
from tidelog.sim.workload.leave_group import LeavePlan
from tidelog.sim.workload.offset_commit import NO_GENERATION, CommitPlan
from tidelog.sim.workload.offset_fetch import FetchOffsetPlan
from tidelog.sim.workload.sync_group import SyncPlan
from tidelog.sim.workload.world import World

_TIMEOUT_MS = 2_000
_RETRY_MS = 20.0
_CLOCK_SKEW = 0.8
"""Clocks drift: a session that is over after so much of its time is still no finding."""
_UNIQUE_CHARS = 37
"""A dash and a UUID, at the end of every member id that a node gives."""


@dataclass(slots=True)
class Roster:
    """One group, as those who run its members know it: which generation each has last synced in."""

    group: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    statics: int = 0
    """How many of the members are static: the first ones."""
    synced: dict[int, int] = field(default_factory=dict)
    is_settled: bool = False

    def settle(self) -> None:
        """Stable once: from then on members may leave."""
        generations = list(self.synced.values())
        if generations[0] != NO_GENERATION and len(set(generations)) == 1:
            self.is_settled = True

    def identity(self, member_id: str) -> str:
        """Who that is, whichever id it has: a static member's ids begin with its instance id."""
        prefix = member_id[:-_UNIQUE_CHARS]
        instances = [f"static{number}" for number in range(self.statics)]
        return prefix if prefix in instances else member_id


class _Member:
    """One process that wants to be a member, under one id after another."""

    def __init__(
        self, world: World, roster: Roster, number: int, instance_id: str | None = None
    ) -> None:
        self.world = world
        self.roster = roster
        self.client: Client = world.client(f"member{number}")
        self.proc = world.history.new_process()
        self.is_found = False
        self.instance_id = instance_id
        self.former_id = ""
        self.member_id = ""
        self.generation = NO_GENERATION
        self.share: tuple[Partition, ...] = ()
        self._number = number
        self._welcome_ms = 0.0
        """When the request was sent that last proved us a member in good standing."""
        roster.synced[number] = NO_GENERATION

    def forget(self) -> None:
        """The next join is somebody new's, or a static member's that has lost its memory."""
        self.former_id, self.member_id = self.member_id, ""
        self.proc = self.world.history.new_process()
        self.lose_share()

    def lose_share(self) -> None:
        self.generation = NO_GENERATION
        self.share = ()
        self.roster.synced[self._number] = NO_GENERATION

    # --- joining ---------------------------------------------------------------------------------

    def become_member(self) -> Script[None]:
        """One attempt at joining and syncing."""
        joined = yield from self._join()
        if joined is None:
            yield Pause(_RETRY_MS)
        elif joined.error is ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = joined.member_id
        elif joined.error in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
            self.forget()
        elif joined.error is ErrorCode.NONE:
            self.member_id = joined.member_id
            yield from self._sync(joined)
        else:
            yield Pause(_RETRY_MS)

    def _join(self) -> Script[Joined | None]:
        world, roster = self.world, self.roster
        plan = JoinPlan(
            roster.group,
            self.member_id,
            roster.session_timeout_ms,
            roster.rebalance_timeout_ms,
            list(world.topics),
            world.draw_version(join_group.API_KEY, first=self._first(join_group)),
            self.instance_id,
        )
        world.history.add(self.proc, "invoke", "join", group=roster.group)
        timeout_ms = roster.rebalance_timeout_ms + _TIMEOUT_MS
        reply = yield self.client.call(join_group.build(plan), plan.version, timeout_ms=timeout_ms)
        if not isinstance(reply, Answer):
            self._lost("join", reply.reason)
            return None
        joined = join_group.classify(reply.body)
        allowed = join_group.predict(plan, world, reply.incarnation)
        world.expect("JoinGroup", joined.error, allowed, about=f"{roster.group} v{plan.version}")
        is_ok = joined.error is ErrorCode.NONE
        world.history.add(
            self.proc,
            "ok" if is_ok else "fail",
            "join",
            group=roster.group,
            gen=joined.generation if is_ok else None,
            member=joined.member_id if is_ok else None,
            value=[roster.identity(one) for one in (joined.member_id, joined.leader)],
            err=None if is_ok else joined.error.name,
        )
        return joined

    def _sync(self, joined: Joined) -> Script[None]:
        world, roster = self.world, self.roster
        assigns = joined.leader == joined.member_id and not joined.keeps_assignment
        plan = SyncPlan(
            roster.group,
            joined.generation,
            joined.member_id,
            self._assign(joined.members) if assigns else {},
            self.instance_id,
        )
        handed_in = [[roster.identity(one), list(tps)] for one, tps in plan.shares.items()]
        world.history.add(
            self.proc, "invoke", "sync", group=roster.group, gen=plan.generation, value=handed_in
        )
        version = world.draw_version(sync_group.API_KEY, first=self._first(sync_group))
        timeout_ms = roster.rebalance_timeout_ms + _TIMEOUT_MS
        sent_ms = world.schedule.now_ms
        reply = yield self.client.call(sync_group.build(plan), version, timeout_ms=timeout_ms)
        if not isinstance(reply, Answer):
            self._lost("sync", reply.reason)
            return
        synced = sync_group.classify(reply.body)
        allowed = sync_group.predict(world, reply.incarnation)
        world.expect("SyncGroup", synced.error, allowed, about=roster.group)
        is_ok = synced.error is ErrorCode.NONE
        world.history.add(
            self.proc,
            "ok" if is_ok else "fail",
            "sync",
            group=roster.group,
            gen=plan.generation,
            member=plan.member_id,
            value=[roster.identity(plan.member_id), [list(tp) for tp in synced.share]],
            err=None if is_ok else synced.error.name,
        )
        if is_ok:
            self.generation, self.share = plan.generation, synced.share
            self._welcome_ms = sent_ms
            roster.synced[self._number] = plan.generation
        else:
            self._hear(synced.error)

    def _assign(self, members: Sequence[str]) -> dict[str, list[Partition]]:
        """All partitions, dealt out; never the same way twice, so that mixed-up ones show."""
        tps = [tp for facts in self.world.topics.values() for tp in facts.tps()]
        self.world.random.shuffle(tps)
        return {one: sorted(tps[index :: len(members)]) for index, one in enumerate(members)}

    # --- the life of a member --------------------------------------------------------------------

    def beat(self) -> Script[bool]:
        """One heartbeat; whether all is well."""
        world, roster = self.world, self.roster
        plan = HeartbeatPlan(roster.group, self.generation, self.member_id, self.instance_id)
        version = world.draw_version(heartbeat.API_KEY, first=self._first(heartbeat))
        sent_ms = world.schedule.now_ms
        self._note_beat("invoke")
        request = heartbeat.build(plan)
        reply = yield self.client.call(request, version, timeout_ms=_TIMEOUT_MS)
        if not isinstance(reply, Answer):
            world.counted["Heartbeat: no answer"] += 1
            self._note_beat("info")
            return False
        error = heartbeat.classify(reply.body)
        allowed = heartbeat.predict(world, reply.incarnation)
        world.expect("Heartbeat", error, allowed, about=roster.group)
        if error is ErrorCode.NONE:
            self._welcome_ms = sent_ms
            self._note_beat("ok")
            return True
        self._note_beat("fail")
        if error is ErrorCode.UNKNOWN_MEMBER_ID:
            self._check_eviction(reply.emitted_ms)
        self._hear(error)
        return False

    def _note_beat(self, type: EntryType) -> None:
        history, group = self.world.history, self.roster.group
        history.add(
            self.proc, type, "beat", group=group, gen=self.generation, member=self.member_id
        )

    def _check_eviction(self, emitted_ms: float) -> None:
        """G5: nobody is given up before its session is over."""
        roster = self.roster
        shortest_ms = min(roster.session_timeout_ms, roster.rebalance_timeout_ms)
        if emitted_ms - self._welcome_ms < _CLOCK_SKEW * shortest_ms:
            text = (
                f"{self.member_id} of {roster.group} was given up "
                f"{emitted_ms - self._welcome_ms:.0f} ms after it was heard"
            )
            self.world.findings.append(Finding("G5", text, len(self.world.history.entries)))

    def commit(self) -> Script[None]:
        """One commit in our generation, or a look at what is committed."""
        world = self.world
        label, partition = world.random.choice(self.share)
        facts = world.topics[label]
        if world.random.random() < 0.2:
            version = world.draw_version(offset_fetch.API_KEY)
            look = FetchOffsetPlan(self.roster.group, facts, partition, version)
            yield from FetchOffset(world, self.client, look).end()
            return
        plan = CommitPlan(
            self.roster.group,
            facts,
            partition,
            world.new_value(),
            generation=self.generation,
            member_id=self.member_id,
            instance_id=self.instance_id,
            first_version=self._first(offset_commit),
        )
        outcome = yield from Commit(world, self.client, plan).end()
        if outcome is not None and outcome.type != "ok":
            self._hear(outcome.error)

    def commit_as_before(self) -> Script[None]:
        """What a static member's former self had still under way: it must not be taken (G3)."""
        world = self.world
        label, partition = world.random.choice(self.share)
        plan = CommitPlan(
            self.roster.group,
            world.topics[label],
            partition,
            world.new_value(),
            generation=self.generation,
            member_id=self.former_id,
            instance_id=self.instance_id,
            first_version=self._first(offset_commit),
        )
        outcome = yield from Commit(world, self.client, plan).end()
        if outcome is not None and outcome.type == "ok":
            text = f"{self.former_id} commits, though {self.member_id} has taken its place"
            world.findings.append(Finding("G3", text, len(world.history.entries)))

    def leave(self) -> Script[None]:
        world, roster = self.world, self.roster
        version = world.draw_version(leave_group.API_KEY, first=self._first(leave_group))
        plan = LeavePlan(roster.group, self.member_id, version, self.instance_id)
        reply = yield self.client.call(leave_group.build(plan), version, timeout_ms=_TIMEOUT_MS)
        if isinstance(reply, Answer):
            error = leave_group.classify(reply.body)
            allowed = leave_group.predict(world, reply.incarnation)
            world.expect("LeaveGroup", error, allowed, about=roster.group)
        self.forget()

    def _hear(self, error: ErrorCode) -> None:
        """What a client does about an error: join again, as itself or as somebody new."""
        if error in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
            self.forget()
        elif error in (ErrorCode.ILLEGAL_GENERATION, ErrorCode.REBALANCE_IN_PROGRESS):
            self.lose_share()

    def _first(self, operation: Any) -> int:
        """The first version of an operation that can say who a static member is."""
        return 0 if self.instance_id is None else int(operation.FIRST_WITH_INSTANCES)

    def _lost(self, f: str, reason: str) -> None:
        self.world.history.add(self.proc, "info", f, group=self.roster.group, err=reason)
        self.proc = self.world.history.new_process()


def member(world: World, roster: Roster, *, number: int, pause_ms: float) -> Script[None]:
    """In and out of the group until the world is over and the group was stable once more."""
    instance_id = f"static{number}" if number < roster.statics else None
    me = _Member(world, roster, number, instance_id)
    while not (world.is_over and roster.is_settled):
        if not me.is_found:
            me.is_found = yield from find(world, me.client, roster.group)
        elif me.generation == NO_GENERATION:
            yield from me.become_member()
        elif world.is_over:
            is_well = yield from me.beat()
            if is_well:
                roster.settle()
        else:
            yield from _live(me)
        yield Pause(world.random.expovariate(1.0 / pause_ms))
    if me.member_id:
        yield from me.leave()
    me.client.hang_up()


def _live(me: _Member) -> Script[None]:
    """One thing that a member does."""
    luck = me.world.random.random()
    if luck < 0.45:
        yield from me.beat()
    elif luck < 0.85:
        if me.share and me.instance_id is not None and me.former_id and luck < 0.6:
            yield from me.commit_as_before()
        elif me.share:
            yield from me.commit()
    elif luck < 0.92:
        # Gone for longer than its session; what it does next, it does in good faith.
        yield Pause(me.roster.session_timeout_ms * me.world.random.uniform(0.5, 3.0))
        if me.share:
            yield from me.commit()
    elif luck < 0.96:
        yield from me.leave()
    else:
        me.client.hang_up()
        me.forget()
