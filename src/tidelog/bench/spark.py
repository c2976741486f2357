"""The lines about Spark: topics scanned and written, against the same rows as Parquet.

All in one session on two cores and in one run, so that only ratios matter. Scans go into Spark's
`noop` sink, which takes every row and keeps none. With a directory of jars Spark's own Kafka
connector scans the same topic beside ours.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidelog.bench.admin import Admin
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
    """Full-column scan, one-column scan, write; each against Parquet, in alternation."""
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
        runs = _runs(session, address, path, directory, has_connector=bool(bench.connector_dir))
        for run in runs.values():
            run()
        for _ in range(bench.scale.rounds):
            for line, run in runs.items():
                _keep(bench, line, rows, run)


def _runs(
    session: SparkSession, address: str, path: str, directory: Path, *, has_connector: bool
) -> dict[str, Callable[[], None]]:
    """What is measured, by the name of its line."""
    parquet = session.read.parquet(path)
    written = parquet.select("key", "value")
    runs: dict[str, Callable[[], None]] = {
        "spark.scan": lambda: _drain(_topic(session, "tidelog", address)),
        "spark.scan.parquet": lambda: _drain(parquet),
        "spark.column": lambda: _drain(_topic(session, "tidelog", address, columns="value")),
        "spark.column.parquet": lambda: _drain(parquet.select("value")),
        "spark.write": lambda: _write(written, address),
        "spark.write.parquet": lambda: written.write.mode("overwrite").parquet(
            str(directory / "copy")
        ),
    }
    if has_connector:
        runs["spark.ours"] = runs["spark.scan"]
        runs["spark.connector"] = lambda: _drain(_topic(session, "kafka", address))
    return runs


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
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise ServerFailed("Spark is not installed: pip install 'tidelog[spark]'") from None
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        raise ServerFailed("Spark needs Java 17: install it, or set JAVA_HOME")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    settings: dict[str, Any] = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.python.filterPushdown.enabled": "true",
    }
    if connector_dir is not None:
        jars = sorted(str(path) for path in connector_dir.glob("*.jar"))
        if not jars:
            raise ServerFailed(f"there is no jar in {connector_dir}")
        settings["spark.jars"] = ",".join(jars)
    builder = SparkSession.builder.master("local[2]").appName("tidelog-bench")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    try:
        yield session
    finally:
        session.stop()
