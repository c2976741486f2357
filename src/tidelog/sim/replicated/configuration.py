"""What a seed means for a cluster: its size, its patience, its traffic and its troubles."""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random

from tidelog.broker.configuration import NodeConfig
from tidelog.model.ids import NodeId
from tidelog.model.settings import Value, node_settings
from tidelog.sim.configuration import SHORT_RETENTION_MINUTES, draw_reserve_bytes
from tidelog.sim.replicated.directories import DISK_LOSSES
from tidelog.sim.wall_clocks import ClockPlan

FAULT_KINDS = (
    "kill one",
    "power of one",
    "power of all",
    "clean stop",
    "freeze",
    "isolate",
    "cut one way",
    "split",
    "network storm",
    "slow flush",
    "disk full",
    "fsync errors",
    "clock jump",
    "quick restart",
)

LAST_ONE_STANDING, EARLY_STRIKE, LATE_WORD = "last one standing", "early strike", "late word"
PLOTS = (
    "forgetful voters",
    "stumbling controllers",
    LAST_ONE_STANDING,
    EARLY_STRIKE,
    LATE_WORD,
)
"""Several faults, each at its moment (`plots.py`)."""

LOSING = (*DISK_LOSSES, LAST_ONE_STANDING, LATE_WORD)
"""Those that cost a node its directory."""

QUORUM_FAULTS = (*PLOTS, *DISK_LOSSES)
"""Those that find their moment by looking at the nodes' quorum."""

ZOOKEEPER_FAULTS = ("zookeeper away", "zookeeper cut", "zookeeper reset", "session over")
"""Where the cluster agrees by one."""

SPARED_BY_HASTE = (*LOSING, "fsync errors")
"""What may cost records that were never flushed."""

_AGED_SHARE = 0.25
_FIRST_PORT = 9092
_FEW = 3
_PLOT_MS = 1_000.0
_LEISURE_MS, _FEWER = 2_500.0, 4.0


@dataclass(slots=True, frozen=True)
class Plan:
    """One run. `faults` are the kinds this run knows."""

    nodes: tuple[NodeConfig, ...]
    topics: tuple[tuple[str, int], ...]
    replication_factor: int
    min_insync: int
    topic_settings: tuple[tuple[str, str], ...]
    producers: int
    plain_producers: int
    readers: int
    committers: int
    probers: int
    members: int
    newer_members: int
    static_members: int
    session_timeout_ms: int
    rebalance_timeout_ms: int
    administrators: int
    owners: int
    cleaned_topic: tuple[tuple[str, str], ...]
    """The settings of a topic that is cleaned while it is used; none, and there is none."""
    faults: tuple[str, ...]
    chaos_ms: float
    fault_every_ms: float
    pause_ms: float
    flush_ms: tuple[float, float]

    @property
    def least_in_sync(self) -> int:
        """Where directories are lost, nobody may decide that one copy is enough while the one in
        sync is such a node, and the cluster has not noticed."""
        return 2 if any(kind in LOSING for kind in self.faults) else 1

    @property
    def is_aged(self) -> bool:
        """The cleaned topic is shortened by age, and by nothing else."""
        return dict(self.cleaned_topic).get("retention.ms", "-1") != "-1"

    @property
    def is_hasty(self) -> bool:
        """Nothing is flushed before it counts."""
        return self.nodes[0].topic_defaults.get("flush.policy") == "os"


def draw_plan(random: Random, *, size: int | None = None, consensus: str = "quorum") -> Plan:
    """Small segments and short patience, so that much happens in little time."""
    uses_zookeeper = consensus == "zookeeper"
    faults = _draw_faults(random, ZOOKEEPER_FAULTS if uses_zookeeper else QUORUM_FAULTS)
    count = size or _draw_size(random, faults)
    voters = random.choice((min(3, count), count))
    patience = _draw_patience(random)
    min_insync = random.choice((1, 2, 2))
    cleaned_topic = _draw_cleaned_topic(random, min_insync)
    if cleaned_topic:
        patience |= _draw_cleaning(random)
    if uses_zookeeper:
        patience |= _zookeeper_settings(random, patience)
    return Plan(
        nodes=tuple(_node(number, voters, patience, min_insync) for number in range(1, count + 1)),
        topics=tuple((f"topic{n}", random.randint(1, 3)) for n in range(random.randint(1, 2))),
        replication_factor=3,
        min_insync=min_insync,
        topic_settings=(
            ("min.insync.replicas", str(min_insync)),
            ("segment.bytes", str(random.choice((1_024, 4_096, 16_384)))),
            ("index.interval.bytes", str(random.choice((0, 200, 4_096)))),
        ),
        producers=random.randint(1, 3),
        plain_producers=random.randint(0, 1),
        readers=random.randint(1, 2),
        committers=random.choice((0, 1)),
        probers=random.choice((0, 1)),
        members=random.choice((0, 0, 0, 2, 3)),
        newer_members=random.choice((0, 0, 0, 2, 3)),
        static_members=random.choice((0, 0, 1)),
        session_timeout_ms=random.choice((150, 400)),
        rebalance_timeout_ms=random.choice((300, 600)),
        administrators=random.choice((0, 0, 1)),
        owners=random.choice((0, 0, 0, 1)),
        cleaned_topic=cleaned_topic,
        faults=faults,
        chaos_ms=_draw_chaos_ms(random, faults),
        fault_every_ms=random.choice((200.0, 400.0, 800.0)),
        pause_ms=random.choice((15.0, 40.0)),
        flush_ms=random.choice(((0.2, 2.0), (1.0, 10.0), (5.0, 30.0))),
    )


def in_haste(plan: Plan) -> Plan:
    """The same under `flush.policy=os`, where only the death of processes is promised to cost
    nothing. As it was if that leaves no faults."""
    faults = tuple(kind for kind in plan.faults if kind not in SPARED_BY_HASTE)
    if not faults:
        return plan
    nodes = tuple(
        replace(node, topic_defaults={**node.topic_defaults, "flush.policy": "os"})
        for node in plan.nodes
    )
    return replace(plan, nodes=nodes, faults=faults)


def with_reserve(plan: Plan, random: Random) -> Plan:
    """In a part of the seeds every node keeps room for its metadata."""
    reserve_bytes = draw_reserve_bytes(random)
    nodes = tuple(
        replace(node, settings=replace(node.settings, metadata_reserve_bytes=reserve_bytes))
        for node in plan.nodes
    )
    return replace(plan, nodes=nodes)


def scrubbed(plan: Plan) -> Plan:
    """The same, with closed segments read again every other second."""
    nodes = tuple(
        replace(node, settings=replace(node.settings, log_scrub_interval_ms=2_000))
        for node in plan.nodes
    )
    return replace(plan, nodes=nodes)


def with_ages(plan: Plan, random: Random) -> tuple[Plan, ClockPlan]:
    """In a part of the seeds one topic is shortened by age, offsets are forgotten, and the clocks
    jump until nodes do not believe them; drawn from a stream of its own."""
    if random.random() >= _AGED_SHARE:
        return plan, ClockPlan(0, False)
    clock_plan = ClockPlan(random.choice((100, 400, 2_000)), random.random() < 0.7)
    topic = {
        "cleanup.policy": "delete",
        "min.insync.replicas": str(plan.min_insync),
        "segment.bytes": str(random.choice((1_024, 2_048))),
        "delete.retention.ms": "0",
        "retention.ms": str(random.choice((500, 100_000))),
    }
    check_ms = random.choice((50, 300))

    def aged(node: NodeConfig) -> NodeConfig:
        settings = replace(
            node.settings,
            log_retention_check_interval_ms=check_ms,
            offsets_retention_minutes=SHORT_RETENTION_MINUTES,
            offsets_retention_check_interval_ms=check_ms,
        )
        return clock_plan.configured(replace(node, settings=settings), forgets_offsets=True)

    nodes = tuple(aged(node) for node in plan.nodes)
    kinds = (*FAULT_KINDS, *ZOOKEEPER_FAULTS, *QUORUM_FAULTS)
    faults = tuple(kind for kind in kinds if kind in (*plan.faults, "clock jump"))
    changed = replace(
        plan,
        nodes=nodes,
        faults=faults,
        cleaned_topic=tuple(topic.items()),
        committers=1,
    )
    return changed, clock_plan


def with_leisure(plan: Plan) -> Plan:
    """The same with fewer faults in more time, for what takes several sessions to come about."""
    return replace(
        plan, chaos_ms=plan.chaos_ms + _LEISURE_MS, fault_every_ms=_FEWER * plan.fault_every_ms
    )


def _draw_cleaned_topic(random: Random, min_insync: int) -> tuple[tuple[str, str], ...]:
    """Compacted, shortened by size or by somebody who deletes records, or both; or no topic."""
    how = random.choice(("", "", "", "compact", "delete", "delete", "compact,delete"))
    if not how:
        return ()
    return (
        ("cleanup.policy", how),
        ("min.insync.replicas", str(min_insync)),
        ("segment.bytes", str(random.choice((1_024, 2_048)))),
        ("min.cleanable.dirty.ratio", "0.01"),
        ("delete.retention.ms", str(random.choice((0, 2**40, 2**40)))),
        ("retention.ms", "-1"),
        ("retention.bytes", str(random.choice((-1, 2_000, 6_000)))),
    )


def _draw_patience(random: Random) -> dict[str, Value]:
    """A lag is no shorter than a session, as everywhere: who is out of sync sooner than it is
    fenced may have been replaced while it was frozen, and go on for a moment when it wakes up."""
    session_ms = random.choice((200, 400, 800))
    return {
        "broker.session.timeout.ms": session_ms,
        "broker.heartbeat.interval.ms": session_ms // 4,
        "controller.quorum.election.timeout.ms": random.choice((40, 100, 200)),
        "controller.quorum.fetch.timeout.ms": random.choice((200, 400)),
        "replica.lag.time.max.ms": max(session_ms, random.choice((200, 500, 1_000))),
        "replica.fetch.wait.max.ms": random.choice((100, 200)),
        "metadata.log.max.records.between.snapshots": random.choice((10, 40, 20_000)),
        "offsets.topic.num.partitions": random.choice((1, 3)),
        "auto.create.topics.enable": False,
        "clock.steady.ms": 0,
        "metadata.reserve.bytes": 0,
        "group.min.session.timeout.ms": 50,
        "group.initial.rebalance.delay.ms": 0,
        "group.consumer.session.timeout.ms": random.choice((150, 400)),
    }


def _draw_cleaning(random: Random) -> dict[str, Value]:
    """How often to look for something to clean, where there may be something."""
    return {
        "log.cleaner.backoff.ms": random.choice((20, 100)),
        "log.retention.check.interval.ms": random.choice((50, 300)),
    }


def _node(number: int, voters: int, patience: dict[str, Value], min_insync: int) -> NodeConfig:
    """The first nodes vote; the others follow what those agree on."""
    voting = ",".join(f"{n}@node{n}:{_FIRST_PORT}" for n in range(1, voters + 1))
    return NodeConfig(
        node_id=NodeId(number),
        host=f"node{number}",
        port=_FIRST_PORT,
        settings=node_settings({**patience, "controller.quorum.voters": voting}),
        # The nodes' clocks jump; the producers' don't, and are not to blame for it.
        topic_defaults={
            "message.timestamp.after.max.ms": 2**63 - 1,
            "min.insync.replicas": min_insync,
        },
    )


def _zookeeper_settings(random: Random, patience: dict[str, Value]) -> dict[str, Value]:
    session_ms, lag = random.choice((200, 400, 800)), "replica.lag.time.max.ms"
    return {
        "consensus": "zookeeper",
        "zookeeper.connect": "zookeeper:2181",
        "zookeeper.session.timeout.ms": session_ms,
        lag: max(session_ms, int(patience[lag])),
    }


def _draw_faults(random: Random, more: tuple[str, ...]) -> tuple[str, ...]:
    """Some kinds; most of the runs fail in few ways only."""
    kinds = (*FAULT_KINDS, *more)
    chosen = random.sample(kinds, random.choice((1, 2, _FEW, 5, len(kinds))))
    return tuple(kind for kind in kinds if kind in chosen)


def _draw_size(random: Random, faults: tuple[str, ...]) -> int:
    """Mostly as few nodes as there are copies; but a plot for five gets them."""
    if len(faults) <= _FEW and LAST_ONE_STANDING in faults:
        return 5
    return random.choice((3, 3, 3, 3, 3, 3, 5))


def _draw_chaos_ms(random: Random, faults: tuple[str, ...]) -> float:
    """A plot needs its time, where little else disturbs it."""
    is_plotted = len(faults) <= _FEW and any(kind in PLOTS for kind in faults)
    return random.choice((800.0, 1_600.0)) + (_PLOT_MS if is_plotted else 0.0)
