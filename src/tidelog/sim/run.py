"""One seed from start to verdict.

Phase 1, chaos: actors work, the nemesis breaks things, every step of the node is validated. Phase
2, heal: nothing fails any more; whatever was begun must come to an end within bounded virtual time,
every partition must be writable and readable to its end, and read the same after a restart. Then
the checkers judge the history and the disk.
"""

from __future__ import annotations

import gc
import traceback
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from struct import error as StructError

from tidelog.broker.node import Node
from tidelog.log.disk import DiskError
from tidelog.model.safeguards import ALL_SAFEGUARDS, Safeguard
from tidelog.sim import final
from tidelog.sim.actors.committer import committer
from tidelog.sim.actors.configurer import configurer
from tidelog.sim.actors.consumer import consumer
from tidelog.sim.actors.garbage_producer import SHARE, garbage_producer
from tidelog.sim.actors.idempotent_producer import idempotent_producer
from tidelog.sim.actors.keeper import keeper, start_watcher
from tidelog.sim.actors.member import Roster, member
from tidelog.sim.actors.newer_member import NewerRoster, newer_member
from tidelog.sim.actors.pipeliner import CONCERN, SHARE_OF_SEEDS, Choose, pipeliner
from tidelog.sim.actors.plain_producer import plain_producer
from tidelog.sim.actors.prober import prober
from tidelog.sim.actors.topic_owner import create, topic_owner
from tidelog.sim.actors.vandal import vandal
from tidelog.sim.actors.worker import WORK_GROUPS, register, worker
from tidelog.sim.checkers import check_history
from tidelog.sim.checkers.finding import Finding
from tidelog.sim.checkers.producers import check_sequences
from tidelog.sim.checkers.storage import check_order
from tidelog.sim.client import Client
from tidelog.sim.cluster import Cluster
from tidelog.sim.configuration import Configuration, draw_configuration, draw_reserve_bytes
from tidelog.sim.history import Entry
from tidelog.sim.host import HostOptions, NodeFactory
from tidelog.sim.nemesis import Nemesis
from tidelog.sim.page_cache import draw_cache_plan
from tidelog.sim.schedule import Promise, Script, have_ended
from tidelog.sim.survey import headers_of, logs_before_crash
from tidelog.sim.turns import draw_turn_events
from tidelog.sim.wall_clocks import WallClocks, draw_clock_plan
from tidelog.sim.workload.create_topic import CreatePlan
from tidelog.sim.workload.world import TopicFacts
from tidelog.wire.errors import DecodeError

HEAL_MS = 120_000.0
"""Virtual time for everything to come to an end after the last fault."""

CLEANED = "cleaned"
"""The topic that is compacted or shortened while it is written."""

ANY_SIZE = 0

MAX_FINDINGS = 50
"""A run with more of them has nothing new to say."""

REPORT_MS = 2_000.0
"""Virtual time for the node to tell the operator what it has met."""

_OBJECTS_PER_COLLECTION = 200_000

NODE_FAILURES = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    DecodeError,
    DiskError,
    LookupError,
    OSError,
    RuntimeError,
    StructError,
    TypeError,
    ValueError,
)
"""What a node must never raise from a step; the simulator's own mistakes are among them."""


@dataclass(slots=True, frozen=True)
class RunOptions:
    """`ablate` switches one safeguard off; `make_node` puts another in the node's place; `nodes`
    is the size of a cluster: `ANY_SIZE` lets the seed choose; `consensus` is how it agrees."""

    nodes: int = 1
    ablate: Safeguard | None = None
    consensus: str = "quorum"
    make_node: NodeFactory = Node
    validate_every: int = 4


@dataclass(slots=True)
class Outcome:
    """The verdict on one seed. Empty `findings` is green."""

    seed: int
    options: RunOptions
    trace_hash: str = ""
    findings: list[Finding] = field(default_factory=list)
    counters: Counter[str] = field(default_factory=Counter)
    events: list[str] = field(default_factory=list)
    history: list[Entry] = field(default_factory=list)

    @property
    def is_red(self) -> bool:
        return bool(self.findings)


class _Run:
    """The two phases."""

    def __init__(self, seed: int, options: RunOptions) -> None:
        safeguards = ALL_SAFEGUARDS - ({options.ablate} if options.ablate else set())
        draw = Cluster.stream_of(seed, "configuration")
        clock_plan = draw_clock_plan(Cluster.stream_of(seed, "clock plan"))
        drawn = draw_configuration(draw)
        node = clock_plan.configured(drawn.node, forgets_offsets=drawn.forgets_offsets)
        reserve_bytes = draw_reserve_bytes(Cluster.stream_of(seed, "reserve"))
        settings = replace(node.settings, metadata_reserve_bytes=reserve_bytes)
        self.configuration: Configuration = replace(
            drawn,
            node=replace(node, settings=settings),
            cleaned_topic=clock_plan.outlasted(drawn.cleaned_topic),
        )
        self.cluster = Cluster(
            seed,
            HostOptions(
                config=self.configuration.node,
                safeguards=safeguards,
                make_node=options.make_node,
                validate_every=options.validate_every,
                flush_ms=self.configuration.flush_ms,
                cache=draw_cache_plan(Cluster.stream_of(seed, "page cache")),
                turn_events=draw_turn_events(Cluster.stream_of(seed, "turns")),
            ),
        )
        self.wall_clocks = WallClocks(
            clock_plan,
            self.cluster.schedule,
            self.cluster.history,
            self.cluster.stream("wall clocks"),
        )
        self.nemesis = Nemesis(self.cluster, self.configuration, self.wall_clocks)
        settings = self.configuration.node.settings
        self.cluster.world.creates_on_demand = settings.auto_create_topics_enable

    def run(self) -> None:
        """Raises what the node raises."""
        world = self.cluster.world
        assert self.cluster.host.start(), "a new node on a new disk must start"
        if not self._finish([self.cluster.schedule.start(self._set_up())], "the set-up"):
            return
        actors = [self.cluster.schedule.start(script) for script in self._actors()]
        self.cluster.schedule.start(self.nemesis.torment())
        self.cluster.schedule.start(self.nemesis.supervise())
        schedule = self.cluster.schedule
        until_ms = schedule.now_ms + self.configuration.chaos_ms
        if schedule.run(until_ms=until_ms, is_done=self._has_seen_enough):
            return
        self._heal()
        world.is_over = True
        if not self._finish(actors, "a client"):
            return
        self._conclude()

    def _set_up(self) -> Script[None]:
        world = self.cluster.world
        client = world.client("set-up")
        for plan in self.configuration.topics:
            facts = yield from create(world, client, plan, label=plan.name)
            world.topics[facts.name] = facts
            world.first_configs[facts.label] = dict(plan.configs)
        self.wall_clocks.note_plan()
        self.wall_clocks.note(self.cluster.host)
        if self.configuration.actors.keepers:
            yield from self._set_up_cleaned(client)
        client.hang_up()

    def _set_up_cleaned(self, client: Client) -> Script[None]:
        """A topic that is cleaned, and what the checkers have to know of it."""
        world, configs = self.cluster.world, self.configuration.cleaned_topic
        facts = yield from create(world, client, CreatePlan(CLEANED, 1, configs), label=CLEANED)
        world.cleaned[CLEANED] = facts
        rules, tp = dict(configs), (CLEANED, 0)
        policy, retention_ms = rules["cleanup.policy"], int(rules["retention.ms"])
        value = ["compact" in policy, rules["delete.retention.ms"] == "0", policy != "compact"]
        world.history.add(0, "info", "cleaned", tp=tp, value=value)
        if retention_ms >= 0:
            world.history.add(0, "info", "retained", tp=tp, value=["age", retention_ms])
        elif policy == "consumed":
            for group in WORK_GROUPS:
                yield from register(world, client, group, facts)
            world.history.add(0, "info", "retained", tp=tp, value=["read", list(WORK_GROUPS)])

    def _actors(self) -> list[Script[None]]:
        world, actors = self.cluster.world, self.configuration.actors
        pause_ms = self.configuration.pause_ms
        scripts = [plain_producer(world, pause_ms=pause_ms) for _ in range(actors.plain_producers)]
        scripts += [
            idempotent_producer(world, pause_ms=pause_ms)
            for _ in range(actors.idempotent_producers)
        ]
        scripts += [consumer(world, pause_ms=pause_ms) for _ in range(actors.consumers)]
        scripts += [prober(world, pause_ms=pause_ms) for _ in range(actors.probers)]
        scripts += self._group_actors()
        pipelining = self.cluster.stream(CONCERN)
        if pipelining.random() < SHARE_OF_SEEDS:
            scripts.append(pipeliner(world, pipelining, self._one_node(), pause_ms=pause_ms))
        scripts += [
            keeper(world, facts, pause_ms=pause_ms)
            for facts in world.cleaned.values()
            for _ in range(actors.keepers)
        ]
        policy = dict(self.configuration.cleaned_topic)["cleanup.policy"]
        if policy != "compact":
            scripts += [start_watcher(world, one, pause_ms=8.0) for one in world.cleaned.values()]
        if policy == "consumed":
            scripts += [
                worker(world, group, facts, pause_ms=pause_ms)
                for facts in world.cleaned.values()
                for group in WORK_GROUPS
            ]
        scripts += [configurer(world, pause_ms=3 * pause_ms) for _ in range(actors.configurers)]
        scripts += [vandal(world, pause_ms=5 * pause_ms) for _ in range(actors.vandals)]
        scripts += [
            topic_owner(
                world,
                name=f"owned{number}",
                configs=self.configuration.owned_topic,
                pause_ms=pause_ms,
            )
            for number in range(actors.owners)
        ]
        random = self.cluster.stream("garbage records")
        if random.random() < SHARE:
            scripts.append(garbage_producer(world, random, pause_ms=5 * pause_ms))
        return scripts

    def _one_node(self) -> Choose:
        client = self.cluster.world.client("pipeliner")

        def choose(topic: TopicFacts, partition: int) -> Script[Client]:
            yield from ()
            return client

        return choose

    def _group_actors(self) -> list[Script[None]]:
        """Offsets of a group without members, and a group with some."""
        world, configuration = self.cluster.world, self.configuration
        actors, pause_ms = configuration.actors, 2 * configuration.pause_ms
        if actors.committers:
            world.groups.append("register")
        if actors.members:
            world.groups.append("readers")
        roster = Roster(
            "readers",
            configuration.session_timeout_ms,
            configuration.rebalance_timeout_ms,
            actors.static_members,
        )
        scripts = [
            committer(world, group="register", pause_ms=pause_ms) for _ in range(actors.committers)
        ]
        scripts += [
            member(world, roster, number=number, pause_ms=pause_ms)
            for number in range(actors.members)
        ]
        scripts += self._newer_group_actors()
        for group in world.groups if configuration.forgets_offsets else ():
            retention_ms = configuration.node.settings.offsets_retention_minutes * 60_000
            world.history.add(0, "info", "forgets", group=group, value=retention_ms)
        return scripts

    def _newer_group_actors(self) -> list[Script[None]]:
        """A group whose members follow the newer protocol."""
        world, configuration = self.cluster.world, self.configuration
        if configuration.actors.newer_members:
            world.groups.append("followers")
        roster = NewerRoster(
            "followers",
            configuration.node.settings.group_consumer_session_timeout_ms,
            configuration.rebalance_timeout_ms,
            configuration.actors.static_members,
        )
        return [
            newer_member(world, roster, number=number, pause_ms=2 * configuration.pause_ms)
            for number in range(configuration.actors.newer_members)
        ]

    def _heal(self) -> None:
        """The end of all faults. A node whose disk had failed is restarted, as a person would;
        one that only had no room must come back by itself."""
        host = self.cluster.host
        self.cluster.trace.say("heal", "no more faults")
        self.nemesis.is_over = True
        host.disk.faults.heal()
        host.disk.page_cache.heal()
        host.flush_stall_ms = 0.0
        self.cluster.network.heal()
        if host.life is not None:
            faults = host.faults_of(host.life.number)
            if faults["write error"] or faults["fsync error"] or faults["read error"]:
                host.crash("kill")
        if not host.is_up and not host.start():
            self._find("liveness", "the node does not start, though its disk works")

    def _conclude(self) -> None:
        world, schedule = self.cluster.world, self.cluster.schedule
        if not self._finish([schedule.start(final.write_everywhere(world))], "the last write"):
            return
        if not self._finish([schedule.start(final.read_everything(world))], "the last read"):
            return
        if not self._finish([schedule.start(final.commit_everywhere(world))], "the last commit"):
            return
        how = self.cluster.stream("conclusion").choice(("stop", "kill", "power"))
        host = self.cluster.host
        if how == "stop":
            host.stop()
        else:
            host.crash("power" if how == "power" else "kill")
        if not host.start():
            self._find("liveness", "the node does not start again at the end")
            return
        if not self._finish([schedule.start(final.read_everything(world))], "the reading again"):
            return
        if not self._finish([schedule.start(final.fetch_offsets(world))], "the last offset fetch"):
            return
        tps = [tp for facts in world.topics.values() for tp in facts.tps()]
        self.cluster.history.add(0, "info", "final_reads", value=tps)
        schedule.run(until_ms=schedule.now_ms + REPORT_MS)
        if host.life is not None:
            assert self.cluster.witness is not None
            self.cluster.witness.look(host.life)
        world.findings += final.check_reports(world)
        world.findings += final.check_leftovers(world)

    def _finish(self, scripts: list[Promise[bool]], what: str) -> bool:
        """Let time pass until the scripts have ended."""
        schedule = self.cluster.schedule
        is_ended = schedule.run(
            until_ms=schedule.now_ms + HEAL_MS,
            is_done=lambda: have_ended(scripts) or self._has_seen_enough(),
        )
        if is_ended:
            return not self._has_seen_enough()
        host = self.cluster.host
        state = "down" if host.life is None else str(host.life.node.describe())
        self._find("liveness", f"{what} did not come to an end; the node is {state}")
        return False

    def _has_seen_enough(self) -> bool:
        return len(self.cluster.world.findings) > MAX_FINDINGS

    def _find(self, property: str, text: str) -> None:
        self.cluster.world.findings.append(Finding(property, text))


@contextmanager
def seldom_collecting() -> Iterator[None]:
    """A run makes many small objects and keeps most of them: looking for cycles among them, as
    often as Python does, is an eighth of its time."""
    before = gc.get_threshold()
    gc.set_threshold(_OBJECTS_PER_COLLECTION, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


@seldom_collecting()
def run_seed(seed: int, options: RunOptions | None = None) -> Outcome:
    """Run one seed and judge it. The same seed and options give the same outcome, always."""
    options = options or RunOptions()
    outcome = Outcome(seed, options)
    run = _Run(seed, options)
    cluster = run.cluster
    try:
        run.run()
    except NODE_FAILURES as failure:
        where = "".join(traceback.format_exception(failure)[-4:])
        outcome.findings.append(Finding("crash", f"{type(failure).__name__}: {failure}\n{where}"))
    outcome.findings += cluster.world.findings
    findings, counters = check_history(cluster.history.entries)
    outcome.findings += findings
    for directory, log in logs_before_crash(cluster.host.disk).items():
        if run.nemesis.is_cleaned(directory, log):
            continue
        headers = headers_of(log.written)
        outcome.findings += check_sequences(directory, headers)
        if directory not in run.nemesis.damaged_directories:
            outcome.findings += check_order(directory, headers)
    outcome.trace_hash = cluster.trace.digest()
    outcome.counters = _counters(run) + counters
    outcome.events = list(cluster.trace.lines)
    outcome.history = cluster.history.entries
    return outcome


def _counters(run: _Run) -> Counter[str]:
    cluster = run.cluster
    counters: Counter[str] = Counter()
    for kind, count in run.nemesis.counted.items():
        counters[f"fault: {kind}"] += count
    for counted in (cluster.host.disk.faults.counted, cluster.network.faults.counted):
        for kind, count in counted.items():
            counters[f"struck: {kind}"] += count
    for kind, count in cluster.host.counted.items():
        counters[f"struck: {kind}"] += count
    for kind, count in cluster.world.counted.items():
        counters[f"answer: {kind}"] += count
    counters["steps"] = cluster.host.steps
    counters["lives"] = cluster.host.lives
    counters["history entries"] = len(cluster.history.entries)
    counters["acknowledged"] = sum(
        entry.type == "ok" and entry.f == "send" for entry in cluster.history.entries
    )
    return counters
