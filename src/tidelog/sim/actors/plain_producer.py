"""A producer without identity: acks 0, 1 or all, one attempt, and sometimes a careless retry."""

from __future__ import annotations

from random import Random

from tidelog.sim.actors.sending import check_late_ack, record_completion, record_invocation
from tidelog.sim.client import Answer, Client
from tidelog.sim.schedule import Pause, Script
from tidelog.sim.workload import produce
from tidelog.sim.workload.produce import BatchPlan
from tidelog.sim.workload.world import World
from tidelog.wire.compression import Compression


def plain_producer(world: World, *, pause_ms: float) -> Script[None]:
    """Sends until the world is over."""
    random = world.random
    client = world.client("plain")
    proc = world.history.new_process()
    while not world.is_over:
        batches = _sample(random, world)
        acks = random.choice((0, 1, -1, -1))
        for batch in batches:
            record_invocation(world, proc, batch)
        is_certain = yield from send_once(world, client, proc, batches, acks=acks)
        if not is_certain:
            proc = world.history.new_process()
        if random.random() < 0.02:
            client.hang_up()
        yield Pause(random.expovariate(1.0 / pause_ms))
    client.hang_up()


def _sample(random: Random, world: World) -> list[BatchPlan]:
    """Batches for one to three partitions; at most one of them is flawed."""
    batches: dict[tuple[str, int], BatchPlan] = {}
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        topic, partition = world.draw_tp()
        plan = produce.sample(
            random, world, topic=topic, partition=partition, may_be_flawed=not batches
        )
        batches.setdefault(plan.tp, plan)
    return list(batches.values())


def draw_version(world: World, batches: list[BatchPlan]) -> int:
    """Zstandard may be sent from version 7 on only; from 13 on topics go by id."""
    has_zstd = any(batch.compression is Compression.ZSTD for batch in batches)
    first = 7 if has_zstd else produce.FIRST_VERSION
    return world.draw_version(produce.API_KEY, first=first)


def send_once(
    world: World,
    client: Client,
    proc: int,
    batches: list[BatchPlan],
    *,
    acks: int,
    first_version: int = produce.FIRST_VERSION,
) -> Script[bool]:
    """Whether everything about the batches is known now."""
    random = world.random
    timeout_ms = random.choice((50, 500, 5_000))
    request = produce.build(batches, acks=acks, timeout_ms=timeout_ms)
    version = max(first_version, draw_version(world, batches))
    if acks == 0:
        client.send(request, version)
        for batch in batches:
            record_completion(world, proc, batch, "info", base_offset=-1, err=None)
        return False
    reply = yield client.call(request, version, timeout_ms=timeout_ms + 1_000)
    if not isinstance(reply, Answer) and random.random() < 0.2:
        world.counted["plain retry"] += 1
        reply = yield client.call(request, version, timeout_ms=timeout_ms + 1_000)
        if not isinstance(reply, Answer):
            _record_loss(world, proc, batches, reply.reason)
            return False
        _record_answer(world, proc, batches, reply, is_first_attempt=False)
        return False
    if not isinstance(reply, Answer):
        _record_loss(world, proc, batches, reply.reason)
        return False
    return _record_answer(world, proc, batches, reply, is_first_attempt=True)


def _record_loss(world: World, proc: int, batches: list[BatchPlan], reason: str) -> None:
    world.counted["Produce: no answer"] += 1
    for batch in batches:
        record_completion(world, proc, batch, "info", base_offset=-1, err=reason)


def _record_answer(
    world: World, proc: int, batches: list[BatchPlan], answer: Answer, *, is_first_attempt: bool
) -> bool:
    """An error proves that there was no effect only if it is about the only attempt."""
    is_certain = True
    for batch, outcome in zip(batches, produce.classify(batches, answer.body), strict=True):
        world.expect(
            "Produce",
            outcome.error,
            produce.predict(batch, world, answer.incarnation),
            about=f"to {batch.tp} ({batch.flaw})",
        )
        check_late_ack(world, batch, outcome, answer)
        is_proven = outcome.type == "ok" or is_first_attempt
        type = outcome.type if is_proven else "info"
        err = None if outcome.type == "ok" else outcome.error.name
        record_completion(world, proc, batch, type, base_offset=outcome.base_offset, err=err)
        is_certain = is_certain and type != "info"
    return is_certain
