"""A topic as one table: what is archived from the lake, the rest from the log.

The cut is exact in each partition: the lake's version that is read says which offset comes next,
and the log is read from there. So no row is missing or there twice, whatever is archived or deleted
meanwhile: rows that retention has removed from the log are in the lake, and rows archived after
the cut was taken are still read from the log. If the log begins after the cut, rows were deleted
that nobody archived, and that is an error with their offsets.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from tidelog.client.connection import connection_to
from tidelog.model.ids import TopicPartition
from tidelog.spark.cluster import EARLIEST, Cluster
from tidelog.spark.errors import OptionError
from tidelog.spark.jobs.log_ranges import OnLoss, log_ranges
from tidelog.spark.lake.archive_table import ArchiveTable, open_archive
from tidelog.spark.lake.errors import NoLake
from tidelog.spark.lake.rows import archived_rows
from tidelog.spark.lake.schema import COLUMNS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Tier = Literal["auto", "hot", "cold"]

_WITHOUT_HEADERS = tuple(name for name in COLUMNS if name != "headers")


def topic(
    spark: SparkSession,
    name: str,
    *,
    tier: Tier = "auto",
    lake: str | Path | None = None,
    bootstrap: str | None = None,
    columns: Sequence[str] | None = None,
    include_headers: bool = False,
    on_loss: OnLoss = "fail",
) -> DataFrame:
    """The records of a topic, with the columns of Spark's Kafka source.

    `lake` is the directory that `tidelog spark archive --to` was given. `tier="hot"` reads the log
    alone, `"cold"` the lake alone (no broker needed), `"auto"` both; without a lake, or before the
    first archive, `"auto"` is the log.
    """
    if tier not in ("auto", "hot", "cold"):
        raise OptionError(f"tier must be auto, hot or cold, not {tier!r}")
    chosen = tuple(columns or (COLUMNS if include_headers else _WITHOUT_HEADERS))
    unknown = [column for column in chosen if column not in COLUMNS]
    if unknown:
        raise OptionError(f"there is no column {unknown[0]!r}; there are {', '.join(COLUMNS)}")
    address = connection_to(bootstrap).bootstrap
    table = None if tier == "hot" else _archive(name, lake, is_needed=tier == "cold")
    if table is None:
        return _log_rows(spark, name, address, chosen, starts=None, on_loss=on_loss)
    cold = archived_rows(spark, table, columns=chosen)
    if tier == "cold":
        return cold
    starts = _starts(table, name, address, on_loss=on_loss)
    hot = _log_rows(spark, name, address, chosen, starts=starts, on_loss=on_loss)
    return cold.union(hot)


def _archive(name: str, lake: str | Path | None, *, is_needed: bool) -> ArchiveTable | None:
    if lake is None:
        if is_needed:
            raise OptionError('tier="cold" needs the lake: lake="./lake"')
        return None
    try:
        return open_archive(Path(lake).absolute() / name)
    except NoLake:
        if is_needed:
            raise
        return None


def _starts(table: ArchiveTable, name: str, bootstrap: str, *, on_loss: OnLoss) -> dict[int, int]:
    """Where the log takes over, for each partition the topic has now."""
    with Cluster(bootstrap) as cluster:
        view = cluster.topic(name)
        table.check_topic(name, view.topic_id)
        places = [TopicPartition(name, partition) for partition in view.partitions]
        ends = cluster.latest(places)
        cuts = table.cuts(view.partitions)
        log_ranges(name, cuts, cluster.earliest(places), ends, on_loss=on_loss)
    return {partition: cuts.get(partition, EARLIEST) for partition in view.partitions}


def _log_rows(
    spark: SparkSession,
    name: str,
    bootstrap: str,
    columns: Sequence[str],
    *,
    starts: dict[int, int] | None,
    on_loss: OnLoss,
) -> DataFrame:
    reader = (
        spark.read.format("tidelog")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", name)
        .option("isolation.level", "read_committed")
        .option("includeHeaders", str("headers" in columns).lower())
        .option("columns", ",".join(columns))
        .option("failOnDataLoss", str(on_loss == "fail").lower())
    )
    if starts is not None:
        offsets = {str(partition): starts[partition] for partition in sorted(starts)}
        reader = reader.option("startingOffsets", json.dumps({name: offsets}))
    return reader.load().select(*columns)
