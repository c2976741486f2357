"""Somebody who works through a topic that keeps only what a group has still to read.

It asks where its group is, reads on from there, and commits how far it has come. With
`cleanup.policy=consumed` the log may follow it, but never overtake it.
"""

from __future__ import annotations

from tidelog.model.errors import ErrorCode
from tidelog.sim.actors.committer import Commit, FetchOffset, find
from tidelog.sim.actors.keeper import read_page
from tidelog.sim.client import Client
from tidelog.sim.schedule import Pause, Script
from tidelog.sim.workload import offset_fetch
from tidelog.sim.workload.offset_commit import CommitPlan
from tidelog.sim.workload.offset_fetch import FetchOffsetPlan
from tidelog.sim.workload.world import TopicFacts, World

WORK_GROUPS = ("workers", "auditors")
_RETRY_MS = 20.0


def register(world: World, client: Client, group: str, topic: TopicFacts) -> Script[None]:
    """The group's first commit, at the begin of the log: from now on the log waits for it."""
    while True:
        is_found = yield from find(world, client, group)
        if is_found:
            plan = CommitPlan(group, topic, 0, 0)
            outcome = yield from Commit(world, client, plan, f="work_commit").end()
            if outcome is not None and outcome.type == "ok":
                return
        yield Pause(_RETRY_MS)


def worker(world: World, group: str, topic: TopicFacts, *, pause_ms: float) -> Script[None]:
    """Reads and commits until the world is over."""
    client = world.client("worker")
    is_found = False
    while not world.is_over:
        if not is_found:
            is_found = yield from find(world, client, group)
        else:
            yield from _work(world, client, group, topic)
        yield Pause(world.random.expovariate(1.0 / pause_ms))
    client.hang_up()


def _work(world: World, client: Client, group: str, topic: TopicFacts) -> Script[None]:
    version = world.draw_version(offset_fetch.API_KEY)
    plan = FetchOffsetPlan(group, topic, 0, version)
    position = yield from FetchOffset(world, client, plan, f="work_offset").end()
    if position is None or position < 0:
        return
    page = yield from read_page(world, client, topic, position=position)
    if page is None or page.error is not ErrorCode.NONE or page.end <= position:
        return
    done = world.random.randint(position + 1, page.end)
    yield from Commit(world, client, CommitPlan(group, topic, 0, done), f="work_commit").end()
