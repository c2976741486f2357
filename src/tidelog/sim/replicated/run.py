"""One seed of a whole cluster, from start to verdict.

Start: all nodes at once, until a topic of three copies can be created. Chaos: clients work, the
nemesis strikes. Heal: within bounded virtual time every node serves again, every partition has a
leader and its full ISR, takes a record and can be read to its end; replicas hold the same bytes.
"""

from __future__ import annotations

import traceback
from collections import Counter
from random import Random

from tidelog.broker.offsets_log import OFFSETS_CONFIGS, OFFSETS_TOPIC
from tidelog.model.safeguards import ALL_SAFEGUARDS
from tidelog.sim.actors import pipeliner as pipelining
from tidelog.sim.actors.keeper import keeper, start_watcher
from tidelog.sim.actors.member import Roster, member
from tidelog.sim.actors.newer_member import NewerRoster, newer_member
from tidelog.sim.checkers import check_history
from tidelog.sim.checkers.finding import Finding
from tidelog.sim.client import Client
from tidelog.sim.cluster import Cluster
from tidelog.sim.host import HostOptions
from tidelog.sim.page_cache import draw_cache_plan
from tidelog.sim.replicated import first_answers
from tidelog.sim.replicated.administration import administrator, trimmer
from tidelog.sim.replicated.clients import (
    COORDINATOR_EXCUSES,
    LEADER_EXCUSES,
    GroupClient,
    LeaderClient,
)
from tidelog.sim.replicated.committing import Register, committer
from tidelog.sim.replicated.configuration import (
    Plan,
    draw_plan,
    in_haste,
    scrubbed,
    with_ages,
    with_leisure,
    with_reserve,
)
from tidelog.sim.replicated.invariants import Invariants
from tidelog.sim.replicated.live_damage import LiveDamage
from tidelog.sim.replicated.nemesis import Nemesis
from tidelog.sim.replicated.owning import owner
from tidelog.sim.replicated.router import Router
from tidelog.sim.replicated.spoiling import Spoiler
from tidelog.sim.replicated.topics import create
from tidelog.sim.replicated.unclean import UncleanElections
from tidelog.sim.replicated.workload import Reader, Sender, plain_sender, prober, reader, sender
from tidelog.sim.run import (
    CLEANED,
    MAX_FINDINGS,
    NODE_FAILURES,
    Outcome,
    RunOptions,
    seldom_collecting,
)
from tidelog.sim.schedule import Pause, Promise, Script, have_ended
from tidelog.sim.turns import draw_turn_events
from tidelog.sim.wall_clocks import WallClocks
from tidelog.sim.workload import offset_commit
from tidelog.sim.workload.offset_fetch import FetchOffsetPlan
from tidelog.sim.workload.world import TopicFacts

START_MS = 30_000.0
HEAL_MS = 60_000.0
"""Virtual time for everything to come to an end after the last fault."""

GROUP = "register"
READERS, FOLLOWERS = "readers", "followers"
_RETRY_MS = 30.0
_SCRUBBED_SHARE = 0.25
_HASTY_SHARE = 0.15
_SMALL_SHARE = 0.1
"""Of the clusters: their offsets topic begins with one replica, and has to grow."""
_UNCLEAN_SHARE = 0.12
"""Of the clusters that have a quorum of their own, and flush before they acknowledge."""


class ClusterRun:
    """The phases."""

    def __init__(self, seed: int, options: RunOptions) -> None:
        safeguards = ALL_SAFEGUARDS - ({options.ablate} if options.ablate else set())
        draw = Cluster.stream_of(seed, "plan")
        plan = draw_plan(draw, size=options.nodes or None, consensus=options.consensus)
        is_hasty = Cluster.stream_of(seed, "haste").random() < _HASTY_SHARE
        plan = with_reserve(plan, Cluster.stream_of(seed, "room for metadata"))
        plan, clock_plan = with_ages(plan, Cluster.stream_of(seed, "retention by age"))
        self.plan: Plan = in_haste(plan) if is_hasty else plan
        is_drawn = Cluster.stream_of(seed, "unclean elections").random() < _UNCLEAN_SHARE
        may_lose = options.consensus == "quorum" and not self.plan.is_hasty
        self._elects_uncleanly = is_drawn and may_lose
        if self._elects_uncleanly:
            self.plan = with_leisure(self.plan)
        is_scrubbed = Cluster.stream_of(seed, "scrubbing").random() < _SCRUBBED_SHARE
        self.plan = scrubbed(self.plan) if is_scrubbed else self.plan
        cache = draw_cache_plan(Cluster.stream_of(seed, "page cache"))
        turn_events = draw_turn_events(Cluster.stream_of(seed, "turns"))
        self.cluster = Cluster(
            seed,
            *(
                HostOptions(
                    config=config,
                    safeguards=safeguards,
                    make_node=options.make_node,
                    validate_every=options.validate_every,
                    has_battery=self.plan.is_hasty,
                    flush_ms=self.plan.flush_ms,
                    cache=cache,
                    turn_events=turn_events,
                )
                for config in self.plan.nodes
            ),
        )
        world = self.cluster.world
        world.make_client = self._make_client
        world.coordinators_may_say = COORDINATOR_EXCUSES
        world.leaders_may_say = LEADER_EXCUSES
        self.invariants = Invariants(self.cluster, is_flushed_first=not self.plan.is_hasty)
        self.wall_clocks = WallClocks(
            clock_plan,
            self.cluster.schedule,
            self.cluster.history,
            self.cluster.stream("wall clocks"),
        )
        self.nemesis = Nemesis(self.cluster, self.plan, self.invariants, self.wall_clocks)
        directories = self.nemesis.directories
        self.spoiler = Spoiler(self.cluster, self.plan, self.invariants, directories)
        self._live_damage = LiveDamage(self.cluster) if is_scrubbed else None

    @property
    def least_in_sync(self) -> int:
        """What nobody may ask for less than. Where one copy is enough, the node with the spoiled
        one may have been alone in sync; and nobody can tell what else it had committed."""
        return 2 if self.spoiler.is_on else self.plan.least_in_sync

    def run(self) -> None:
        """Raises what a node raises."""
        cluster, schedule = self.cluster, self.cluster.schedule
        for host in cluster.hosts.values():
            assert host.start(), "a new node on a new disk must start"
        if not self._finish([schedule.start(self._set_up())], "the set-up", START_MS):
            return
        actors = [schedule.start(script) for script in self._actors()]
        schedule.start(self.nemesis.torment())
        schedule.start(self.spoiler.torment())
        for host in cluster.hosts.values():
            schedule.start(self.nemesis.supervise(host))
        until_ms = schedule.now_ms + self.plan.chaos_ms
        if schedule.run(until_ms=until_ms, is_done=self._has_seen_enough):
            return
        cluster.trace.say("heal", "no more faults")
        self.spoiler.is_over = True
        self.nemesis.heal()
        cluster.world.is_over = True
        if self._finish(actors, "a client", HEAL_MS):
            self._conclude()

    def _set_up(self) -> Script[None]:
        world, router = self.cluster.world, Router(self.cluster, "set-up", self._stream("set-up"))
        for name, partitions in self.plan.topics:
            settings = self.plan.topic_settings
            world.topics[name] = yield from self._create(router, name, partitions, settings)
        self.wall_clocks.note_plan()
        for host in self.cluster.hosts.values():
            self.wall_clocks.note(host)
        if self.plan.is_aged:
            self._note_ages()
        if self.plan.cleaned_topic:
            yield from self._set_up_cleaned(router)
        if self._stream("small offsets topic").random() < _SMALL_SHARE:
            yield from self._create_small_offsets_topic(router)
        router.hang_up()

    def _note_ages(self) -> None:
        """What goes with time, and after how long."""
        history, settings = self.cluster.world.history, self.plan.nodes[0].settings
        retention_ms = int(dict(self.plan.cleaned_topic)["retention.ms"])
        history.add(0, "info", "retained", tp=(CLEANED, 0), value=["age", retention_ms])
        for group in (GROUP, READERS, FOLLOWERS):
            forgotten_ms = settings.offsets_retention_minutes * 60_000
            history.add(0, "info", "forgets", group=group, value=forgotten_ms)

    def _create_small_offsets_topic(self, router: Router) -> Script[None]:
        """As if the cluster had been one node when its first group came."""
        partitions = self.plan.nodes[0].settings.offsets_topic_num_partitions
        configs = tuple(OFFSETS_CONFIGS.items())
        yield from create(
            self.cluster, router, OFFSETS_TOPIC, partitions, replicas=1, configs=configs
        )

    def _set_up_cleaned(self, router: Router) -> Script[None]:
        """A topic that is cleaned, and what the checkers have to know of it."""
        world, configs = self.cluster.world, self.plan.cleaned_topic
        facts = yield from self._create(router, CLEANED, 1, configs)
        world.cleaned[CLEANED] = facts
        rules = dict(configs)
        policy = rules["cleanup.policy"]
        is_shortened = policy != "compact"
        value = ["compact" in policy, rules["delete.retention.ms"] == "0", is_shortened, True]
        world.history.add(0, "info", "cleaned", tp=(CLEANED, 0), value=value)

    def _create(
        self, router: Router, name: str, partitions: int, configs: tuple[tuple[str, str], ...]
    ) -> Script[TopicFacts]:
        replicas = self.plan.replication_factor
        facts = yield from create(
            self.cluster, router, name, partitions, replicas=replicas, configs=configs
        )
        return facts

    def _actors(self) -> list[Script[None]]:
        cluster, plan, pause_ms = self.cluster, self.plan, self.plan.pause_ms
        scripts = [
            sender(cluster, self._stream(f"sender {n}"), pause_ms=pause_ms)
            for n in range(plan.producers)
        ]
        scripts += [
            plain_sender(cluster, self._stream(f"plain {n}"), pause_ms=pause_ms)
            for n in range(plan.plain_producers)
        ]
        scripts += [
            reader(cluster, self._stream(f"reader {n}"), pause_ms=pause_ms)
            for n in range(plan.readers)
        ]
        scripts += [
            prober(cluster, self._stream(f"prober {n}"), pause_ms=2 * pause_ms)
            for n in range(plan.probers)
        ]
        scripts += [
            committer(cluster, self._stream(f"committer {n}"), group=GROUP, pause_ms=2 * pause_ms)
            for n in range(plan.committers)
        ]
        scripts += [
            administrator(
                cluster,
                self._stream(f"administrator {n}"),
                least_in_sync=self.least_in_sync,
                pause_ms=10 * pause_ms,
            )
            for n in range(plan.administrators)
        ]
        scripts += [
            owner(cluster, self._stream(f"owner {n}"), plan.topic_settings, pause_ms=2 * pause_ms)
            for n in range(plan.owners)
        ]
        if self._elects_uncleanly:
            random = self._stream("unclean elections")
            unclean = UncleanElections(cluster, self.invariants, self.nemesis, random)
            scripts.append(unclean.go_on())
        random = self._stream(pipelining.CONCERN)
        if random.random() < pipelining.SHARE_OF_SEEDS:
            choose = self._leaders_client(Router(cluster, pipelining.CONCERN, random))
            scripts.append(pipelining.pipeliner(cluster.world, random, choose, pause_ms=pause_ms))
        random = self._stream(first_answers.CONCERN)
        if random.random() < first_answers.SHARE_OF_SEEDS:
            scripts.append(first_answers.metadata_asker(cluster, self.invariants, random))
        return scripts + self._group_actors() + self._cleaning_actors()

    def _leaders_client(self, router: Router) -> pipelining.Choose:
        """Whoever leads is asked anew each time, since nobody tells the router of errors."""

        def choose(topic: TopicFacts, partition: int) -> Script[Client]:
            router.forget_leader((topic.label, partition))
            leader = yield from router.leader_of(topic, partition)
            return router.at(leader)

        return choose

    def _group_actors(self) -> list[Script[None]]:
        """A group of the classic protocol and one of the newer, with the actors of one node."""
        world, plan, pause_ms = self.cluster.world, self.plan, 2 * self.plan.pause_ms
        roster = Roster(
            READERS, plan.session_timeout_ms, plan.rebalance_timeout_ms, plan.static_members
        )
        newer_roster = NewerRoster(
            FOLLOWERS,
            plan.nodes[0].settings.group_consumer_session_timeout_ms,
            plan.rebalance_timeout_ms,
            plan.static_members,
        )
        scripts = [member(world, roster, number=n, pause_ms=pause_ms) for n in range(plan.members)]
        scripts += [
            newer_member(world, newer_roster, number=n, pause_ms=pause_ms)
            for n in range(plan.newer_members)
        ]
        return scripts

    def _cleaning_actors(self) -> list[Script[None]]:
        cluster, pause_ms = self.cluster, self.plan.pause_ms
        scripts: list[Script[None]] = []
        for facts in cluster.world.cleaned.values():
            scripts.append(keeper(cluster.world, facts, pause_ms=pause_ms))
            if dict(self.plan.cleaned_topic)["cleanup.policy"] != "compact":
                scripts.append(start_watcher(cluster.world, facts, pause_ms=2 * pause_ms))
                if self.plan.is_aged:
                    continue
                random = self._stream("trimmer")
                scripts.append(trimmer(cluster, random, facts, pause_ms=8 * pause_ms))
        return scripts

    def _make_client(self, kind: str, name: str) -> Client:
        """For the actors of one node: to whoever is in charge of what they are about."""
        random = self._stream(name)
        if kind.startswith("member"):
            return GroupClient(self.cluster, name, random, READERS)
        if kind.startswith("newer"):
            return GroupClient(self.cluster, name, random, FOLLOWERS)
        return LeaderClient(self.cluster, name, random, self.cluster.world.cleaned[CLEANED])

    # --- after the last fault -------------------------------------------------------------------

    def _conclude(self) -> None:
        schedule, world = self.cluster.schedule, self.cluster.world
        if not self._finish([schedule.start(self._settle())], "the cluster's recovery", HEAL_MS):
            return
        if not self._finish([schedule.start(self._write())], "the last write", HEAL_MS):
            return
        if not self._finish([schedule.start(self._read())], "the last reading", HEAL_MS):
            return
        if self.plan.committers and not self._finish(
            [schedule.start(self._commit())], "the last commit", HEAL_MS
        ):
            return
        tps = [tp for facts in world.topics.values() for tp in facts.tps()]
        self.cluster.history.add(0, "info", "final_reads", value=tps)
        self.invariants.meet_damage()
        if not self._finish([schedule.start(self._settle())], "the last replication", HEAL_MS):
            return
        if self._live_damage is not None and not self._finish(
            [schedule.start(self._scrub(self._live_damage))], "the last repair", HEAL_MS
        ):
            return
        world.findings += self.invariants.check_convergence()

    def _scrub(self, damage: LiveDamage) -> Script[None]:
        """Nobody reads what was damaged: the nodes have to find it by themselves."""
        damage.plant()
        while damage.unrepaired() is not None or self.invariants.unsettled() is not None:
            yield Pause(_RETRY_MS)
        self.nemesis.counted += damage.counted

    def _settle(self) -> Script[None]:
        """Until all nodes serve and every partition has its leader and all its replicas."""
        while self.invariants.unsettled() is not None:
            yield Pause(_RETRY_MS)

    def _write(self) -> Script[None]:
        """A batch to every partition, which must be acknowledged."""
        random, world = self._stream("last write"), self.cluster.world
        one = Sender(world, Router(self.cluster, "last", random), random, 0)
        one.proc = world.history.new_process()
        while not (yield from one.identify()):
            yield Pause(_RETRY_MS)
        for facts in world.topics.values():
            for partition in range(facts.partitions):
                yield from one.deliver(one.batches(facts, partition, count=1))
        one.router.hang_up()

    def _read(self) -> Script[None]:
        """Every partition from its beginning to its end, from its leader."""
        world = self.cluster.world
        one = Reader(self.cluster, self._stream("last read"), list(world.topics.values()))
        for tp in one.positions:
            while True:
                is_answered = yield from one.poll(tp, max_wait_ms=0)
                if is_answered and 0 <= one.watermarks[tp] <= one.positions[tp]:
                    break
                yield Pause(0.0 if is_answered else _RETRY_MS)
        one.hang_up()

    def _commit(self) -> Script[None]:
        """The group must take a commit and tell it."""
        world, random = self.cluster.world, self._stream("last commit")
        register = Register(self.cluster, random, GROUP)
        while not (yield from register.commit(offset_commit.sample(random, world, group=GROUP))):
            yield Pause(_RETRY_MS)
        for facts in world.topics.values():
            for partition in range(facts.partitions):
                plan = FetchOffsetPlan(GROUP, facts, partition, version=8)
                while not (yield from register.fetch(plan)):
                    yield Pause(_RETRY_MS)
        register.hang_up()

    # --- time ----------------------------------------------------------------------------------

    def _finish(self, scripts: list[Promise[bool]], what: str, patience_ms: float) -> bool:
        """Let time pass until the scripts have ended."""
        schedule = self.cluster.schedule
        is_ended = schedule.run(
            until_ms=schedule.now_ms + patience_ms,
            is_done=lambda: have_ended(scripts) or self._has_seen_enough(),
        )
        if not is_ended:
            why = self.invariants.unsettled() or "all nodes believe they serve"
            text = f"{what} did not come to an end: {why}"
            self.cluster.world.findings.append(Finding("liveness", text))
        return is_ended and not self._has_seen_enough()

    def _has_seen_enough(self) -> bool:
        return len(self.cluster.world.findings) > MAX_FINDINGS

    def _stream(self, concern: str) -> Random:
        return self.cluster.stream(concern)


@seldom_collecting()
def run_cluster_seed(seed: int, options: RunOptions) -> Outcome:
    """Run one seed and judge it. The same seed and options give the same outcome, always."""
    outcome = Outcome(seed, options)
    run = ClusterRun(seed, options)
    cluster = run.cluster
    try:
        run.run()
    except NODE_FAILURES as failure:
        where = "".join(traceback.format_exception(failure)[-4:])
        outcome.findings.append(Finding("crash", f"{type(failure).__name__}: {failure}\n{where}"))
    outcome.findings += cluster.world.findings
    findings, counters = check_history(cluster.history.entries, is_replicated=True)
    outcome.findings += findings
    outcome.trace_hash = cluster.trace.digest()
    outcome.counters = _counters(run) + counters
    outcome.events = list(cluster.trace.lines)
    outcome.history = cluster.history.entries
    return outcome


def _counters(run: ClusterRun) -> Counter[str]:
    cluster = run.cluster
    counters: Counter[str] = Counter()
    for kind, count in run.nemesis.counted.items():
        counters[f"fault: {kind}"] += count
    for kind, count in run.spoiler.counted.items():
        counters[f"fault: {kind}"] += count
    for kind, count in run.nemesis.directories.counted.items():
        counters[f"struck: {kind}"] += count
    for host in cluster.hosts.values():
        for counted in (host.disk.faults.counted, host.counted):
            for kind, count in counted.items():
                counters[f"struck: {kind}"] += count
        counters["steps"] += host.steps
        counters["lives"] += host.lives
    for kind, count in cluster.network.faults.counted.items():
        counters[f"struck: {kind}"] += count
    for kind, count in cluster.world.counted.items():
        counters[f"answer: {kind}"] += count
    counters["history entries"] = len(cluster.history.entries)
    counters["acknowledged"] = sum(
        entry.type == "ok" and entry.f == "send" for entry in cluster.history.entries
    )
    return counters
