"""A client that is broken: its frames are sound, and the records in them are not."""

from __future__ import annotations

from random import Random

from tidelog.model.errors import ErrorCode
from tidelog.sim.checkers.finding import Finding
from tidelog.sim.client import Answer
from tidelog.sim.schedule import Pause, Script
from tidelog.sim.workload import garbage_records
from tidelog.sim.workload.world import World

SHARE = 0.25
"""Of the seeds have one."""


def garbage_producer(world: World, random: Random, *, pause_ms: float) -> Script[None]:
    """Sends until the world is over. `random` is nobody else's."""
    client = world.client("garbage")
    low, high = world.versions[garbage_records.API_KEY]
    while not world.is_over:
        plan = garbage_records.sample(random, world)
        version = random.randint(max(low, garbage_records.FIRST_VERSION), high)
        reply = yield client.call(garbage_records.build(plan), version, timeout_ms=1_500)
        if isinstance(reply, Answer):
            error = garbage_records.classify(reply.body)
            allowed = garbage_records.predict(world, reply.incarnation)
            about = f"to {plan.topic.label}-{plan.partition} ({plan.kind})"
            world.expect("Produce of garbage", error, allowed, about=about)
            if error is ErrorCode.NONE:
                text = f"a batch of garbage was appended {about}"
                world.findings.append(Finding("answer", text, len(world.history.entries)))
        yield Pause(random.expovariate(1.0 / pause_ms))
    client.hang_up()
