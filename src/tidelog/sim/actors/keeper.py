"""Somebody who keeps a table in a topic that is cleaned: writes keys, and reads the whole of it."""

from __future__ import annotations

from tidelog.model.errors import ErrorCode
from tidelog.sim.checkers.finding import Finding
from tidelog.sim.checkers.view import EARLIEST
from tidelog.sim.client import Answer, Client
from tidelog.sim.schedule import Pause, Script
from tidelog.sim.workload import fetch, keyed, list_offsets
from tidelog.sim.workload.fetch import FetchPlan
from tidelog.sim.workload.list_offsets import LookupPlan
from tidelog.sim.workload.outcome import type_of
from tidelog.sim.workload.world import TopicFacts, World
from tidelog.wire.errors import DecodeError

_TIMEOUT_MS = 2_000
_PRODUCE_VERSION = 9
_FETCH_VERSIONS = (5, 12)
_MAX_PAGES = 200


def keeper(world: World, topic: TopicFacts, *, pause_ms: float) -> Script[None]:
    """Writes, and now and then reads, until the world is over."""
    client = world.client("keeper")
    while not world.is_over:
        if world.random.random() < 0.8:
            yield from put(world, client, topic)
        else:
            yield from scan(world, client, topic)
        yield Pause(world.random.expovariate(1.0 / pause_ms))
    client.hang_up()


def start_watcher(world: World, topic: TopicFacts, *, pause_ms: float) -> Script[None]:
    """Asks where the log starts, again and again: a start that was told and then taken back by a
    crash is there for moments only."""
    client = world.client("watcher")
    while not world.is_over:
        yield from _find_start(world, client, topic)
        yield Pause(world.random.expovariate(1.0 / pause_ms))
    client.hang_up()


def put(world: World, client: Client, topic: TopicFacts) -> Script[bool]:
    """One batch of records; whether it was acknowledged."""
    history, proc, tp = world.history, world.history.new_process(), (topic.label, 0)
    puts = keyed.sample(world.random, world)
    history.add(proc, "invoke", "put", tp=tp, value=[one.to_history() for one in puts])
    request = keyed.build(topic, puts)
    reply = yield client.call(request, _PRODUCE_VERSION, timeout_ms=_TIMEOUT_MS)
    if not isinstance(reply, Answer):
        history.add(proc, "info", "put", tp=tp, err=reply.reason)
        return False
    answer = reply.body.responses[0].partition_responses[0]
    error = answer.error_code
    allowed = (ErrorCode.REQUEST_TIMED_OUT, *world.write_excuses(reply.incarnation))
    world.expect("Produce (keyed)", error, allowed, about=f"to {tp}")
    is_ok = error is ErrorCode.NONE
    history.add(
        proc,
        type_of(error),
        "put",
        tp=tp,
        value=answer.base_offset if is_ok else None,
        err=None if is_ok else error.name,
    )
    return is_ok


def scan(world: World, client: Client, topic: TopicFacts) -> Script[bool]:
    """The log from its start to its end, page by page; whether the end was reached."""
    position = yield from _find_start(world, client, topic)
    for _ in range(_MAX_PAGES):
        if position is None:
            return False
        page = yield from read_page(world, client, topic, position=position)
        if page is None or page.error is not ErrorCode.NONE:
            return False
        if page.end >= page.high_watermark:
            return True
        position = page.end if page.end > position else None
    return False


def _find_start(world: World, client: Client, topic: TopicFacts) -> Script[int | None]:
    history, proc, tp = world.history, world.history.new_process(), (topic.label, 0)
    plan = LookupPlan(topic, 0, EARLIEST)
    history.add(proc, "invoke", "find_start", tp=tp)
    version = world.draw_version(list_offsets.API_KEY, first=1)
    reply = yield client.call(list_offsets.build(plan), version, timeout_ms=_TIMEOUT_MS)
    if not isinstance(reply, Answer):
        history.add(proc, "info", "find_start", tp=tp, err=reply.reason)
        return None
    outcome = list_offsets.classify(plan, reply.body)
    allowed = world.read_excuses(reply.incarnation, tp)
    world.expect("ListOffsets (keyed)", outcome.error, allowed, about=f"of {tp}")
    is_ok = outcome.type == "ok"
    history.add(proc, outcome.type, "find_start", tp=tp, value=outcome.offset if is_ok else None)
    return outcome.offset if is_ok else None


def read_page(
    world: World, client: Client, topic: TopicFacts, *, position: int
) -> Script[keyed.Page | None]:
    """One answer to a fetch; None if there was none that can be read."""
    history, proc, tp = world.history, world.history.new_process(), (topic.label, 0)
    plan = FetchPlan(
        topics={topic.label: topic},
        positions={tp: position},
        changed=(tp,),
        version=world.draw_version(1, first=_FETCH_VERSIONS[0], last=_FETCH_VERSIONS[1]),
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=1 << 24,
        partition_max_bytes=1 << 24,
    )
    entry = history.add(proc, "invoke", "scan", tp=tp, value=position)
    reply = yield client.call(fetch.build(plan), plan.version, timeout_ms=_TIMEOUT_MS)
    if not isinstance(reply, Answer):
        history.add(proc, "info", "scan", tp=tp, err=reply.reason)
        return None
    try:
        page = keyed.read(reply.body, position)
    except DecodeError as error:
        world.findings.append(Finding("S2", f"{tp} from {position}: {error}", entry.i))
        return None
    allowed = (ErrorCode.OFFSET_OUT_OF_RANGE, *world.read_excuses(reply.incarnation, tp))
    world.expect("Fetch (keyed)", page.error, allowed, about=f"of {tp} from {position}")
    if page.error is ErrorCode.NONE:
        value = [page.log_start, page.end, page.records]
        history.add(proc, "ok", "scan", tp=tp, value=value)
    else:
        history.add(proc, "fail", "scan", tp=tp, err=page.error.name)
    return page
