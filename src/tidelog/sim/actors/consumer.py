"""A consumer with assigned partitions: polls, goes on where it was, now and then starts over."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from tidelog.model.errors import ErrorCode
from tidelog.sim.checkers.finding import Finding
from tidelog.sim.client import Answer, Client
from tidelog.sim.history import Partition
from tidelog.sim.schedule import Pause, Script
from tidelog.sim.workload import fetch
from tidelog.sim.workload.fetch import FetchPlan, Polled, PolledPartition
from tidelog.sim.workload.world import TopicFacts, World
from tidelog.wire.errors import DecodeError


@dataclass(slots=True)
class Session:
    """A fetch session as the client keeps it (KIP-227): what the node was last told."""

    session_id: int = 0
    epoch: int = 0
    told: dict[Partition, int] = field(default_factory=dict)

    def reset(self) -> None:
        self.session_id = 0
        self.epoch = 0
        self.told = {}


class Consumer:
    """Positions, and the polls that move them. Used by the actor and by the final reads."""

    def __init__(self, world: World, topics: list[TopicFacts], *, uses_session: bool) -> None:
        self.world = world
        self.topics = {facts.label: facts for facts in topics}
        self.positions = {tp: 0 for facts in topics for tp in facts.tps()}
        self.client: Client = world.client("consumer")
        self.proc = world.history.new_process()
        self.session = Session() if uses_session else None
        self.version = world.draw_version(
            fetch.API_KEY, first=fetch.FIRST_SESSION_VERSION if uses_session else 0
        )
        self.watermarks: dict[Partition, int] = {}
        self.left_out: list[Partition] = []

    def assign(self, positions: dict[Partition, int]) -> None:
        """A new start: a new process in the history."""
        self.positions.update(positions)
        self.proc = self.world.history.new_process()

    def poll(self, plan: FetchPlan) -> Script[bool]:
        """One fetch, recorded. Whether records came."""
        world = self.world
        invoked = world.history.add(self.proc, "invoke", "poll", value=dict(plan.positions)).i
        timeout_ms = plan.max_wait_ms + 2_000
        reply = yield self.client.call(fetch.build(plan), plan.version, timeout_ms=timeout_ms)
        if not isinstance(reply, Answer):
            self._lose(reply.reason)
            return False
        try:
            polled = fetch.classify(plan, reply.body, world)
        except DecodeError as error:
            world.findings.append(Finding("S2", f"{plan.positions}: {error}", invoked))
            self._lose("unsound batch")
            return False
        if polled.error is not ErrorCode.NONE:
            self._refused(polled.error)
            return False
        self._continue_session(plan, polled)
        return self._take(plan, polled, life=reply.incarnation, invoked=invoked)

    def plan(self) -> FetchPlan:
        """What to ask for next."""
        plan = fetch.sample(
            self.world.random,
            self.world,
            positions={tp: at for tp, at in self.positions.items() if tp not in self.left_out},
            topics=self.topics,
            version=self.version,
        )
        session = self.session
        if session is None:
            return plan
        changed = tuple(tp for tp, at in plan.positions.items() if session.told.get(tp) != at)
        return replace(
            plan,
            changed=changed,
            forgotten=tuple(tp for tp in session.told if tp in self.left_out),
            session_id=session.session_id,
            session_epoch=session.epoch,
        )

    def _take(self, plan: FetchPlan, polled: Polled, *, life: int, invoked: int) -> bool:
        world = self.world
        values: dict[Partition, list[list[int]]] = {}
        digests: dict[Partition, list[tuple[int, int]]] = {}
        errors: list[tuple[Partition, PolledPartition]] = []
        for tp, position in plan.positions.items():
            share = polled.partitions.get(tp, PolledPartition())
            world.expect("Fetch", share.error, fetch.predict(tp, world, life), about=f"of {tp}")
            if share.error is not ErrorCode.NONE:
                errors.append((tp, share))
                continue
            if tp in polled.partitions:
                self.watermarks[tp] = share.high_watermark
            values[tp] = [
                [offset, value]
                for batch in share.batches
                for offset, value in batch.records
                if offset >= position
            ]
            digests[tp] = [(batch.header.base_offset, batch.digest) for batch in share.batches]
            if values[tp]:
                self.positions[tp] = values[tp][-1][0] + 1
        world.history.add(self.proc, "ok", "poll", value=values, digests=digests)
        for tp, share in errors:
            self._note_error(tp, share, position=plan.positions[tp], invoked=invoked)
        return any(values.values())

    def _note_error(
        self, tp: Partition, share: PolledPartition, *, position: int, invoked: int
    ) -> None:
        """Record it; then start over, or step over damage, as a person would tell a client to."""
        world = self.world
        world.history.add(
            self.proc,
            "fail",
            "poll_error",
            tp=tp,
            value=[position, share.high_watermark, invoked],
            err=share.error.name,
        )
        if share.error is ErrorCode.OFFSET_OUT_OF_RANGE:
            self.assign({tp: 0})
            return
        sound = world.damaged.end_of(tp, position)
        if sound is not None:
            world.counted["damage met by a reader"] += 1
            self.assign({tp: sound})

    def _continue_session(self, plan: FetchPlan, polled: Polled) -> None:
        session = self.session
        if session is None:
            return
        if polled.session_id == 0:
            session.reset()
            return
        session.session_id = polled.session_id
        session.epoch += 1
        session.told.update({tp: plan.positions[tp] for tp in plan.changed})
        for tp in plan.forgotten:
            del session.told[tp]

    def _refused(self, error: ErrorCode) -> None:
        """The session is gone (the node was restarted, or had no room): begin a new one."""
        world = self.world
        allowed = (
            ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
            ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        )
        world.expect("Fetch", error, allowed if self.session else (), about="session")
        world.history.add(self.proc, "fail", "poll", err=error.name)
        if self.session is not None:
            self.session.reset()

    def _lose(self, reason: str) -> None:
        self.world.counted["Fetch: no answer"] += 1
        self.world.history.add(self.proc, "info", "poll", err=reason)
        self.proc = self.world.history.new_process()
        if self.session is not None:
            self.session.reset()


def consumer(world: World, *, pause_ms: float) -> Script[None]:
    """Reads all partitions of some topics until the world is over."""
    random = world.random
    names = [name for name in world.topics if random.random() < 0.7] or list(world.topics)
    reader = Consumer(
        world, [world.topics[name] for name in names], uses_session=random.random() < 0.5
    )
    while not world.is_over:
        yield from reader.poll(reader.plan())
        if random.random() < 0.03:
            reader.assign({tp: random.randint(0, at) for tp, at in reader.positions.items()})
        if random.random() < 0.02:
            reader.client.hang_up()
        if random.random() < 0.05:
            reader.left_out = [tp for tp in reader.positions if random.random() < 0.3]
        yield Pause(random.expovariate(1.0 / pause_ms))
    reader.client.hang_up()
