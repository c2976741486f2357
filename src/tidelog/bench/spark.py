"""The lines about Spark: topics scanned and written, against the same rows as Parquet.

All in one session on two cores and in one run, so that only ratios matter. Scans go into Spark's
`noop` sink, which takes every row and keeps none. With a directory of jars Spark's own Kafka
connector scans the same topic beside ours.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING

from tidelog.bench.admin import Admin, WrongAnswer
from tidelog.bench.lines import Bench
from tidelog.bench.samples import SampleKey
from tidelog.bench.servers import ServerFailed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TOPIC = "spark-bench"
PARTITIONS = 4
_COPY = "spark-bench-copy"

_VALUE = "concat(sha2(cast(id as string), 256), substr(sha2(cast(id + 1 as string), 256), 1, 36))"
"""100 bytes that Parquet can't shrink to nothing."""


def spark(bench: Bench) -> None:
    """Scans, a write and the archive; each against Parquet, in alternation."""
    with (
        bench.fleet.server("node") as server,
        bench.fleet.empty_directory() as directory,
        _session(bench.connector_dir) as session,
    ):
        address = server.bootstrap
        rows = bench.scale.spark_rows
        _fill(session, address, rows)
        path = str(directory / "rows")
        topic = _topic(session, "tidelog", address)
        topic.write.parquet(path)
        runs = {**_scans(session, address, path), **_writes(session, address, path, directory)}
        if bench.connector_dir is not None:
            runs["spark.connector"] = lambda: _drain(_topic(session, "kafka", address))
        for run in runs.values():
            run()
        for _ in range(bench.scale.rounds):
            for line, run in runs.items():
                _keep(bench, line, rows, run)
        _check_archive(session, directory, rows)


def _scans(session: SparkSession, address: str, path: str) -> dict[str, Callable[[], None]]:
    """What is read, by the name of its line."""
    parquet = session.read.parquet(path)
    return {
        "spark.scan": lambda: _drain(_topic(session, "tidelog", address)),
        "spark.scan.parquet": lambda: _drain(parquet),
        "spark.column": lambda: _drain(_topic(session, "tidelog", address, columns="value")),
        "spark.column.parquet": lambda: _drain(parquet.select("value")),
    }


def _writes(
    session: SparkSession, address: str, path: str, directory: Path
) -> dict[str, Callable[[], None]]:
    """What is written. The archive and Spark's writer both read the topic, headers and all: what
    differs is the way from there to disk. Spark takes the rows through Java and writes them; the
    archive's tasks write them where they were decoded, and commit a Delta table on top."""
    written = session.read.parquet(path).select("key", "value")
    copy, files = str(directory / "copy"), str(directory / "files")
    return {
        "spark.write": lambda: _write(written, address),
        "spark.write.parquet": lambda: written.write.mode("overwrite").parquet(copy),
        "spark.archive": lambda: _archive(session, address, _lake(directory)),
        "spark.archive.writer": lambda: (
            _topic(session, "tidelog", address, includeHeaders="true")
            .write.mode("overwrite")
            .parquet(files)
        ),
    }


def _lake(directory: Path) -> Path:
    return directory / "lake"


def _archive(session: SparkSession, address: str, lake: Path) -> None:
    """From nothing: an archive that is there already has nothing to do."""
    from tidelog.spark.jobs.archive import ArchiveOptions, archive

    shutil.rmtree(lake, ignore_errors=True)
    with archive(session, ArchiveOptions(TOPIC, lake, address)) as job:
        job.catch_up()


def _check_archive(session: SparkSession, directory: Path, rows: int) -> None:
    from tidelog.spark.lake.archive_table import open_archive

    kept = session.read.parquet(str(directory / "files")).count()
    archived = sum(file.rows for file in open_archive(_lake(directory) / TOPIC).files())
    if not kept == archived == rows:
        raise WrongAnswer(f"of {rows} records Spark wrote {kept}, the archive {archived}")


def _keep(bench: Bench, line: str, rows: int, run: Callable[[], None]) -> None:
    started = time.perf_counter()
    run()
    seconds = time.perf_counter() - started
    bench.samples.add(SampleKey(line, "node", "raw"), {"records_per_s": rows / seconds})
    bench.say(line)


def _topic(session: SparkSession, source: str, address: str, **more: str) -> DataFrame:
    options = {"kafka.bootstrap.servers": address, "subscribe": TOPIC, **more}
    return session.read.format(source).options(**options).load()


def _drain(rows: DataFrame) -> None:
    rows.write.format("noop").mode("overwrite").save()


def _write(rows: DataFrame, address: str, topic: str = _COPY) -> None:
    options = {"kafka.bootstrap.servers": address, "topic": topic}
    rows.write.format("tidelog").options(**options).mode("append").save()


def _fill(session: SparkSession, address: str, rows: int) -> None:
    """Through the sink, with partitions chosen in turn."""
    made = session.range(rows, numPartitions=PARTITIONS).selectExpr(
        f"cast(id % {PARTITIONS} as int) as partition",
        "cast(id as string) as key",
        f"{_VALUE} as value",
    )
    _create_topics(address)
    _write(made, address, TOPIC)


def _create_topics(address: str) -> None:
    host, _, port = address.rpartition(":")
    with Admin(host, int(port)) as admin:
        for name in (TOPIC, _COPY):
            admin.create_topic(name, partitions=PARTITIONS, settings={})


@contextmanager
def _session(connector_dir: Path | None) -> Iterator[SparkSession]:
    """As people get it from `tidelog.spark.session()`, with the connector's jars if there are."""
    from tidelog.spark.errors import PipelineError
    from tidelog.spark.sessions import session

    settings: dict[str, str] = {}
    if connector_dir is not None:
        jars = sorted(str(path) for path in connector_dir.glob("*.jar"))
        if not jars:
            raise ServerFailed(f"there is no jar in {connector_dir}")
        settings["spark.jars"] = ",".join(jars)
    try:
        with TemporaryFile() as java_log:
            running = session("local[2]", app_name="tidelog-bench", java_log=java_log, **settings)
    except PipelineError as error:
        raise ServerFailed(str(error)) from None
    try:
        yield running
    finally:
        running.stop()
