"""Somebody who commits and fetches a group's offsets without being a member, as tools do, and
consumers that choose their own partitions."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

from tidelog.model.errors import ErrorCode
from tidelog.sim.checkers.finding import Finding
from tidelog.sim.client import Answer, Client, Reply
from tidelog.sim.schedule import Pause, Promise, Script
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


def find(world: World, client: Client, group: str) -> Generator[Any, Any, bool]:
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
        self, world: World, client: Client, plan: CommitPlan, *, proc: int | None = None
    ) -> None:
        self._world = world
        self._plan = plan
        self._proc = world.history.new_process() if proc is None else proc
        world.history.add(
            self._proc,
            "invoke",
            "commit",
            tp=plan.tp,
            value=plan.offset,
            group=plan.group,
            gen=plan.generation,
        )
        version = world.draw_version(offset_commit.API_KEY)
        self._promise = client.call(offset_commit.build(plan), version, timeout_ms=_TIMEOUT_MS)

    def end(self) -> Generator[Any, Any, CommitOutcome | None]:
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

    def _record(self, type: Any, err: str | None) -> None:
        plan = self._plan
        self._world.history.add(
            self._proc,
            type,
            "commit",
            tp=plan.tp,
            value=plan.offset,
            group=plan.group,
            gen=plan.generation,
            err=err,
        )
