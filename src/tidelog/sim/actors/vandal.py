"""Somebody who sends what no client would."""

from __future__ import annotations

from tidelog.sim.schedule import Pause, Script
from tidelog.sim.workload import garbage
from tidelog.sim.workload.world import World


def vandal(world: World, *, pause_ms: float) -> Script[None]:
    """Sends garbage, each piece on a connection of its own, until the world is over."""
    random = world.random
    while not world.is_over:
        plan = garbage.sample(random, world)
        connection = world.network.connect(
            world.host, on_frame=lambda delivery: None, on_close=lambda reason: None
        )
        connection.send_request(garbage.build(plan))
        yield Pause(random.uniform(1.0, 50.0))
        fate = garbage.classify(None if connection.is_open else "closed")
        world.counted[f"garbage ({plan.kind}): {fate}"] += 1
        connection.hang_up()
        yield Pause(random.expovariate(1.0 / pause_ms))
