"""The table as data: which figure stands in which row, what it is held against, and its target."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from tidelog.bench.figures import GENERATOR_BOUND
from tidelog.bench.samples import Driver, SampleKey, Samples
from tidelog.bench.servers import Kind

Subject = Literal["value", "ratio", "kafka"]
"""What a target is about: the node's figure, its ratio to the baseline, or to Kafka's."""


@dataclass(frozen=True, slots=True)
class Target:
    """`at_least` or `at_most`, whichever is given."""

    subject: Subject
    at_least: float | None = None
    at_most: float | None = None

    def is_met(self, value: float) -> bool:
        if self.at_least is not None:
            return value >= self.at_least
        assert self.at_most is not None, "a target needs a bound"
        return value <= self.at_most

    def text(self) -> str:
        bound = self.at_least if self.at_least is not None else self.at_most
        sign = "≥" if self.at_least is not None else "≤"
        unit = {"value": "", "ratio": " R", "kafka": " Kafka"}[self.subject]
        return f"{sign} {bound:,g}{unit}"


@dataclass(frozen=True, slots=True)
class RowSpec:
    """One row. Without a `baseline` line, the baseline is the reference of the same line."""

    title: str
    line: str
    metric: str
    targets: Sequence[Target] = ()
    baseline: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """What is printed. `verdict` is None where a target could not be judged in this run."""

    title: str
    metric: str
    raw: float | None
    client: float | None
    baseline: float | None
    ratio: float | None
    kafka_raw: float | None
    kafka_client: float | None
    kafka_ratio: float | None
    is_generator_bound: bool
    targets: str
    verdict: bool | None


def _faster(times: float) -> Target:
    return Target("kafka", at_least=times)


_CHEAPER_THAN_KAFKA = Target("kafka", at_most=0.5)

MANY_MEMBERS, FEWER_MEMBERS = 10_000, 1_000
"""How many idle members there are, in full and with `--quick`: a figure of its own each."""


def _idle_members(members: int) -> tuple[RowSpec, ...]:
    line, title = f"groups.idle.{members}", f"{members:,} idle members"
    return (
        RowSpec(f"{title}: CPU, % of a core", line, "cpu_percent"),
        RowSpec(f"{title}: heartbeat p99 ms", line, "p99_ms"),
        RowSpec(f"{title}: MB RSS", line, "rss_mb"),
        RowSpec(f"{title}: KB RSS a member", line, "kb_per_member"),
    )


def _as_installed(title: str) -> tuple[RowSpec, ...]:
    """This node flushes before it acknowledges, Apache Kafka does not: so it stands beside it."""
    line = "installed"
    return (
        RowSpec(
            f"{title}: CPU µs each", line, "cpu_us_per_request", (Target("kafka", at_most=1.3),)
        ),
        RowSpec(f"{title}: p50 ms", line, "p50_ms", (Target("value", at_most=1.2),)),
        RowSpec(f"{title}: p99 ms", line, "p99_ms", (Target("value", at_most=4),)),
    )


def _failover(line: str, what: str, *, at_most_s: float) -> tuple[RowSpec, ...]:
    target = (Target("value", at_most=at_most_s),)
    return (
        RowSpec(f"{what}: a producer's gap, s", line, "gap_s", target),
        RowSpec(f"{what}: the longest gap, s", line, "longest_gap_s", target),
    )


ROW_SPECS: tuple[RowSpec, ...] = (
    RowSpec(
        "produce 1 KB, acks=1, os: msg/s",
        "produce.os",
        "records_per_s",
        (Target("ratio", at_least=0.6), Target("value", at_least=800_000), _faster(1.3)),
    ),
    RowSpec(
        "produce 1 KB, acks=1, os: CPU s/GB",
        "produce.os",
        "cpu_s_per_gb",
        (Target("value", at_most=0.8), _CHEAPER_THAN_KAFKA),
    ),
    RowSpec(
        "produce 1 KB, acks=all, flushed: msg/s, against os",
        "produce.flushed",
        "records_per_s",
        (Target("ratio", at_least=0.6), _faster(1.3)),
        baseline="produce.os",
    ),
    RowSpec(
        "produce 1 KB, acks=all, flushed: CPU s/GB",
        "produce.flushed",
        "cpu_s_per_gb",
        baseline="produce.os",
    ),
    RowSpec("produce 100 B, acks=1, os: msg/s", "produce.100", "records_per_s", (_faster(1.3),)),
    RowSpec("produce 100 B, acks=1, os: CPU s/GB", "produce.100", "cpu_s_per_gb"),
    RowSpec(
        "consume 1 KB: msg/s",
        "consume",
        "records_per_s",
        (Target("ratio", at_least=0.6), _faster(1.3)),
    ),
    RowSpec(
        "consume 1 KB: CPU s/GB",
        "consume",
        "cpu_s_per_gb",
        (Target("value", at_most=0.6), _CHEAPER_THAN_KAFKA),
    ),
    RowSpec("produce and consume together: MB/s in sum", "both", "mb_per_s"),
    RowSpec("produce and consume together: CPU s/GB", "both", "cpu_s_per_gb"),
    RowSpec(
        "latency at 5,000 msg/s, os: p50 ms",
        "latency.os",
        "p50_ms",
        (Target("value", at_most=0.5),),
    ),
    RowSpec(
        "latency at 5,000 msg/s, os: p99 ms", "latency.os", "p99_ms", (Target("value", at_most=3),)
    ),
    RowSpec("latency at 5,000 msg/s, os: p99.9 ms", "latency.os", "p999_ms"),
    RowSpec(
        "latency at 5,000 msg/s, flushed: p50 ms",
        "latency.flushed",
        "p50_ms",
        (Target("value", at_most=1.5),),
    ),
    RowSpec(
        "latency at 5,000 msg/s, flushed: p99 ms",
        "latency.flushed",
        "p99_ms",
        (Target("value", at_most=6),),
    ),
    RowSpec("latency at 5,000 msg/s, flushed: p99.9 ms", "latency.flushed", "p999_ms"),
    RowSpec(
        "smallest requests, 50 connections: 1/s",
        "requests.smallest",
        "requests_per_s",
        (Target("value", at_least=20_000),),
    ),
    RowSpec(
        "smallest requests, 50 connections: CPU µs each",
        "requests.smallest",
        "cpu_us_per_request",
    ),
    RowSpec(
        "one-record produce, 50 connections, os: 1/s",
        "requests.produce",
        "requests_per_s",
        (Target("value", at_least=20_000),),
    ),
    RowSpec(
        "one-record produce, 50 connections, os: CPU µs each",
        "requests.produce",
        "cpu_us_per_request",
    ),
    RowSpec(
        "one-record produce, 50 connections, flushed: 1/s", "requests.flushed", "requests_per_s"
    ),
    RowSpec(
        "one-record produce, 50 connections, flushed: CPU µs each",
        "requests.flushed",
        "cpu_us_per_request",
    ),
    *_as_installed("4,000 single records/s, as installed"),
    RowSpec(
        "1,000 partitions against 1: CPU s/GB",
        "partitions.1000",
        "cpu_s_per_gb",
        (Target("ratio", at_most=1.5),),
        baseline="partitions.1",
    ),
    RowSpec(
        "1,000 partitions against 1: MB/s", "partitions.1000", "mb_per_s", baseline="partitions.1"
    ),
    RowSpec(
        "500 connections against 1: CPU s/GB",
        "connections.500",
        "cpu_s_per_gb",
        (Target("ratio", at_most=1.5),),
        baseline="connections.1",
    ),
    RowSpec(
        "500 connections against 1: MB/s", "connections.500", "mb_per_s", baseline="connections.1"
    ),
    RowSpec(
        "start to ready, empty: s",
        "start.empty",
        "seconds",
        (Target("value", at_most=0.4), Target("kafka", at_most=0.1)),
    ),
    RowSpec(
        "start to ready, 1,000 partitions, after a clean stop: s",
        "start.loaded",
        "seconds",
        (Target("value", at_most=1.0),),
    ),
    RowSpec(
        "memory, idle: MB RSS",
        "memory.idle",
        "rss_mb",
        (Target("value", at_most=60), _CHEAPER_THAN_KAFKA),
    ),
    RowSpec("memory, peak while producing: MB RSS", "memory.loaded", "rss_mb"),
    RowSpec(
        "1,000 single records/s beside a cold scan, against none: p99 ms",
        "cold.beside",
        "p99_ms",
        (Target("ratio", at_most=3),),
        baseline="cold.none",
    ),
    RowSpec("cold scan: MB/s", "cold.scan", "mb_per_s"),
    RowSpec("cold scan: CPU s/GB", "cold.scan", "cpu_s_per_gb"),
    RowSpec("group join to first record: ms", "groups.join", "milliseconds"),
    RowSpec(
        "group join to first record, no initial delay: ms", "groups.join.at_once", "milliseconds"
    ),
    RowSpec("offset commits, flushed: 1/s", "groups.commits", "requests_per_s"),
    RowSpec("offset commits, flushed: CPU s/100,000", "groups.commits", "cpu_s_per_100k"),
    *_idle_members(MANY_MEMBERS),
    *_idle_members(FEWER_MEMBERS),
    RowSpec("compaction: MB/s", "compaction", "mb_per_s"),
    RowSpec("compaction: MB a CPU s", "compaction", "mb_per_cpu_s"),
    RowSpec(
        "produce during compaction, against none: p99 ms",
        "compaction.produce",
        "p99_ms",
        baseline="compaction.none",
    ),
    RowSpec("three copies, 1 KB, acks=all, os: MB/s", "replicated.os", "mb_per_s", (_faster(1.0),)),
    RowSpec(
        "three copies, 1 KB, acks=all, os: CPU s/GB of all three", "replicated.os", "cpu_s_per_gb"
    ),
    RowSpec(
        "three copies, 1 KB, acks=all, flushed: MB/s, against os",
        "replicated.flushed",
        "mb_per_s",
        baseline="replicated.os",
    ),
    RowSpec(
        "three copies, 1 KB, acks=all, flushed: CPU s/GB of all three",
        "replicated.flushed",
        "cpu_s_per_gb",
        baseline="replicated.os",
    ),
    *_failover("failover.kill", "kill -9 of a leader", at_most_s=4),
    *_failover("failover.stop", "SIGTERM of a leader", at_most_s=1),
    RowSpec(
        "Spark scan of all columns, against Parquet: rows/s",
        "spark.scan",
        "records_per_s",
        (Target("ratio", at_least=0.6),),
        baseline="spark.scan.parquet",
    ),
    RowSpec(
        "Spark scan of one column, against Parquet: rows/s",
        "spark.column",
        "records_per_s",
        (Target("ratio", at_least=0.5),),
        baseline="spark.column.parquet",
    ),
    RowSpec(
        "Spark write, against Parquet: rows/s",
        "spark.write",
        "records_per_s",
        baseline="spark.write.parquet",
    ),
    RowSpec(
        "Spark archive, against Spark's Parquet writer: rows/s",
        "spark.archive",
        "records_per_s",
        (Target("ratio", at_least=3),),
        baseline="spark.archive.writer",
    ),
    RowSpec(
        "Spark scan, against Spark's Kafka connector: rows/s",
        "spark.scan",
        "records_per_s",
        (Target("ratio", at_least=2),),
        baseline="spark.connector",
    ),
)


def build_rows(samples: Samples, specs: Sequence[RowSpec] = ROW_SPECS) -> list[Row]:
    """The rows of what was measured. No row without the line, or what it is held against."""
    return [row for spec in specs if (row := _build_row(samples, spec)) is not None]


def _build_row(samples: Samples, spec: RowSpec) -> Row | None:
    def figure(server: Kind, driver: Driver, line: str = spec.line) -> float | None:
        return samples.median(SampleKey(line, server, driver), spec.metric)

    raw = figure("node", "raw")
    if raw is None:
        return None
    if spec.baseline:
        baseline = figure("node", "raw", spec.baseline)
        if baseline is None:
            return None
    else:
        baseline = figure("reference", "raw")
    kafka = figure("kafka", "raw")
    subjects = {"value": raw, "ratio": _ratio(raw, baseline), "kafka": _ratio(raw, kafka)}
    judged = [
        target.is_met(value)
        for target in spec.targets
        if (value := subjects[target.subject]) is not None
    ]
    busy = samples.median(SampleKey(spec.line, "node", "raw"), "generator_busy")
    return Row(
        title=spec.title,
        metric=spec.metric,
        raw=raw,
        client=figure("node", "client"),
        baseline=baseline,
        ratio=subjects["ratio"],
        kafka_raw=kafka,
        kafka_client=figure("kafka", "client"),
        kafka_ratio=subjects["kafka"],
        is_generator_bound=busy is not None and busy > GENERATOR_BOUND,
        targets=", ".join(
            target.text() for target in spec.targets if subjects[target.subject] is not None
        ),
        verdict=all(judged) if judged else None,
    )


def _ratio(value: float, of: float | None) -> float | None:
    return value / of if of else None
