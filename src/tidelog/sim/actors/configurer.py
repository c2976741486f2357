"""Somebody who changes the settings of topics while others use them, and looks what is in force."""

from __future__ import annotations

from tidelog.model.errors import ErrorCode
from tidelog.sim.client import Answer, Client
from tidelog.sim.schedule import Pause, Script
from tidelog.sim.workload import configs
from tidelog.sim.workload.outcome import type_of
from tidelog.sim.workload.world import TopicFacts, World

_TIMEOUT_MS = 2_000


def configurer(world: World, *, pause_ms: float) -> Script[None]:
    """Until the world is over."""
    client = world.client("configurer")
    while not world.is_over:
        topic, _ = world.draw_tp()
        if world.random.random() < 0.5:
            yield from _change(world, client, topic)
        else:
            yield from describe(world, client, topic)
        yield Pause(world.random.expovariate(1.0 / pause_ms))
    client.hang_up()


def _change(world: World, client: Client, topic: TopicFacts) -> Script[None]:
    history, proc, tp = world.history, world.history.new_process(), (topic.label, 0)
    plan = configs.sample(world.random, world, topic)
    history.add(proc, "invoke", "alter", tp=tp, group="configs", value=plan.number)
    version = world.draw_version(plan.api_key)
    reply = yield client.call(configs.build(plan), version, timeout_ms=_TIMEOUT_MS)
    if not isinstance(reply, Answer):
        history.add(proc, "info", "alter", tp=tp, group="configs", err=reply.reason)
        return
    error = reply.body.responses[0].error_code
    allowed = configs.predict(world, reply.incarnation)
    world.expect("AlterConfigs", error, allowed, about=f"of {topic.name}")
    history.add(proc, type_of(error), "alter", tp=tp, group="configs", value=plan.number)


def describe(world: World, client: Client, topic: TopicFacts) -> Script[bool]:
    """What is in force; whether that was told."""
    history, proc, tp = world.history, world.history.new_process(), (topic.label, 0)
    history.add(proc, "invoke", "describe", tp=tp, group="configs")
    version = world.draw_version(configs.DESCRIBE)
    reply = yield client.call(configs.build_question(topic), version, timeout_ms=_TIMEOUT_MS)
    if not isinstance(reply, Answer):
        history.add(proc, "info", "describe", tp=tp, group="configs", err=reply.reason)
        return False
    error, number = configs.classify_description(reply.body)
    world.expect("DescribeConfigs", error, (), about=f"of {topic.name}")
    is_ok = error is ErrorCode.NONE
    history.add(proc, "ok" if is_ok else "fail", "describe", tp=tp, group="configs", value=number)
    return is_ok
