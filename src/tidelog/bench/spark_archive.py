"""The archive against Spark's own Parquet writer: the same topic to files, in turn, in one run.

Both read with the reader of `format("tidelog")`; what differs is the way from there to disk. Spark
takes the rows through the JVM and writes them; the archive's tasks write them where they were
decoded, and commit a Delta table on top. Both must have written every record, or it is an error.
"""

from __future__ import annotations

import shutil
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from tidelog.bench.admin import WrongAnswer
from tidelog.spark.jobs.archive import ArchiveOptions, archive
from tidelog.spark.jobs.follower import BatchDone, Listener

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class ArchiveFigures:
    """Medians of one run."""

    records: int
    archive_s: float
    spark_writer_s: float

    @property
    def ratio(self) -> float:
        """How many times as fast the archive is; the target is 3."""
        return self.spark_writer_s / self.archive_s

    @property
    def archive_records_per_s(self) -> float:
        return self.records / self.archive_s

    @property
    def spark_writer_records_per_s(self) -> float:
        return self.records / self.spark_writer_s


def measure_archive(
    spark: SparkSession, *, bootstrap: str, topic: str, directory: Path, rounds: int = 3
) -> ArchiveFigures:
    """Of a topic that is there and filled. One more round goes before, so that all is loaded."""
    archive_s, spark_s = [], []
    records = 0
    for number in range(rounds + 1):
        place = directory / f"round-{number}"
        seconds, rows = _spark_writer(spark, bootstrap, topic, place / "parquet")
        spark_s.append(seconds)
        seconds, records = _archive(spark, bootstrap, topic, place / "lake")
        archive_s.append(seconds)
        if rows != records:
            raise WrongAnswer(f"Spark wrote {rows} records, the archive {records}")
        shutil.rmtree(place)
    return ArchiveFigures(records, median(archive_s[1:]), median(spark_s[1:]))


def _spark_writer(spark: SparkSession, bootstrap: str, topic: str, path: Path) -> tuple[float, int]:
    began_s = time.monotonic()
    (
        spark.read.format("tidelog")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", topic)
        .option("includeHeaders", "true")
        .load()
        .write.parquet(str(path))
    )
    took_s = time.monotonic() - began_s
    return took_s, spark.read.parquet(str(path)).count()


def _archive(spark: SparkSession, bootstrap: str, topic: str, lake: Path) -> tuple[float, int]:
    done: list[BatchDone] = []
    began_s = time.monotonic()
    with archive(
        spark, ArchiveOptions(topic, lake, bootstrap), Listener(on_batch=done.append)
    ) as job:
        job.catch_up()
    return time.monotonic() - began_s, sum(batch.moved.rows for batch in done)
