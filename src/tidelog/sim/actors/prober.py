"""Somebody who asks for offsets and for metadata, and checks what it is told."""

from __future__ import annotations

from dataclasses import dataclass

from tidelog.sim.checkers.finding import Finding
from tidelog.sim.client import Answer, Client, Reply
from tidelog.sim.schedule import Pause, Promise, Script
from tidelog.sim.workload import list_offsets, metadata
from tidelog.sim.workload.list_offsets import LookupPlan
from tidelog.sim.workload.world import World


def prober(world: World, *, pause_ms: float) -> Script[None]:
    """Looks things up until the world is over."""
    random = world.random
    client = world.client("prober")
    while not world.is_over:
        if random.random() < 0.8:
            lookups = [_begin_look_up(world, client) for _ in range(random.choice((1, 1, 1, 4)))]
            for lookup in lookups:
                yield from _end_look_up(world, lookup)
        else:
            yield from ask_metadata(world, client)
        yield Pause(random.expovariate(1.0 / pause_ms))
    client.hang_up()


@dataclass(slots=True, frozen=True)
class _LookUp:
    """A ListOffsets under way; several may be, one behind the other on a connection."""

    proc: int
    plan: LookupPlan
    promise: Promise[Reply]


def _begin_look_up(world: World, client: Client) -> _LookUp:
    topic, partition = world.draw_tp()
    plan = list_offsets.sample(world.random, world, topic=topic, partition=partition)
    proc = world.history.new_process()
    world.history.add(proc, "invoke", "list_offsets", tp=plan.tp, value=plan.asked)
    version = world.draw_version(list_offsets.API_KEY)
    return _LookUp(proc, plan, client.call(list_offsets.build(plan), version, timeout_ms=2_000))


def _end_look_up(world: World, lookup: _LookUp) -> Script[None]:
    plan, history = lookup.plan, world.history
    reply = yield lookup.promise
    if not isinstance(reply, Answer):
        world.counted["ListOffsets: no answer"] += 1
        history.add(lookup.proc, "info", "list_offsets", tp=plan.tp, err=reply.reason)
        return
    outcome = list_offsets.classify(plan, reply.body)
    allowed = list_offsets.predict(plan, world, reply.incarnation)
    world.expect("ListOffsets", outcome.error, allowed, about=f"of {plan.tp} at {plan.asked}")
    history.add(
        lookup.proc,
        outcome.type,
        "list_offsets",
        tp=plan.tp,
        value=[outcome.offset, outcome.timestamp],
        err=None if outcome.type == "ok" else outcome.error.name,
    )


def ask_metadata(world: World, client: Client) -> Script[None]:
    """One Metadata request about topics that exist for certain."""
    plan = metadata.sample(world.random, world)
    version = world.draw_version(metadata.API_KEY, first=1)
    reply = yield client.call(metadata.build(plan), version, timeout_ms=2_000)
    if not isinstance(reply, Answer):
        world.counted["Metadata: no answer"] += 1
        return
    world.counted["Metadata: NONE"] += 1
    seen = metadata.classify(reply.body)
    names = list(world.topics) if plan.name is None else [plan.name]
    for name in names:
        wrong = metadata.predict(world.topics[name], seen.get(name))
        if wrong is not None:
            world.findings.append(Finding("metadata", wrong, len(world.history.entries)))
