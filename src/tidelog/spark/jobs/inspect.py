"""Inspect a topic: what is in it, how it flows, and what is odd about it.

The range of offsets is fixed first, so that all figures are of the same records, however fast the
topic grows. Three passes over it, each an aggregation that Spark spreads and spills: by partition
and time, by key, and in offset order for late records. Groups and their lag come from the broker,
the schema from a sample.

- *gaps*: offsets in the range without a record: compaction, transaction markers, deleted records.
- *skew*: the fullest partition against the mean; 1 is even.
- *late*: a record whose timestamp is before that of an earlier one in its partition.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from tidelog.client import Admin, Connection
from tidelog.client.admin import Offsets
from tidelog.model.ids import TopicPartition
from tidelog.spark.sampling import sample
from tidelog.spark.schema_guess import Guess, guess

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BUCKETS = 60
"""Points of the throughput curve."""

_MOST_LATENESS_BARS = 12


@dataclass(frozen=True, slots=True)
class PartitionFacts:
    """One partition, within the range looked at."""

    partition: int
    first_offset: int
    last_offset: int
    records: int
    gaps: int
    data_bytes: int
    first_ms: int
    last_ms: int
    late: int
    latest_by_ms: int


@dataclass(frozen=True, slots=True)
class HotKey:
    """A key and how often it is there; None is the records without one."""

    key: str | None
    records: int
    share: float


@dataclass(frozen=True, slots=True)
class Bucket:
    """A stretch of time and what came in it."""

    start_ms: int
    records: int
    data_bytes: int


@dataclass(frozen=True, slots=True)
class GroupLag:
    """A group that reads the topic, and how many records it has not read."""

    group: str
    lag: int


@dataclass(frozen=True, slots=True)
class Report:
    """All that was found."""

    topic: str
    partitions: list[PartitionFacts]
    tombstones: int
    value_bytes: Mapping[str, int]
    bucket_ms: int
    buckets: list[Bucket]
    distinct_keys: int
    hot_keys: list[HotKey]
    late_by: list[tuple[str, int]]
    groups: list[GroupLag]
    schema: Guess = field(default_factory=lambda: Guess("empty"))

    @property
    def records(self) -> int:
        return sum(each.records for each in self.partitions)

    @property
    def data_bytes(self) -> int:
        return sum(each.data_bytes for each in self.partitions)

    @property
    def late(self) -> int:
        return sum(each.late for each in self.partitions)

    @property
    def gaps(self) -> int:
        return sum(each.gaps for each in self.partitions)

    @property
    def seconds(self) -> float:
        """Between the first and the last timestamp."""
        filled = [each for each in self.partitions if each.records]
        if not filled:
            return 0.0
        span_ms = max(each.last_ms for each in filled) - min(each.first_ms for each in filled)
        return span_ms / 1000

    @property
    def skew(self) -> float:
        if not self.records:
            return 1.0
        return max(each.records for each in self.partitions) * len(self.partitions) / self.records

    def document(self) -> dict[str, Any]:
        """For programs."""
        found = asdict(self)
        found["schema"] = {**asdict(self.schema), "ddl": self.schema.ddl}
        found["late_by"] = [{"upTo": name, "records": count} for name, count in self.late_by]
        for name in ("records", "data_bytes", "late", "gaps", "seconds", "skew"):
            found[name] = getattr(self, name)
        return found


def inspect(
    spark: SparkSession,
    topic: str,
    *,
    bootstrap: str,
    hot_keys: int = 10,
    newest: int | None = None,
) -> Report:
    """Look at the topic, or at the `newest` records of each partition."""
    connection = Connection(bootstrap)
    admin = Admin(connection)
    described = admin.topic(topic)
    spans = admin.offsets(described.topic_partitions)
    ranges = {place.partition: _chosen(span, newest) for place, span in spans.items()}
    rows = _rows(spark, topic, bootstrap, ranges)
    by_partition, totals = _by_partition(rows)
    late, late_by = _late(rows)
    bucket_ms, buckets = _over_time(rows, by_partition)
    keys, hottest = _keys(rows, hot_keys, totals["records"])
    return Report(
        topic=topic,
        partitions=[
            _partition(number, span, by_partition.get(number), late.get(number, (0, 0)))
            for number, span in sorted(ranges.items())
        ],
        tombstones=totals["tombstones"],
        value_bytes=totals["value_bytes"],
        bucket_ms=bucket_ms,
        buckets=buckets,
        distinct_keys=keys,
        hot_keys=hottest,
        late_by=late_by,
        groups=_lags(admin, spans),
        schema=guess(record.value for record in sample(connection, described)),
    )


def _chosen(span: Offsets, newest: int | None) -> Offsets:
    start = span.start if newest is None else max(span.start, span.end - newest)
    return Offsets(start, span.end)


def _rows(
    spark: SparkSession, topic: str, bootstrap: str, ranges: Mapping[int, Offsets]
) -> DataFrame:
    """Sizes instead of values: they are all that is needed, and small."""
    starts = {str(number): span.start for number, span in ranges.items()}
    ends = {str(number): span.end for number, span in ranges.items()}
    source = spark.read.format("tidelog").option("kafka.bootstrap.servers", bootstrap)
    records = (
        source.option("subscribe", topic)
        .option("startingOffsets", json.dumps({topic: starts}))
        .option("endingOffsets", json.dumps({topic: ends}))
        .load()
    )
    return records.selectExpr(
        "key",
        "partition",
        "offset",
        "unix_millis(timestamp) AS time_ms",
        "value IS NULL AS is_tombstone",
        "coalesce(length(value), 0) AS value_bytes",
        "coalesce(length(key), 0) + coalesce(length(value), 0) AS data_bytes",
    )


def _by_partition(rows: DataFrame) -> tuple[dict[int, Any], dict[str, Any]]:
    """Per partition, and of all together: one pass."""
    found = (
        rows.groupBy("partition")
        .agg(
            *_expressions(
                "count(*) AS records",
                "sum(data_bytes) AS data_bytes",
                "min(time_ms) AS first_ms",
                "max(time_ms) AS last_ms",
                "count_if(is_tombstone) AS tombstones",
                "percentile_approx(value_bytes, array(0.5, 0.99)) AS sizes",
                "max(value_bytes) AS largest",
            )
        )
        .collect()
    )
    total = sum(row["records"] for row in found)
    sizes = {
        "median": _weighted(found, 0, total),
        "p99": max((row["sizes"][1] for row in found), default=0),
        "max": max((row["largest"] for row in found), default=0),
    }
    totals = {
        "records": total,
        "tombstones": sum(row["tombstones"] for row in found),
        "value_bytes": sizes,
    }
    return {row["partition"]: row for row in found}, totals


def _weighted(rows: list[Any], which: int, total: int) -> int:
    """The mean of the partitions' medians, by their records: near enough to say how large."""
    return round(sum(row["sizes"][which] * row["records"] for row in rows) / total) if total else 0


def _expressions(*texts: str) -> list[Any]:
    from pyspark.sql import functions as F

    return [F.expr(text) for text in texts]


def _late(rows: DataFrame) -> tuple[dict[int, tuple[int, int]], list[tuple[str, int]]]:
    """Late records of each partition and by how much the latest is; and a histogram of it."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    before = (
        Window.partitionBy("partition").orderBy("offset").rowsBetween(Window.unboundedPreceding, -1)
    )
    late_ms = F.max("time_ms").over(before) - F.col("time_ms")
    late = rows.select("partition", late_ms.alias("late_ms")).where("late_ms > 0")
    found = (
        late.groupBy("partition", F.expr("cast(log10(late_ms) AS int)").alias("power"))
        .agg(F.count("*").alias("records"), F.max("late_ms").alias("most"))
        .collect()
    )
    by_partition: dict[int, tuple[int, int]] = {}
    by_power: dict[int, int] = {}
    for row in found:
        records, most = by_partition.get(row["partition"], (0, 0))
        by_partition[row["partition"]] = (records + row["records"], max(most, row["most"]))
        by_power[row["power"]] = by_power.get(row["power"], 0) + row["records"]
    powers = sorted(by_power)[:_MOST_LATENESS_BARS]
    return by_partition, [(_up_to(power), by_power[power]) for power in powers]


def _up_to(power: int) -> str:
    """The upper end of a decade of milliseconds, for people."""
    milliseconds = 10 ** (power + 1)
    for name, size in (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1000)):
        if milliseconds >= size:
            return f"{milliseconds / size:.3g} {name}"
    return f"{milliseconds} ms"


def _over_time(rows: DataFrame, by_partition: Mapping[int, Any]) -> tuple[int, list[Bucket]]:
    if not by_partition:
        return 1, []
    first = min(row["first_ms"] for row in by_partition.values())
    last = max(row["last_ms"] for row in by_partition.values())
    width = max(1, -(-(last - first + 1) // BUCKETS))
    found = (
        rows.groupBy(*_expressions(f"cast((time_ms - {first}) div {width} AS bigint) AS bucket"))
        .agg(*_expressions("count(*) AS records", "sum(data_bytes) AS data_bytes"))
        .collect()
    )
    counted = {row["bucket"]: row for row in found}
    return width, [
        Bucket(
            first + number * width,
            counted[number]["records"] if number in counted else 0,
            counted[number]["data_bytes"] if number in counted else 0,
        )
        for number in range(max(counted) + 1)
    ]


def _keys(rows: DataFrame, most: int, total: int) -> tuple[int, list[HotKey]]:
    from pyspark.sql import functions as F

    counted = rows.groupBy("key").agg(F.count("*").alias("records"))
    distinct = rows.select(F.approx_count_distinct("key").alias("n")).collect()[0]["n"]
    hottest = counted.orderBy(F.desc("records"), "key").limit(most).collect() if most else []
    return distinct, [
        HotKey(_key_text(row["key"]), row["records"], row["records"] / total) for row in hottest
    ]


def _key_text(key: bytes | None) -> str | None:
    return None if key is None else bytes(key).decode(errors="backslashreplace")


def _partition(number: int, span: Offsets, row: Any, late: tuple[int, int]) -> PartitionFacts:
    records = row["records"] if row is not None else 0
    return PartitionFacts(
        partition=number,
        first_offset=span.start,
        last_offset=span.end - 1,
        records=records,
        gaps=span.records - records,
        data_bytes=row["data_bytes"] if row is not None else 0,
        first_ms=row["first_ms"] if row is not None else -1,
        last_ms=row["last_ms"] if row is not None else -1,
        late=late[0],
        latest_by_ms=late[1],
    )


def _lags(admin: Admin, spans: Mapping[TopicPartition, Offsets]) -> list[GroupLag]:
    names = [group.name for group in admin.groups()]
    found = []
    for name, committed in admin.committed_by(names).items():
        ours = {place: offset for place, offset in committed.items() if place in spans}
        if ours:
            behind = (
                max(0, spans[place].end - max(offset, spans[place].start))
                for place, offset in ours.items()
            )
            found.append(GroupLag(name, sum(behind)))
    return sorted(found, key=lambda each: each.group)
