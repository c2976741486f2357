"""Somebody who asks for offsets and for metadata, and checks what it is told."""

from __future__ import annotations

from tidelog.sim.checkers.finding import Finding
from tidelog.sim.client import Answer, Client
from tidelog.sim.schedule import Pause, Script
from tidelog.sim.workload import list_offsets, metadata
from tidelog.sim.workload.world import TopicFacts, World


def prober(world: World, *, pause_ms: float) -> Script[None]:
    """Looks things up until the world is over."""
    random = world.random
    client = world.client("prober")
    proc = world.history.new_process()
    while not world.is_over:
        if random.random() < 0.8:
            topic, partition = world.draw_tp()
            is_answered = yield from look_up(world, client, proc, topic, partition)
            if not is_answered:
                proc = world.history.new_process()
        else:
            yield from ask_metadata(world, client)
        yield Pause(random.expovariate(1.0 / pause_ms))
    client.hang_up()


def look_up(
    world: World, client: Client, proc: int, topic: TopicFacts, partition: int
) -> Script[bool]:
    """One ListOffsets, recorded. False if no answer came."""
    plan = list_offsets.sample(world.random, world, topic=topic, partition=partition)
    history = world.history
    history.add(proc, "invoke", "list_offsets", tp=plan.tp, value=plan.asked)
    version = world.draw_version(list_offsets.API_KEY)
    reply = yield client.call(list_offsets.build(plan), version, timeout_ms=2_000)
    if not isinstance(reply, Answer):
        world.counted["ListOffsets: no answer"] += 1
        history.add(proc, "info", "list_offsets", tp=plan.tp, err=reply.reason)
        return False
    outcome = list_offsets.classify(plan, reply.body)
    allowed = list_offsets.predict(plan, world, reply.incarnation)
    world.expect("ListOffsets", outcome.error, allowed, about=f"of {plan.tp} at {plan.asked}")
    history.add(
        proc,
        outcome.type,
        "list_offsets",
        tp=plan.tp,
        value=[outcome.offset, outcome.timestamp],
        err=None if outcome.type == "ok" else outcome.error.name,
    )
    return True


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
