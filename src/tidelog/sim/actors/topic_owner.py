"""Somebody who creates a topic, uses it, deletes it, and creates it again under the same name.

The topic is the owner's alone, so what each step must give is known. Each life of the topic has its
own label in the history: what was in the old topic must never be seen in the new one.
"""

from __future__ import annotations

from uuid import UUID

from tidelog.model.errors import ErrorCode
from tidelog.sim.actors.consumer import Consumer
from tidelog.sim.actors.plain_producer import send_once
from tidelog.sim.actors.sending import record_completion, record_invocation
from tidelog.sim.checkers.finding import Finding
from tidelog.sim.client import Answer, Client, Lost, Reply
from tidelog.sim.schedule import Pause, Promise, Script
from tidelog.sim.workload import create_topic, delete_topic, fetch, metadata, produce
from tidelog.sim.workload.create_topic import CreatePlan
from tidelog.sim.workload.fetch import FetchPlan
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
        label = f"{name}#{life}"
        if world.creates_on_demand and random.random() < 0.3:
            facts = yield from _create_by_asking(world, client, name, label)
        else:
            plan = create_topic.sample(random, name=name, partitions=2, configs=configs)
            facts = yield from create(world, client, plan, label=label)
        world.owned[name] = facts
        for _ in range(random.randint(0, 4)):
            yield from _use(world, client, facts)
            yield Pause(random.expovariate(1.0 / pause_ms))
        bystander = _begin_to_use(world, facts) if random.random() < 0.5 else None
        yield from _delete(world, client, facts)
        if bystander is not None:
            yield from bystander
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


def _create_by_asking(world: World, client: Client, name: str, label: str) -> Script[TopicFacts]:
    """A topic comes into being when somebody asks for its metadata and allows it."""
    while True:
        version = world.draw_version(metadata.API_KEY, first=4)
        request = metadata.build(MetadataPlan(name, may_create=True))
        reply = yield client.call(request, version, timeout_ms=6_000)
        if isinstance(reply, Answer):
            seen = metadata.classify(reply.body).get(name)
            world.counted["Metadata that creates"] += 1
            if seen is not None and seen.error is ErrorCode.NONE:
                break
        yield Pause(RETRY_MS)
    found = yield from see(world, client, name)
    topic_id = UUID(int=0) if found is None else found.topic_id
    facts = TopicFacts(name, label, topic_id, partitions=1, flush_policy="ack")
    _report(world, metadata.predict(facts, found))
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
    yield from send_once(
        world, client, proc, [batch], acks=-1, first_version=produce.FIRST_VERSION_BY_ID
    )
    reader = Consumer(world, [facts], uses_session=False)
    for _ in range(random.randint(1, 3)):
        yield from reader.poll(reader.plan())
    reader.client.hang_up()


def _begin_to_use(world: World, facts: TopicFacts) -> Script[None]:
    """A send and a long poll, under way when the topic is deleted; both must be answered.

    By id: a request delayed until the name belongs to another topic must not reach that one.
    """
    client = world.client("bystander")
    proc = world.history.new_process()
    batch = produce.sample(world.random, world, topic=facts, partition=0, may_be_flawed=False)
    record_invocation(world, proc, batch)
    record_completion(world, proc, batch, "info", base_offset=-1, err="not waited for")
    request = produce.build([batch], acks=-1, timeout_ms=1_000)
    sent = client.call(request, produce.FIRST_VERSION_BY_ID, timeout_ms=5_000)
    plan = FetchPlan(
        topics={facts.label: facts},
        positions={(facts.label, 0): 1_000_000},
        changed=((facts.label, 0),),
        version=fetch.FIRST_VERSION_BY_ID,
        max_wait_ms=500,
        min_bytes=1,
        max_bytes=1_000,
        partition_max_bytes=1_000,
    )
    polled = client.call(fetch.build(plan), plan.version, timeout_ms=5_000)
    return _wait_for(client, [sent, polled])


def _wait_for(client: Client, promises: list[Promise[Reply]]) -> Script[None]:
    for promise in promises:
        reply = yield promise
        assert isinstance(reply, Answer | Lost)
    client.hang_up()


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
