"""Somebody who asks for a partition's end right behind a write, before the write is answered.

C11 on one connection: the read is behind the write, so it sees it. Other clients begin a read only
when a write is answered, and can't tell whether it could have overtaken one.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from tidelog.sim.actors.sending import record_completion, record_invocation
from tidelog.sim.checkers.finding import Finding
from tidelog.sim.checkers.view import LATEST
from tidelog.sim.client import Answer, Client, Reply
from tidelog.sim.schedule import Pause, Script
from tidelog.sim.workload import list_offsets, produce
from tidelog.sim.workload.list_offsets import LookupPlan
from tidelog.sim.workload.produce import BatchOutcome, BatchPlan
from tidelog.sim.workload.world import TopicFacts, World

CONCERN = "pipelining"
"""The stream of random numbers for it."""

SHARE_OF_SEEDS = 0.3

_ALL = -1
_TIMEOUT_MS = 2_000
_PRODUCE_VERSION = 9
_LOOK_UP_VERSION = 5

Choose = Callable[[TopicFacts, int], Script[Client]]
"""Whom to ask about a partition."""


def pipeliner(world: World, random: Random, choose: Choose, *, pause_ms: float) -> Script[None]:
    """One write and one read behind it at a time, until the world is over."""
    clients: dict[Client, None] = {}
    while not world.is_over:
        topic = world.topics[random.choice(list(world.topics))]
        partition = random.randrange(topic.partitions)
        client = yield from choose(topic, partition)
        clients[client] = None
        batch = produce.sample(random, world, topic=topic, partition=partition, may_be_flawed=False)
        yield from _write_and_look(world, client, batch)
        yield Pause(random.expovariate(1.0 / pause_ms))
    for client in clients:
        client.hang_up()


def _write_and_look(world: World, client: Client, batch: BatchPlan) -> Script[None]:
    proc = world.history.new_process()
    plan = LookupPlan(batch.topic, batch.partition, LATEST)
    record_invocation(world, proc, batch)
    request = produce.build([batch], acks=_ALL, timeout_ms=_TIMEOUT_MS)
    written = client.call(request, _PRODUCE_VERSION, timeout_ms=_TIMEOUT_MS + 1_000)
    look = list_offsets.build(plan)
    looked = client.call(look, _LOOK_UP_VERSION, timeout_ms=_TIMEOUT_MS + 1_000)
    outcome = _record(world, proc, batch, (yield written))
    reply = yield looked
    if outcome is None or outcome.type != "ok" or not isinstance(reply, Answer):
        return
    found = list_offsets.classify(plan, reply.body)
    end = outcome.base_offset + len(batch.records)
    world.counted["read behind a write"] += 1
    if found.type == "ok" and found.offset < end:
        text = f"{batch.tp} ends at {found.offset}, told behind a write that ended at {end}"
        world.findings.append(Finding("C11", text, len(world.history.entries)))


def _record(world: World, proc: int, batch: BatchPlan, reply: Reply) -> BatchOutcome | None:
    """None: no answer came."""
    if not isinstance(reply, Answer):
        record_completion(world, proc, batch, "info", base_offset=-1, err=reply.reason)
        return None
    outcome = produce.classify([batch], reply.body)[0]
    err = None if outcome.type == "ok" else outcome.error.name
    record_completion(world, proc, batch, outcome.type, base_offset=outcome.base_offset, err=err)
    return outcome
