"""What clients of a cluster do: send, read, look up and commit, following leaders around."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from random import Random

from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NodeId
from tidelog.sim.actors.sending import record_completion, record_invocation
from tidelog.sim.checkers.finding import Finding
from tidelog.sim.client import Answer, Reply
from tidelog.sim.cluster import Cluster
from tidelog.sim.history import EntryType, Partition
from tidelog.sim.replicated.router import Router
from tidelog.sim.schedule import Pause, Promise, Script
from tidelog.sim.workload import fetch, init_producer_id, list_offsets, produce
from tidelog.sim.workload.fetch import FetchPlan
from tidelog.sim.workload.init_producer_id import IdentityPlan
from tidelog.sim.workload.produce import BatchOutcome, BatchPlan
from tidelog.sim.workload.world import TopicFacts, World
from tidelog.wire.errors import DecodeError

ALL = -1
_PRODUCE_VERSION = 9
_FETCH_VERSION = 12
_INIT_VERSION = 4
_LOOK_UP_VERSION = 7
_TIMEOUT_MS = 400
_BACKOFF_MS = 25.0
_MAX_WINDOW = 4

BROKEN_ORDER = (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID)
"""Never the answer to a producer that sends every batch until it is acknowledged by all: it would
mean that an earlier one is gone."""


@dataclass(slots=True)
class Sender:
    """An idempotent producer: per partition a window of batches, sent again until resolved."""

    world: World
    router: Router
    random: Random
    proc: int
    producer_id: int = -1
    producer_epoch: int = -1
    sequences: dict[Partition, int] = field(default_factory=dict)

    def identify(self) -> Script[bool]:
        request = init_producer_id.build(IdentityPlan())
        reply = yield from self.router.ask_anybody(request, _INIT_VERSION, timeout_ms=_TIMEOUT_MS)
        if not isinstance(reply, Answer):
            return False
        identity = init_producer_id.classify(reply.body)
        if identity.error is not ErrorCode.NONE:
            return False
        self.producer_id, self.producer_epoch = identity.producer_id, identity.producer_epoch
        self.world.history.add(
            self.proc, "ok", "init_pid", pid=identity.producer_id, pepoch=identity.producer_epoch
        )
        return True

    def window(self) -> list[BatchPlan]:
        """A few new batches for some partition."""
        facts, partition = self.world.draw_tp()
        return self.batches(facts, partition, count=self.random.randint(1, _MAX_WINDOW))

    def batches(self, facts: TopicFacts, partition: int, *, count: int) -> list[BatchPlan]:
        """New batches for the partition, invoked in the history."""
        world = self.world
        made: list[BatchPlan] = []
        for _ in range(count):
            plan = produce.sample(
                self.random, world, topic=facts, partition=partition, may_be_flawed=False
            )
            sequence = self.sequences.get(plan.tp, 0)
            plan = replace(
                plan,
                producer_id=self.producer_id,
                producer_epoch=self.producer_epoch,
                base_sequence=sequence,
            )
            self.sequences[plan.tp] = sequence + len(plan.records)
            record_invocation(world, self.proc, plan)
            made.append(plan)
        return made

    def deliver(self, batches: list[BatchPlan]) -> Script[None]:
        """Until every batch is acknowledged: in order, on one connection, as often as it takes."""
        while batches:
            facts, partition = batches[0].topic, batches[0].partition
            leader = yield from self.router.leader_of(facts, partition)
            promises = [_send(self.router, leader, batch) for batch in batches]
            replies: list[Reply] = []
            for promise in promises:
                replies.append((yield promise))
            is_refused = False
            for batch, reply in zip(list(batches), replies, strict=True):
                outcome = _outcome(self.world, batch, reply)
                if outcome is None:
                    break
                if outcome.type != "ok":
                    self._note_refusal(batch, outcome)
                    is_refused = True
                elif not is_refused:
                    record_completion(
                        self.world,
                        self.proc,
                        batch,
                        "ok",
                        base_offset=outcome.base_offset,
                        err=None,
                    )
                    batches.remove(batch)
            if batches:
                self.router.forget_leader(batches[0].tp)
                yield Pause(self.random.uniform(1.0, _BACKOFF_MS))

    def _note_refusal(self, batch: BatchPlan, outcome: BatchOutcome) -> None:
        """It was sent in order, so nobody may say otherwise; nor of one that is behind another that
        was refused for the moment."""
        if outcome.error in BROKEN_ORDER:
            text = f"{batch.tp} sequence {batch.base_sequence} was refused: {outcome.error.name}"
            self.world.findings.append(Finding("T2", text, len(self.world.history.entries)))


def _send(router: Router, leader: NodeId, batch: BatchPlan) -> Promise[Reply]:
    request = produce.build([batch], acks=ALL, timeout_ms=_TIMEOUT_MS)
    return router.at(leader).call(request, _PRODUCE_VERSION, timeout_ms=_TIMEOUT_MS + 200)


def _outcome(world: World, batch: BatchPlan, reply: Reply) -> BatchOutcome | None:
    """None: no answer came."""
    if not isinstance(reply, Answer):
        world.counted["Produce: no answer"] += 1
        return None
    outcome = produce.classify([batch], reply.body)[0]
    world.counted[f"Produce: {outcome.error.name}"] += 1
    return outcome


def sender(cluster: Cluster, random: Random, *, pause_ms: float) -> Script[None]:
    """Windows of batches, one after the other, until the world is over."""
    world = cluster.world
    one = Sender(world, Router(cluster, "sender", random), random, world.history.new_process())
    while not world.is_over:
        if one.producer_id < 0 and not (yield from one.identify()):
            yield Pause(_BACKOFF_MS)
            continue
        yield from one.deliver(one.window())
        yield Pause(random.expovariate(1.0 / pause_ms))
    one.router.hang_up()


def plain_sender(cluster: Cluster, random: Random, *, pause_ms: float) -> Script[None]:
    """One attempt per batch, whatever comes of it."""
    world, router = cluster.world, Router(cluster, "plain", random)
    while not world.is_over:
        facts, _ = world.draw_tp()
        yield from send_once(world, router, random, facts)
        yield Pause(random.expovariate(1.0 / pause_ms))
    router.hang_up()


def send_once(world: World, router: Router, random: Random, facts: TopicFacts) -> Script[None]:
    """One attempt at one batch."""
    partition = random.randrange(facts.partitions)
    batch = produce.sample(random, world, topic=facts, partition=partition, may_be_flawed=False)
    proc = world.history.new_process()
    record_invocation(world, proc, batch)
    leader = yield from router.leader_of(facts, partition)
    outcome = _outcome(world, batch, (yield _send(router, leader, batch)))
    type: EntryType = "info" if outcome is None else outcome.type
    if type != "ok":
        router.forget_leader(batch.tp)
    if outcome is None:
        record_completion(world, proc, batch, type, base_offset=-1, err="no answer")
        return
    err = None if type == "ok" else outcome.error.name
    record_completion(world, proc, batch, type, base_offset=outcome.base_offset, err=err)


class Reader:
    """Reads one partition at a time from its leader; used by the actor and at the end."""

    def __init__(self, cluster: Cluster, random: Random, topics: list[TopicFacts]) -> None:
        self._world = cluster.world
        self._random = random
        self._router = Router(cluster, "reader", random)
        self.topics = {facts.label: facts for facts in topics}
        self.positions = {tp: 0 for facts in topics for tp in facts.tps()}
        self.watermarks: dict[Partition, int] = {}
        self._procs = {tp: self._world.history.new_process() for tp in self.positions}

    def start_over(self, tp: Partition, position: int) -> None:
        self.positions[tp] = position
        self._procs[tp] = self._world.history.new_process()

    def hang_up(self) -> None:
        self._router.hang_up()

    def poll(self, tp: Partition, *, max_wait_ms: int) -> Script[bool]:
        """One fetch of one partition, recorded. Whether it was answered without an error."""
        world, facts = self._world, self.topics[tp[0]]
        position, proc = self.positions[tp], self._procs[tp]
        plan = FetchPlan(
            topics=self.topics,
            positions={tp: position},
            changed=(tp,),
            version=_FETCH_VERSION,
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            max_bytes=1 << 20,
            partition_max_bytes=self._random.choice((300, 3_000, 1 << 20)),
        )
        leader = yield from self._router.leader_of(facts, tp[1])
        plan = replace(plan, leader_epochs={tp: self._router.epoch_of(tp)})
        invoked = world.history.add(proc, "invoke", "poll", value={tp: position}).i
        timeout_ms = max_wait_ms + _TIMEOUT_MS
        reply = yield self._router.at(leader).call(
            fetch.build(plan), plan.version, timeout_ms=timeout_ms
        )
        if not isinstance(reply, Answer):
            world.counted["Fetch: no answer"] += 1
            world.history.add(proc, "info", "poll", err=reply.reason)
            self.start_over(tp, position)
            self._router.forget_leader(tp)
            return False
        try:
            share = fetch.classify(plan, reply.body, world).partitions[tp]
        except DecodeError as error:
            world.findings.append(Finding("S2", f"{tp}: {error}", invoked))
            return False
        world.counted[f"Fetch: {share.error.name}"] += 1
        if share.error is not ErrorCode.NONE:
            self._refused(tp, share.error, proc=proc, invoked=invoked)
            return False
        records = [
            [offset, value]
            for batch in share.batches
            for offset, value in batch.records
            if offset >= position
        ]
        digests = [(batch.header.base_offset, batch.digest) for batch in share.batches]
        world.history.add(proc, "ok", "poll", value={tp: records}, digests={tp: digests})
        self.watermarks[tp] = share.high_watermark
        if records:
            self.positions[tp] = records[-1][0] + 1
        return True

    def _refused(self, tp: Partition, error: ErrorCode, *, proc: int, invoked: int) -> None:
        history = self._world.history
        value = [self.positions[tp], -1, invoked]
        history.add(proc, "fail", "poll_error", tp=tp, value=value, err=error.name)
        history.add(proc, "fail", "poll", err=error.name)
        self._router.forget_leader(tp)
        if error is ErrorCode.OFFSET_OUT_OF_RANGE:
            self.start_over(tp, 0)


def reader(cluster: Cluster, random: Random, *, pause_ms: float) -> Script[None]:
    """Polls every partition in turn until the world is over; now and then reads some again."""
    world = cluster.world
    one = Reader(cluster, random, list(world.topics.values()))
    while not world.is_over:
        tp = random.choice(list(one.positions))
        yield from one.poll(tp, max_wait_ms=random.choice((0, 20, 100)))
        if random.random() < 0.03:
            one.start_over(tp, random.randint(0, one.positions[tp]))
        yield Pause(random.expovariate(1.0 / pause_ms))
    one.hang_up()


def prober(cluster: Cluster, random: Random, *, pause_ms: float) -> Script[None]:
    """Asks leaders where partitions begin and end."""
    world, router = cluster.world, Router(cluster, "prober", random)
    while not world.is_over:
        facts, partition = world.draw_tp()
        plan = list_offsets.sample(random, world, topic=facts, partition=partition)
        leader = yield from router.leader_of(facts, partition)
        proc = world.history.new_process()
        world.history.add(proc, "invoke", "list_offsets", tp=plan.tp, value=plan.asked)
        reply = yield router.at(leader).call(
            list_offsets.build(plan), _LOOK_UP_VERSION, timeout_ms=_TIMEOUT_MS
        )
        if isinstance(reply, Answer):
            outcome = list_offsets.classify(plan, reply.body)
            world.counted[f"ListOffsets: {outcome.error.name}"] += 1
            is_ok = outcome.type == "ok"
            world.history.add(
                proc,
                outcome.type,
                "list_offsets",
                tp=plan.tp,
                value=[outcome.offset, outcome.timestamp],
                err=None if is_ok else outcome.error.name,
            )
            if not is_ok:
                router.forget_leader(plan.tp)
        else:
            world.history.add(proc, "info", "list_offsets", tp=plan.tp, err=reply.reason)
            router.forget_leader(plan.tp)
        yield Pause(random.expovariate(1.0 / pause_ms))
    router.hang_up()
