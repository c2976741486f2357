"""A whole run: the chosen lines, one after the other, on the servers that take part."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tidelog.bench import lines
from tidelog.bench.cold import cold
from tidelog.bench.compaction import compaction
from tidelog.bench.failover import failover
from tidelog.bench.fleet import Fleet
from tidelog.bench.groups import groups
from tidelog.bench.lines import Bench, Scale
from tidelog.bench.machine import facts
from tidelog.bench.measure import Measure
from tidelog.bench.replicated import replicated
from tidelog.bench.rows import Row, build_rows
from tidelog.bench.samples import Samples
from tidelog.bench.spark import spark
from tidelog.bench.warmup import warm_up

LINES: dict[str, Callable[[Bench], None]] = {
    "produce": lines.produce,
    "consume": lines.consume,
    "latency": lines.latency,
    "requests": lines.requests,
    "partitions": lines.partitions,
    "connections": lines.connections,
    "start": lines.start,
    "memory": lines.memory,
    "cold": cold,
    "groups": groups,
    "compaction": compaction,
    "replicated": replicated,
    "failover": failover,
    "spark": spark,
}


@dataclass(frozen=True, slots=True)
class Run:
    """What a run has found."""

    rows: list[Row]
    samples: Samples
    facts: dict[str, str]
    has_kafka: bool


def run(
    names: Sequence[str],
    *,
    scale: Scale,
    kafka_dir: Path | None,
    bootstrap: str | None,
    say: Callable[[str], None],
    connector_dir: Path | None = None,
) -> Run:
    """Measure the lines `names` (of `LINES`); `say` hears of every step."""
    samples = Samples()
    with Fleet(kafka_dir=kafka_dir, bootstrap=bootstrap) as fleet:
        about = facts(fleet.directory)
        measure = Measure(scale.seconds, fleet.directory)
        bench = Bench(fleet, measure, scale, samples, say, connector_dir)
        if kafka_dir is not None:
            about["apache kafka"] = kafka_version(kafka_dir)
            # Its resting memory must be read before there has been any work.
            if "memory" in names:
                lines.memory(bench)
            warm_up(bench)
        for name in names:
            if not (name == "memory" and kafka_dir is not None):
                LINES[name](bench)
    return Run(build_rows(samples), samples, about, has_kafka=kafka_dir is not None)


def kafka_version(kafka_dir: Path) -> str:
    """From the name of its jar: `kafka_2.13-4.1.0.jar`."""
    jars = sorted((kafka_dir / "libs").glob("kafka_*.jar"))
    return jars[0].stem.rpartition("-")[2] if jars else "unknown"
