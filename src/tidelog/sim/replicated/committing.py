"""Somebody who commits and fetches a group's offsets, wherever its coordinator has moved to."""

from __future__ import annotations

from random import Random

from tidelog.model.errors import ErrorCode
from tidelog.sim.client import Answer
from tidelog.sim.cluster import Cluster
from tidelog.sim.history import EntryType
from tidelog.sim.replicated.router import Router
from tidelog.sim.schedule import Pause, Script
from tidelog.sim.workload import offset_commit, offset_fetch
from tidelog.sim.workload.offset_commit import CommitPlan
from tidelog.sim.workload.offset_fetch import FetchOffsetPlan

_COMMIT_VERSION = 8
_FETCH_VERSION = 8
_TIMEOUT_MS = 400


class Register:
    """The offsets of one group, through whoever coordinates it."""

    def __init__(self, cluster: Cluster, random: Random, group: str) -> None:
        self._world = cluster.world
        self._router = Router(cluster, "committer", random)
        self._group = group

    def hang_up(self) -> None:
        self._router.hang_up()

    def commit(self, plan: CommitPlan) -> Script[bool]:
        """One attempt, recorded; whether it is certain."""
        node_id = yield from self._router.coordinator_of(self._group)
        if node_id is None:
            return False
        history, proc = self._world.history, self._world.history.new_process()
        history.add(
            proc, "invoke", "commit", tp=plan.tp, value=plan.offset, group=plan.group, gen=-1
        )
        reply = yield self._router.at(node_id).call(
            offset_commit.build(plan), _COMMIT_VERSION, timeout_ms=_TIMEOUT_MS
        )
        type: EntryType = "info"
        err: str | None = "no answer"
        if isinstance(reply, Answer):
            outcome = offset_commit.classify(reply.body)
            type = outcome.type
            err = None if type == "ok" else outcome.error.name
            self._world.counted[f"OffsetCommit: {outcome.error.name}"] += 1
        if type != "ok":
            self._router.forget_coordinator(self._group)
        history.add(
            proc, type, "commit", tp=plan.tp, value=plan.offset, group=plan.group, gen=-1, err=err
        )
        return type == "ok"

    def fetch(self, plan: FetchOffsetPlan) -> Script[bool]:
        """One look at an offset, recorded; whether it was told."""
        node_id = yield from self._router.coordinator_of(self._group)
        if node_id is None:
            return False
        history, proc = self._world.history, self._world.history.new_process()
        history.add(proc, "invoke", "fetch_offset", tp=plan.tp, group=plan.group)
        reply = yield self._router.at(node_id).call(
            offset_fetch.build(plan), _FETCH_VERSION, timeout_ms=_TIMEOUT_MS
        )
        offset, type, err = -1, "info", "no answer"
        if isinstance(reply, Answer):
            fetched = offset_fetch.classify(plan, reply.body)
            self._world.counted[f"OffsetFetch: {fetched.error.name}"] += 1
            is_told = fetched.error is ErrorCode.NONE
            offset = fetched.offset if is_told else -1
            type, err = ("ok", "") if is_told else ("fail", fetched.error.name)
        if type != "ok":
            self._router.forget_coordinator(self._group)
        history.add(
            proc,
            "ok" if type == "ok" else "fail" if type == "fail" else "info",
            "fetch_offset",
            tp=plan.tp,
            value=offset,
            group=plan.group,
            err=err or None,
        )
        return type == "ok"


def committer(cluster: Cluster, random: Random, *, group: str, pause_ms: float) -> Script[None]:
    """Commits and looks, one after the other, until the world is over."""
    world = cluster.world
    register = Register(cluster, random, group)
    while not world.is_over:
        if random.random() < 0.6:
            yield from register.commit(offset_commit.sample(random, world, group=group))
        else:
            facts, partition = world.draw_tp()
            yield from register.fetch(FetchOffsetPlan(group, facts, partition, _FETCH_VERSION))
        yield Pause(random.expovariate(1.0 / pause_ms))
    register.hang_up()
