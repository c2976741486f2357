"""What a seed means: everything about a run that is not luck along the way, drawn once."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from tidelog.broker.configuration import NodeConfig
from tidelog.model.ids import NodeId
from tidelog.model.settings import node_settings
from tidelog.sim.workload.create_topic import CreatePlan

FAULT_KINDS = (
    "kill",
    "power",
    "power in a flush",
    "power between writes",
    "clean stop",
    "damage",
    "lost indexes",
    "lost metadata",
    "damaged metadata",
    "disk full",
    "read errors",
    "write errors",
    "fsync errors",
    "slow flush",
    "clock jump",
    "network storm",
)

SHORT_RETENTION_MINUTES = 1
"""Longer than a run, and much shorter than the clock jumps."""


@dataclass(slots=True, frozen=True)
class Actors:
    """How many of each there are."""

    plain_producers: int
    idempotent_producers: int
    consumers: int
    probers: int
    vandals: int
    owners: int
    committers: int
    members: int
    keepers: int
    static_members: int
    newer_members: int
    configurers: int


@dataclass(slots=True, frozen=True)
class Configuration:
    """One run. `faults` are the kinds this run knows: each run has its own character, because a
    run in which everything goes wrong at once gets nowhere."""

    node: NodeConfig
    topics: tuple[CreatePlan, ...]
    owned_topic: tuple[tuple[str, str], ...]
    cleaned_topic: tuple[tuple[str, str], ...]
    actors: Actors
    session_timeout_ms: int
    rebalance_timeout_ms: int
    faults: tuple[str, ...]
    chaos_ms: float
    fault_every_ms: float
    pause_ms: float
    flush_ms: tuple[float, float]
    starts_troubled: float

    @property
    def forgets_offsets(self) -> bool:
        """Offsets of groups without members go within the run: the clock jumps further."""
        return self.node.settings.offsets_retention_minutes == SHORT_RETENTION_MINUTES


def draw_configuration(random: Random) -> Configuration:
    """Small segments, so that rolling is common; few partitions, so that clients meet."""
    topics = tuple(
        CreatePlan(f"topic{number}", random.randint(1, 3), _draw_topic(random))
        for number in range(random.randint(1, 3))
    )
    cleaned_topic = _draw_cleaned_topic(random)
    # Where a topic is cut by what groups have read, the groups must not be forgotten.
    is_consumed = dict(cleaned_topic)["cleanup.policy"] == "consumed"
    forgets_offsets = random.random() < 0.3 and not is_consumed
    return Configuration(
        node=_draw_node(random, forgets_offsets=forgets_offsets),
        topics=topics,
        owned_topic=_draw_topic(random),
        cleaned_topic=cleaned_topic,
        actors=_draw_actors(random),
        session_timeout_ms=random.choice((100, 300)),
        rebalance_timeout_ms=random.choice((300, 1_000)),
        faults=_draw_faults(random, certain="clock jump" if forgets_offsets else ""),
        chaos_ms=random.choice((1_500.0, 3_000.0)),
        fault_every_ms=random.choice((150.0, 300.0, 600.0)),
        pause_ms=random.choice((10.0, 20.0, 40.0)),
        flush_ms=random.choice(((0.2, 2.0), (1.0, 10.0), (5.0, 40.0))),
        starts_troubled=random.choice((0.0, 0.2, 0.5)),
    )


def draw_reserve_bytes(random: Random) -> int:
    """Room kept for the metadata, from a stream of its own: none in half of the seeds."""
    return random.choice((0, 0, 2_048, 8_192))


def _draw_topic(random: Random) -> tuple[tuple[str, str], ...]:
    segment_bytes = random.choice((1_024, 2_048, 4_096, 16_384))
    return (
        ("flush.policy", random.choice(("ack", "ack", "ack", "os"))),
        ("segment.bytes", str(segment_bytes)),
        ("segment.ms", str(random.choice((300, 5_000, 604_800_000)))),
        ("index.interval.bytes", str(random.choice((0, 200, 1_000, 4_096)))),
        ("max.message.bytes", str(random.choice((16_384, 1_048_588)))),
    )


def _draw_cleaned_topic(random: Random) -> tuple[tuple[str, str], ...]:
    """Cleaned as soon as there is anything to clean: compacted, shortened by size or by age, both,
    or by what groups have read of it."""
    how = random.choice(("compact", "compact", "delete", "compact,delete", "age", "consumed"))
    is_by_age = how == "age"
    return (
        ("cleanup.policy", "delete" if is_by_age else how),
        ("segment.bytes", str(random.choice((1_024, 2_048)))),
        ("min.cleanable.dirty.ratio", "0.01"),
        ("delete.retention.ms", str(random.choice((0, 2**40, 2**40)))),
        ("retention.ms", str(random.choice((500, 100_000))) if is_by_age else "-1"),
        ("retention.bytes", "-1" if is_by_age else str(random.choice((2_000, 6_000)))),
    )


def _draw_node(random: Random, *, forgets_offsets: bool) -> NodeConfig:
    retention_minutes = SHORT_RETENTION_MINUTES if forgets_offsets else 7 * 24 * 60
    settings = node_settings(
        {
            "max.inflight.requests.per.connection": random.choice((1, 2, 5, 128)),
            "max.incremental.fetch.session.cache.slots": random.choice((0, 1, 1_000)),
            "connections.max.idle.ms": random.choice((1_000, 600_000)),
            "auto.create.topics.enable": random.random() < 0.5,
            "offsets.topic.num.partitions": random.choice((1, 3)),
            "log.cleaner.backoff.ms": random.choice((20, 100)),
            "log.retention.check.interval.ms": random.choice((50, 300)),
            "group.min.session.timeout.ms": 50,
            "group.initial.rebalance.delay.ms": random.choice((0, 50)),
            "offsets.retention.minutes": retention_minutes,
            "offsets.retention.check.interval.ms": random.choice((50, 300)),
            "group.consumer.session.timeout.ms": random.choice((100, 300)),
        }
    )
    # The nodes' clocks jump by hours here; the producers' don't, and are not to blame for it.
    defaults = {"message.timestamp.after.max.ms": 2**63 - 1}
    return NodeConfig(
        node_id=NodeId(1),
        host="localhost",
        port=9092,
        settings=settings,
        topic_defaults=defaults,
    )


def _draw_actors(random: Random) -> Actors:
    return Actors(
        plain_producers=random.randint(0, 2),
        idempotent_producers=random.randint(1, 3),
        consumers=random.randint(1, 3),
        probers=random.randint(0, 2),
        vandals=random.choice((0, 0, 1)),
        owners=random.choice((0, 1)),
        committers=random.choice((0, 1, 2)),
        members=random.choice((0, 0, 2, 3)),
        keepers=random.choice((0, 1, 1)),
        static_members=random.choice((0, 1, 2)),
        newer_members=random.choice((0, 0, 0, 2, 3)),
        configurers=random.choice((0, 0, 1)),
    )


def _draw_faults(random: Random, *, certain: str) -> tuple[str, ...]:
    """Some kinds, in their listed order; half of the runs fail in one or two ways only."""
    count = random.choice((1, 2, 3, 5, len(FAULT_KINDS)))
    chosen = [*random.sample(FAULT_KINDS, count), certain]
    return tuple(kind for kind in FAULT_KINDS if kind in chosen)
