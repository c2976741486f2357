"""Somebody who creates a topic, uses it, deletes it, and creates it again under the same name.

The topic is the owner's alone, so what each step must give is known. Each life of the topic has its
own label in the history: what was in the old topic must never be seen in the new one.
"""

from __future__ import annotations

from uuid import UUID

from tidelog.model.errors import ErrorCode
from tidelog.sim.actors.consumer import Consumer
from tidelog.sim.actors.plain_producer import send_once
from tidelog.sim.actors.sending import record_invocation
from tidelog.sim.checkers.finding import Finding
from tidelog.sim.client import Answer, Client
from tidelog.sim.schedule import Pause, Script
from tidelog.sim.workload import create_topic, delete_topic, metadata, produce
from tidelog.sim.workload.create_topic import CreatePlan
from tidelog.sim.workload.metadata import MetadataPlan, Seen
from tidelog.sim.workload.world import TopicFacts, World

RETRY_MS = 40.0


def topic_owner(
    world: World, *, name: str, configs: tuple[tuple[str, str], ...], pause_ms: float
) -> Script[None]:
    """One life of the topic after another, until the world is over."""
    random = world.random
    client = world.client("owner")
    life = 0
    while not world.is_over:
        life += 1
        plan = create_topic.sample(random, name=name, partitions=2, configs=configs)
        facts = yield from create(world, client, plan, label=f"{name}#{life}")
        for _ in range(random.randint(0, 4)):
            yield from _use(world, client, facts)
            yield Pause(random.expovariate(1.0 / pause_ms))
        yield from _delete(world, client, facts)
        yield Pause(random.expovariate(1.0 / pause_ms))
    client.hang_up()


def create(world: World, client: Client, plan: CreatePlan, *, label: str) -> Script[TopicFacts]:
    """Try until the topic exists for certain. Its id comes from the metadata, as for any client."""
    may_exist = False
    while True:
        version = world.draw_version(create_topic.API_KEY)
        reply = yield client.call(create_topic.build(plan), version, timeout_ms=6_000)
        if isinstance(reply, Answer):
            result = create_topic.classify(reply.body)
            world.expect(
                "CreateTopics",
                result.error_code,
                create_topic.predict(world, reply.incarnation, may_exist=may_exist),
                about=plan.name,
            )
            if result.error_code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                break
        else:
            world.counted["CreateTopics: no answer"] += 1
        may_exist = True
        yield Pause(RETRY_MS)
    seen = yield from see(world, client, plan.name)
    facts = TopicFacts(
        name=plan.name,
        label=label,
        topic_id=UUID(int=0) if seen is None else seen.topic_id,
        partitions=plan.partitions,
        flush_policy=plan.flush_policy,
    )
    _report(world, metadata.predict(facts, seen))
    return facts


def see(world: World, client: Client, name: str) -> Script[Seen | None]:
    """What the metadata says of the topic, asked until there is an answer."""
    while True:
        version = world.draw_version(metadata.API_KEY, first=10)
        request = metadata.build(MetadataPlan(name))
        reply = yield client.call(request, version, timeout_ms=2_000)
        if isinstance(reply, Answer):
            return metadata.classify(reply.body).get(name)
        yield Pause(RETRY_MS)


def _use(world: World, client: Client, facts: TopicFacts) -> Script[None]:
    """Send a batch, and read the topic from the start."""
    random = world.random
    proc = world.history.new_process()
    partition = random.randrange(facts.partitions)
    batch = produce.sample(random, world, topic=facts, partition=partition, may_be_flawed=False)
    record_invocation(world, proc, batch)
    yield from send_once(world, client, proc, [batch], acks=-1)
    reader = Consumer(world, [facts], uses_session=False)
    for _ in range(random.randint(1, 3)):
        yield from reader.poll(reader.plan())
    reader.client.hang_up()


def _delete(world: World, client: Client, facts: TopicFacts) -> Script[None]:
    """Try until the topic is gone for certain; then nobody may know it any more."""
    may_be_gone = False
    while True:
        plan = delete_topic.sample(world.random, facts)
        version = world.draw_version(delete_topic.API_KEY)
        reply = yield client.call(delete_topic.build(plan), version, timeout_ms=6_000)
        if isinstance(reply, Answer):
            result = delete_topic.classify(reply.body)
            world.expect(
                "DeleteTopics",
                result.error_code,
                delete_topic.predict(world, reply.incarnation, may_be_gone=may_be_gone),
                about=facts.label,
            )
            is_gone = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)
            if result.error_code is ErrorCode.NONE or result.error_code in is_gone:
                break
        else:
            world.counted["DeleteTopics: no answer"] += 1
        may_be_gone = True
        yield Pause(RETRY_MS)
    seen = yield from see(world, client, facts.name)
    if seen is not None and seen.error is ErrorCode.NONE:
        _report(world, f"{facts.label} was deleted, and is still there as {seen.topic_id}")


def _report(world: World, wrong: str | None) -> None:
    if wrong is not None:
        world.findings.append(Finding("metadata", wrong, len(world.history.entries)))
