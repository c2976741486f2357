"""Somebody who commits and fetches a group's offsets without being a member, as tools do, and
consumers that choose their own partitions."""

from __future__ import annotations

from tidelog.model.errors import ErrorCode
from tidelog.sim.checkers.finding import Finding
from tidelog.sim.client import Answer, Client
from tidelog.sim.history import EntryType
from tidelog.sim.schedule import Pause, Script
from tidelog.sim.workload import find_coordinator, offset_commit, offset_fetch
from tidelog.sim.workload.offset_commit import CommitOutcome, CommitPlan
from tidelog.sim.workload.offset_fetch import FetchOffsetPlan
from tidelog.sim.workload.world import World

_TIMEOUT_MS = 2_000


def committer(world: World, *, group: str, pause_ms: float) -> Script[None]:
    """Commits and fetches, some at once, until the world is over."""
    random = world.random
    client = world.client("committer")
    is_found = False
    while not world.is_over:
        if not is_found:
            is_found = yield from find(world, client, group)
        else:
            begun = [_begin(world, client, group) for _ in range(random.choice((1, 1, 2, 3)))]
            for one in begun:
                yield from one.end()
        yield Pause(random.expovariate(1.0 / pause_ms))
    client.hang_up()


def find(world: World, client: Client, group: str) -> Script[bool]:
    """Ask who the coordinator is; whether there was an answer that helps."""
    version = world.draw_version(find_coordinator.API_KEY)
    reply = yield client.call(find_coordinator.build(group), version, timeout_ms=_TIMEOUT_MS)
    if not isinstance(reply, Answer):
        world.counted["FindCoordinator: no answer"] += 1
        return False
    node_id, error = find_coordinator.classify(reply.body)
    allowed = find_coordinator.predict(world, reply.incarnation)
    world.expect("FindCoordinator", error, allowed, about=f"of {group}")
    is_found = error is ErrorCode.NONE
    if is_found != (node_id >= 0):
        text = f"the coordinator of {group} is node {node_id}, with {error.name}"
        world.findings.append(Finding("answer", text, len(world.history.entries)))
    return is_found


def _begin(world: World, client: Client, group: str) -> Commit | FetchOffset:
    if world.random.random() < 0.6:
        return Commit(world, client, offset_commit.sample(world.random, world, group=group))
    return FetchOffset(world, client, offset_fetch.sample(world.random, world, group=group))


class Commit:
    """An OffsetCommit under way, in the history from its beginning."""

    def __init__(
        self, world: World, client: Client, plan: CommitPlan, *, f: str = "commit"
    ) -> None:
        self._world = world
        self._plan = plan
        self._f = f
        self._proc = world.history.new_process()
        self._record("invoke", None)
        version = world.draw_version(offset_commit.API_KEY, first=plan.first_version)
        self._promise = client.call(offset_commit.build(plan), version, timeout_ms=_TIMEOUT_MS)

    def end(self) -> Script[CommitOutcome | None]:
        """What became of it; None if nobody knows."""
        reply = yield self._promise
        world, plan = self._world, self._plan
        if not isinstance(reply, Answer):
            world.counted["OffsetCommit: no answer"] += 1
            self._record("info", reply.reason)
            return None
        outcome = offset_commit.classify(reply.body)
        allowed = offset_commit.predict(plan, world, reply.incarnation)
        about = f"by {plan.group} of {plan.tp}"
        world.expect("OffsetCommit", outcome.error, allowed, about=about)
        _check_late(world, plan, outcome, reply)
        self._record(outcome.type, None if outcome.type == "ok" else outcome.error.name)
        return outcome

    def _record(self, type: EntryType, err: str | None) -> None:
        plan = self._plan
        self._world.history.add(
            self._proc,
            type,
            self._f,
            tp=plan.tp,
            value=plan.offset,
            group=plan.group,
            member=plan.member_id or None,
            gen=plan.generation,
            err=err,
        )


class FetchOffset:
    """An OffsetFetch under way."""

    def __init__(
        self, world: World, client: Client, plan: FetchOffsetPlan, *, f: str = "fetch_offset"
    ) -> None:
        self._world = world
        self._plan = plan
        self._f = f
        self._proc = world.history.new_process()
        world.history.add(self._proc, "invoke", f, tp=plan.tp, group=plan.group)
        request = offset_fetch.build(plan)
        self._promise = client.call(request, plan.version, timeout_ms=_TIMEOUT_MS)

    def end(self) -> Script[int | None]:
        """The offset, -1 for none; None if it was not told."""
        reply = yield self._promise
        world, plan = self._world, self._plan
        if not isinstance(reply, Answer):
            world.counted["OffsetFetch: no answer"] += 1
            self._record("info", -1, reply.reason)
            return None
        fetched = offset_fetch.classify(plan, reply.body)
        allowed = offset_fetch.predict(plan, world, reply.incarnation)
        about = f"v{plan.version} for {plan.group} of {plan.tp}"
        world.expect("OffsetFetch", fetched.error, allowed, about=about)
        if fetched.type != "ok":
            self._record("fail", -1, fetched.error.name)
            return None
        self._record("ok", fetched.offset, None)
        if fetched.metadata != (str(fetched.offset) if fetched.offset >= 0 else ""):
            text = f"{about}: offset {fetched.offset} has metadata {fetched.metadata!r}"
            world.findings.append(Finding("C17", text, len(world.history.entries)))
        return fetched.offset

    def _record(self, type: EntryType, offset: int, err: str | None) -> None:
        plan = self._plan
        self._world.history.add(
            self._proc, type, self._f, tp=plan.tp, value=offset, group=plan.group, err=err
        )


def _check_late(world: World, plan: CommitPlan, outcome: CommitOutcome, answer: Answer) -> None:
    """S4: after a failed flush, that life of the node acknowledges nothing any more."""
    failed_ms = world.host.flush_failures.get(answer.incarnation)
    if outcome.type == "ok" and failed_ms is not None and answer.emitted_ms > failed_ms:
        text = f"{plan.group} committed {plan.tp} after an fsync had failed"
        world.findings.append(Finding("S4", text, len(world.history.entries)))
