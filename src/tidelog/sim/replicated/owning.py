"""Somebody who makes topics that live for a while: made, written, read, grown and deleted, among
faults, with requests under way when they go.

Each has a name of its own. Nobody judges whether a deleted topic is known somewhere: nodes learn of
it one after the other. What was acknowledged while it lived is read as it was written.
"""

from __future__ import annotations

from random import Random

from tidelog.model.errors import ErrorCode
from tidelog.sim.actors.sending import record_completion, record_invocation
from tidelog.sim.client import Answer
from tidelog.sim.cluster import Cluster
from tidelog.sim.replicated.router import Router
from tidelog.sim.replicated.topics import create
from tidelog.sim.replicated.workload import Reader, send_once
from tidelog.sim.schedule import Pause, Script
from tidelog.sim.workload import produce
from tidelog.sim.workload.world import TopicFacts
from tidelog.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState

_TIMEOUT_MS = 1_000
_DELETE_VERSION = 6


def owner(
    cluster: Cluster, random: Random, configs: tuple[tuple[str, str], ...], *, pause_ms: float
) -> Script[None]:
    """One topic after another, until the world is over."""
    world, router = cluster.world, Router(cluster, "owner", random)
    number = 0
    while not world.is_over:
        number += 1
        name, partitions = f"owned{number}", random.randint(1, 2)
        facts = yield from create(cluster, router, name, partitions, replicas=3, configs=configs)
        reader = Reader(cluster, random, [facts])
        for _ in range(random.randint(0, 6)):
            yield from _use(cluster, random, router, facts, reader)
            yield Pause(random.expovariate(1.0 / pause_ms))
        if random.random() < 0.5:
            _send_and_forget(cluster, random, router, facts)
        yield from _delete(cluster, router, facts)
        reader.hang_up()
    router.hang_up()


def _use(
    cluster: Cluster, random: Random, router: Router, facts: TopicFacts, reader: Reader
) -> Script[None]:
    if random.random() < 0.6:
        yield from send_once(cluster.world, router, random, facts)
    else:
        yield from reader.poll(random.choice(list(reader.positions)), max_wait_ms=20)


def _send_and_forget(cluster: Cluster, random: Random, router: Router, facts: TopicFacts) -> None:
    """A batch under way when the topic is deleted."""
    world, proc = cluster.world, cluster.world.history.new_process()
    batch = produce.sample(random, world, topic=facts, partition=0, may_be_flawed=False)
    record_invocation(world, proc, batch)
    record_completion(world, proc, batch, "info", base_offset=-1, err="not waited for")
    request = produce.build([batch], acks=-1, timeout_ms=_TIMEOUT_MS)
    router.at(router.anybody()).call(request, 9, timeout_ms=_TIMEOUT_MS)


def _delete(cluster: Cluster, router: Router, facts: TopicFacts) -> Script[None]:
    """Until it is gone for certain: also when the world is over."""
    request = DeleteTopicsRequest(
        topics=[DeleteTopicState(name=facts.name)],
        topic_names=[facts.name],
        timeout_ms=_TIMEOUT_MS,
    )
    gone = (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)
    while True:
        reply = yield from router.ask_anybody(request, _DELETE_VERSION, timeout_ms=1_500)
        if isinstance(reply, Answer):
            error = reply.body.responses[0].error_code
            cluster.world.counted[f"DeleteTopics: {error.name}"] += 1
            if error in gone:
                return
        yield Pause(30.0)
