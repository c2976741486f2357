"""A producer with an identity: the same batch, with the same sequence number, until it is resolved.

It works in rounds, as a client with five requests in flight does: unresolved batches are sent again
in order, new ones after them, all on one connection without waiting; then every answer is taken.
What is still unresolved opens the next round, however often the node was restarted between.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from tidelog.model.errors import ErrorCode
from tidelog.sim.actors.plain_producer import draw_version
from tidelog.sim.actors.sending import check_late_ack, record_completion, record_invocation
from tidelog.sim.client import Answer, Client, Reply
from tidelog.sim.schedule import Pause, Promise, Script
from tidelog.sim.workload import init_producer_id, produce
from tidelog.sim.workload.produce import BatchOutcome, BatchPlan
from tidelog.sim.workload.world import World

MAX_IN_FLIGHT = 5
MIN_BACKOFF_MS = 5.0
MAX_BACKOFF_MS = 1_000.0
_SEQUENCES = 2**31


@dataclass(slots=True)
class _Unresolved:
    """A batch on its way. `is_uncertain`: an attempt was lost, so it may be in the log already.
    `was_refused`: the disk would not take it once."""

    batch: BatchPlan
    is_uncertain: bool = False
    was_refused: bool = False


@dataclass(slots=True)
class _Producer:
    world: World
    client: Client
    proc: int
    producer_id: int = -1
    producer_epoch: int = -1
    sequences: dict[tuple[str, int], int] = field(default_factory=dict)
    window: list[_Unresolved] = field(default_factory=list)
    first_sequence: int = 0
    is_known: bool = False

    def take_identity(self, producer_id: int, producer_epoch: int) -> None:
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.is_known = True
        self.sequences = {}
        # Near the end of the range now and then, so that the wrap-around is met.
        is_near_wrap = self.world.random.random() < 0.1
        self.first_sequence = _SEQUENCES - 3 if is_near_wrap else 0

    def add_batch(self) -> None:
        """A new batch at the end of the window, invoked in the history."""
        world = self.world
        topic, partition = world.draw_tp()
        plan = produce.sample(
            world.random, world, topic=topic, partition=partition, may_be_flawed=False
        )
        sequence = self.sequences.get(plan.tp, self.first_sequence)
        plan = replace(
            plan,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            base_sequence=sequence,
        )
        self.sequences[plan.tp] = (sequence + len(plan.records)) % _SEQUENCES
        record_invocation(world, self.proc, plan)
        self.window.append(_Unresolved(plan))

    def resolve(self, entry: _Unresolved, outcome: BatchOutcome) -> None:
        err = None if outcome.type == "ok" else outcome.error.name
        type = "info" if outcome.type == "fail" and entry.is_uncertain else outcome.type
        record_completion(
            self.world, self.proc, entry.batch, type, base_offset=outcome.base_offset, err=err
        )
        self.window.remove(entry)

    def give_up(self) -> None:
        """The producer dies with batches on their way: nobody will ever know."""
        for entry in self.window:
            record_completion(
                self.world, self.proc, entry.batch, "info", base_offset=-1, err="gave up"
            )
        self.window = []
        self.is_known = False
        self.proc = self.world.history.new_process()


def idempotent_producer(world: World, *, pause_ms: float) -> Script[None]:
    """Sends until the world is over and everything it sent is resolved."""
    random = world.random
    client = world.client("idempotent")
    producer = _Producer(world, client, world.history.new_process())
    backoff_ms = MIN_BACKOFF_MS
    while not world.is_over or producer.window:
        if not producer.is_known:
            yield from _take_identity(producer)
            continue
        if not world.is_over:
            for _ in range(random.randint(0 if producer.window else 1, 2)):
                if len(producer.window) < MAX_IN_FLIGHT:
                    producer.add_batch()
        unresolved = len(producer.window)
        yield from _round(producer)
        is_stuck = len(producer.window) == unresolved
        backoff_ms = min(2 * backoff_ms, MAX_BACKOFF_MS) if is_stuck else MIN_BACKOFF_MS
        if random.random() < 0.01 and not world.is_over:
            client.hang_up()
            producer.give_up()
        yield Pause(backoff_ms if is_stuck else random.expovariate(1.0 / pause_ms))
    client.hang_up()


def _take_identity(producer: _Producer) -> Script[None]:
    world = producer.world
    history = world.history
    plan = init_producer_id.sample(
        world.random,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
    )
    version = world.draw_version(init_producer_id.API_KEY, last=5)
    history.add(producer.proc, "invoke", "init_pid")
    reply = yield producer.client.call(init_producer_id.build(plan), version, timeout_ms=5_000)
    if not isinstance(reply, Answer):
        history.add(producer.proc, "info", "init_pid", err=reply.reason)
        producer.proc = history.new_process()
        yield Pause(50.0)
        return
    identity = init_producer_id.classify(reply.body)
    world.expect(
        "InitProducerId",
        identity.error,
        init_producer_id.predict(world, reply.incarnation),
        about="",
    )
    if identity.error is not ErrorCode.NONE:
        history.add(producer.proc, "fail", "init_pid", err=identity.error.name)
        yield Pause(50.0)
        return
    history.add(
        producer.proc,
        "ok",
        "init_pid",
        pid=identity.producer_id,
        pepoch=identity.producer_epoch,
    )
    producer.take_identity(identity.producer_id, identity.producer_epoch)


def _round(producer: _Producer) -> Script[None]:
    """Send the whole window in order, then take every answer."""
    world = producer.world
    calls: list[tuple[_Unresolved, Promise[Reply]]] = []
    for entry in producer.window:
        request = produce.build(
            [entry.batch], acks=-1, timeout_ms=world.random.choice((500, 5_000))
        )
        version = draw_version(world, [entry.batch])
        calls.append((entry, producer.client.call(request, version, timeout_ms=6_000)))
    for entry, promise in calls:
        reply = yield promise
        _take_reply(producer, entry, reply)
        if not producer.is_known:
            return
    if producer.window:
        world.counted["idempotent retry"] += len(producer.window)


def _take_reply(producer: _Producer, entry: _Unresolved, reply: Reply) -> None:
    world = producer.world
    if not isinstance(reply, Answer):
        entry.is_uncertain = True
        return
    outcome = produce.classify([entry.batch], reply.body)[0]
    check_late_ack(world, entry.batch, outcome, reply)
    world.expect(
        "Produce (idempotent)",
        outcome.error,
        _predict(producer, entry, reply.incarnation),
        about=f"to {entry.batch.tp} from sequence {entry.batch.base_sequence}",
    )
    if outcome.error is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
        if _is_first(producer, entry):
            producer.resolve(entry, outcome)
            producer.give_up()
    elif outcome.error is ErrorCode.DUPLICATE_SEQUENCE_NUMBER or outcome.type == "ok":
        producer.resolve(entry, outcome)
    else:
        entry.is_uncertain = entry.is_uncertain or outcome.type == "info"
        if outcome.error is ErrorCode.KAFKA_STORAGE_ERROR:
            entry.was_refused = True


def _predict(producer: _Producer, entry: _Unresolved, life: int) -> tuple[ErrorCode, ...]:
    """A gap in the sequence is explained by a batch before it that was not taken, or by records
    that the partition may rightly have lost.

    A producer's first batch is special: as in Kafka, a partition that does not know the producer
    takes any first sequence number. So when a full disk refuses the first batch and has room for
    the one right behind it, the first can never be taken again.
    """
    allowed = produce.predict(entry.batch, producer.world, life)
    is_first_ever = entry.batch.base_sequence == producer.first_sequence
    may_have_gap = (
        not _is_first(producer, entry)
        or entry.batch.topic.label in producer.world.has_lost
        or (is_first_ever and entry.was_refused)
    )
    if may_have_gap:
        allowed = (*allowed, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    return allowed


def _is_first(producer: _Producer, entry: _Unresolved) -> bool:
    """No earlier batch of the partition is unresolved."""
    for other in producer.window:
        if other is entry:
            return True
        if other.batch.tp == entry.batch.tp:
            return False
    return True
