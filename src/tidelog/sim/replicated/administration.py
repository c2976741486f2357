"""What administrators do to a cluster while it is used and while it suffers.

They move replicas, call for preferred leaders, change settings, add partitions, delete records, and
make topics that live for a while. Nobody waits for the outcome of one thing before the next is
asked for, and many a request comes at a bad time: what counts is that no promise is broken by it,
and that all of it has come to an end when the faults have.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

from tidelog.model.errors import ErrorCode
from tidelog.sim.client import Answer
from tidelog.sim.cluster import Cluster
from tidelog.sim.replicated.router import Router
from tidelog.sim.schedule import Pause, Script
from tidelog.sim.workload.world import TopicFacts
from tidelog.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from tidelog.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from tidelog.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from tidelog.wire.messages.elect_leaders import ElectLeadersRequest
from tidelog.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

_TIMEOUT_MS = 500
_MOST_PARTITIONS = 4
_TOPIC = 2
_SET = 0
_PREFERRED = 0


class Administrator:
    """One of them, with one request at a time."""

    def __init__(self, cluster: Cluster, random: Random, *, least_in_sync: int) -> None:
        self._cluster = cluster
        self._world = cluster.world
        self._random = random
        self._least_in_sync = least_in_sync
        self._router = Router(cluster, "administrator", random)

    def act(self) -> Script[None]:
        luck = self._random.random()
        if luck < 0.4:
            yield from self._reassign()
        elif luck < 0.6:
            request = ElectLeadersRequest(
                election_type=_PREFERRED, topic_partitions=None, timeout_ms=_TIMEOUT_MS
            )
            yield from self._ask(request, 2)
        elif luck < 0.85:
            yield from self._configure()
        else:
            yield from self._grow()

    def hang_up(self) -> None:
        self._router.hang_up()

    def _ask(self, request: Any, version: int) -> Script[Any | None]:
        """The answer's body; None if there was none."""
        reply = yield from self._router.ask_anybody(request, version, timeout_ms=_TIMEOUT_MS + 200)
        name = type(request).__name__.removesuffix("Request")
        self._world.counted[f"{name}: {'' if isinstance(reply, Answer) else 'not '}answered"] += 1
        return reply.body if isinstance(reply, Answer) else None

    def _reassign(self) -> Script[None]:
        """To other nodes, to fewer or more of them, in another order; or back, or away and back
        again before anybody has forgotten it."""
        random, (facts, number) = self._random, self._draw_tp()
        nodes = [int(node_id) for node_id in self._cluster.hosts]
        replicas = random.sample(nodes, 3)
        luck = random.random()
        if luck < 0.15:
            yield from self._move(facts, number, None)
        elif luck < 0.5:
            yield from self._move(facts, number, replicas)
            yield Pause(random.uniform(0.0, 200.0))
            yield from self._move(facts, number, replicas[:2])
            yield Pause(random.uniform(0.0, 40.0))
            yield from self._move(facts, number, replicas)
        else:
            yield from self._move(facts, number, random.sample(nodes, random.choice((2, 3, 3))))

    def _move(self, facts: TopicFacts, number: int, replicas: list[int] | None) -> Script[None]:
        partition = ReassignablePartition(partition_index=number, replicas=replicas)
        topic = ReassignableTopic(name=facts.name, partitions=[partition])
        request = AlterPartitionReassignmentsRequest(topics=[topic], timeout_ms=_TIMEOUT_MS)
        yield from self._ask(request, 1)

    def _configure(self) -> Script[None]:
        """What a log looks like, and how many must be in sync."""
        random, (facts, _) = self._random, self._draw_tp()
        name, value = random.choice(
            (
                ("segment.bytes", random.choice(("1024", "4096", "16384"))),
                ("index.interval.bytes", random.choice(("0", "200", "4096"))),
                ("min.insync.replicas", str(max(self._least_in_sync, random.choice((1, 2))))),
            )
        )
        resource = AlterConfigsResource(
            resource_type=_TOPIC,
            resource_name=facts.name,
            configs=[AlterableConfig(name=name, config_operation=_SET, value=value)],
        )
        yield from self._ask(IncrementalAlterConfigsRequest(resources=[resource]), 1)

    def _grow(self) -> Script[None]:
        """One more partition, which counts from the moment that it was promised."""
        facts, _ = self._draw_tp()
        count = facts.partitions + 1
        if count > _MOST_PARTITIONS:
            return
        topic = CreatePartitionsTopic(name=facts.name, count=count, assignments=None)
        request = CreatePartitionsRequest(topics=[topic], timeout_ms=_TIMEOUT_MS)
        body = yield from self._ask(request, 3)
        if body is not None and body.results[0].error_code is ErrorCode.NONE:
            self._world.topics[facts.label] = replace(facts, partitions=count)

    def _draw_tp(self) -> tuple[TopicFacts, int]:
        facts = self._random.choice(list(self._world.topics.values()))
        return facts, self._random.randrange(facts.partitions)


def administrator(
    cluster: Cluster, random: Random, *, least_in_sync: int, pause_ms: float
) -> Script[None]:
    """One thing after the other until the world is over; but never are fewer than `least_in_sync`
    to be enough."""
    one = Administrator(cluster, random, least_in_sync=least_in_sync)
    while not cluster.world.is_over:
        yield from one.act()
        yield Pause(random.expovariate(1.0 / pause_ms))
    one.hang_up()


def trimmer(
    cluster: Cluster, random: Random, facts: TopicFacts, *, pause_ms: float
) -> Script[None]:
    """Deletes the begin of a log again and again: for good, once it is acknowledged (C21)."""
    world, router, tp = cluster.world, Router(cluster, "trimmer", random), (facts.label, 0)
    highest = 0
    while not world.is_over:
        yield Pause(random.expovariate(1.0 / pause_ms))
        offset = random.choice((-1, highest + random.randint(0, 4)))
        partition = DeleteRecordsPartition(partition_index=0, offset=offset)
        topic = DeleteRecordsTopic(name=facts.name, partitions=[partition])
        request = DeleteRecordsRequest(topics=[topic], timeout_ms=_TIMEOUT_MS)
        leader = yield from router.leader_of(facts, 0)
        reply = yield router.at(leader).call(request, 2, timeout_ms=_TIMEOUT_MS + 200)
        result = reply.body.topics[0].partitions[0] if isinstance(reply, Answer) else None
        if result is None or result.error_code is not ErrorCode.NONE:
            router.forget_leader(tp)
            continue
        world.counted["DeleteRecords: NONE"] += 1
        highest = max(highest, result.low_watermark)
        world.history.add(0, "info", "delete_records", tp=tp, value=result.low_watermark)
    router.hang_up()
