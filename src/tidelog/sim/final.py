"""After everything is healed: what must work now, and the last look at what is there.

Each partition must take a record, be readable from start to end, and read the same again after one
more restart (C21, C4).
"""

from __future__ import annotations

from tidelog.model.errors import ErrorCode
from tidelog.sim.actors.committer import Commit, FetchOffset, find
from tidelog.sim.actors.consumer import Consumer
from tidelog.sim.actors.keeper import put, scan
from tidelog.sim.actors.sending import record_completion, record_invocation
from tidelog.sim.checkers.finding import Finding
from tidelog.sim.client import Answer, Client
from tidelog.sim.history import EntryType
from tidelog.sim.schedule import Pause, Script
from tidelog.sim.workload import fetch, offset_commit, produce
from tidelog.sim.workload.fetch import FetchPlan
from tidelog.sim.workload.offset_fetch import FetchOffsetPlan
from tidelog.sim.workload.world import TopicFacts, World

_MAX_IDLE_POLLS = 200
"""A reader that has got nowhere for so long will never get to the end."""


_MAX_SCANS = 5
"""So often retention may get in a reader's way, and not more."""


def write_everywhere(world: World) -> Script[None]:
    """One batch to each partition, which must be acknowledged."""
    client = world.client("final")
    for facts in list(world.topics.values()):
        for partition in range(facts.partitions):
            proc = world.history.new_process()
            batch = produce.sample(
                world.random, world, topic=facts, partition=partition, may_be_flawed=False
            )
            record_invocation(world, proc, batch)
            request = produce.build([batch], acks=-1, timeout_ms=10_000)
            reply = yield client.call(request, 9, timeout_ms=11_000)
            error, offset = "no answer", -1
            if isinstance(reply, Answer):
                outcome = produce.classify([batch], reply.body)[0]
                error, offset = outcome.error.name, outcome.base_offset
            is_ok = error == ErrorCode.NONE.name
            err = None if is_ok else error
            type: EntryType = "ok" if is_ok else "info"
            record_completion(world, proc, batch, type, base_offset=offset, err=err)
            if not is_ok:
                text = f"{batch.tp} took no record after everything was healed: {error}"
                world.findings.append(Finding("liveness", text))
    client.hang_up()


def read_everything(world: World) -> Script[None]:
    """Every partition from start to end, past known damage."""
    for facts in list(world.topics.values()):
        yield from _read_topic(world, facts)
    client = world.client("final")
    for facts in world.cleaned.values():
        yield from _keep(world, client, facts)
    client.hang_up()


def _keep(world: World, client: Client, facts: TopicFacts) -> Script[None]:
    """A cleaned topic takes a record and is read whole, if not at the first attempt: its start may
    move away under the reader."""
    is_put = yield from put(world, client, facts)
    is_read = False
    for _ in range(_MAX_SCANS):
        if not is_read:
            is_read = yield from scan(world, client, facts)
    if not (is_put and is_read):
        text = f"{facts.label} after everything was healed: written {is_put}, read {is_read}"
        world.findings.append(Finding("liveness", text))


def _read_topic(world: World, facts: TopicFacts) -> Script[None]:
    reader = Consumer(world, [facts], uses_session=False)
    idle_polls = 0
    while idle_polls < _MAX_IDLE_POLLS:
        positions = dict(reader.positions)
        yield from reader.poll(_whole(reader))
        is_at_end = all(
            reader.positions[tp] >= reader.watermarks.get(tp, reader.positions[tp] + 1)
            for tp in reader.positions
        )
        if is_at_end:
            break
        idle_polls += 1
        if any(reader.positions[tp] > at for tp, at in positions.items()):
            idle_polls = 0
        yield Pause(0.0 if idle_polls == 0 else 20.0)
    else:
        text = f"{facts.label} could not be read to its end: stuck at {reader.positions}"
        world.findings.append(Finding("liveness", text))
    reader.client.hang_up()


def _whole(reader: Consumer) -> FetchPlan:
    """As much as there is, without waiting."""
    return FetchPlan(
        topics=reader.topics,
        positions=dict(reader.positions),
        changed=tuple(reader.positions),
        version=min(reader.version, fetch.FIRST_VERSION_BY_ID - 1),
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=1 << 24,
        partition_max_bytes=1 << 24,
    )


def commit_everywhere(world: World) -> Script[None]:
    """Each group must take a commit and tell it, through somebody who is no member of it."""
    yield from fetch_offsets(world)
    client = world.client("final")
    for group in world.groups:
        plan = offset_commit.sample(world.random, world, group=group)
        outcome = yield from Commit(world, client, plan).end()
        if outcome is None or outcome.type != "ok":
            text = f"{group} could not commit after everything was healed: {outcome}"
            world.findings.append(Finding("liveness", text))
    client.hang_up()


def fetch_offsets(world: World) -> Script[None]:
    """What every group has committed, as far as it will tell; the checkers compare (C17)."""
    client = world.client("final")
    for group in world.groups:
        is_found = yield from find(world, client, group)
        for facts in world.topics.values():
            for partition in range(facts.partitions):
                plan = FetchOffsetPlan(group, facts, partition, version=8)
                offset = yield from FetchOffset(world, client, plan).end()
                if offset is None or not is_found:
                    text = f"{group} is not told its offset of {plan.tp} after all was healed"
                    world.findings.append(Finding("liveness", text))
    client.hang_up()


def check_reports(world: World) -> list[Finding]:
    """S3: damage that readers have met has been reported to the operator."""
    findings = []
    for label, partition in world.damaged.ranges:
        name = f"{world.topics[label].name}-{partition}:"
        reports = [report for report in world.host.reports if name in report]
        if not any("quarantined" in report for report in reports):
            findings.append(Finding("S3", f"{name} is damaged, and no report says so"))
    return findings


def check_leftovers(world: World) -> list[Finding]:
    """Liveness: when every client has hung up, the node waits for nothing and nobody."""
    life = world.host.life
    if life is None:
        return [Finding("liveness", "the node is down at the end")]
    described = life.node.describe()
    return [
        Finding("liveness", f"{what} are left with no client: {described[what]}")
        for what in ("pending", "connections")
        if described[what]
    ]
