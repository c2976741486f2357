"""`tidelog demo pipeline`: from a stream of orders, good and bad, to a chart, on Spark.

The pipeline is the template `shop`, run as people run it: by the command, in a process of its own.
The archive and the query share a session in this one. Afterwards every sum is compared with what
was sent.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidelog.cli.demo_orders import Record, Sent, first_orders, further_orders
from tidelog.cli.demo_story import Story, money
from tidelog.cli.failure import CommandFailed
from tidelog.cli.node_process import NodeProcess
from tidelog.cli.output import add_rows, table
from tidelog.cli.spark_options import spark_session
from tidelog.client import Admin, Connection, Producer, Reader

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TOPIC = "orders"
CLEAN, DEAD, MINUTES = f"{TOPIC}.clean", f"{TOPIC}.dead", f"{TOPIC}.per-minute"
PARTITIONS = 3
FIRST, FURTHER = 20_000, 1_000
DELAY = timedelta(hours=1)
"""How long the template's windows wait for late orders."""

READ_TIMEOUT_S = 60.0
_QUERY = """
with once as (select distinct `order`, city, cents from orders where cents > 0 and city is not null)
select city, count(*) as orders, sum(cents) as cents from once group by city order by city
"""
_SPARK = ["spark.sql.shuffle.partitions=2"]


def run(chart: Path, story: Story) -> None:
    """The whole part; `CommandFailed` if a sum is wrong."""
    from tidelog.spark.java import find_java
    from tidelog.spark.sessions import need_packages

    need_packages()
    find_java()
    with (
        tempfile.TemporaryDirectory(prefix="tidelog-demo-") as name,
        NodeProcess(Path(name) / "data") as node,
    ):
        directory = Path(name)
        story.tell(f"a node is ready at {node.bootstrap}")
        connection = Connection(node.bootstrap)
        for topic in (TOPIC, CLEAN, DEAD, MINUTES):
            Admin(connection).create_topic(topic, partitions=PARTITIONS)
        sent = Sent()
        _send(connection, first_orders(FIRST, sent))
        story.tell(
            f"{sent.records:,} records sent to {TOPIC}: {sent.late:,} late, {sent.twice:,} twice, "
            f"{sent.broken:,} broken"
        )
        _run_pipeline(directory, node.bootstrap, story)
        _check_topics(connection, sent, story)
        rows = _archive_and_ask(connection, directory, sent, story)
        _check_answer(rows, sent)
        _draw(rows, chart, story)
    story.conclude(
        "Every order counted once: the broken set aside, the doubles left out, the late in their "
        "minute, the archive and the live log read as one."
    )


def _send(connection: Connection, records: list[Record]) -> None:
    with Producer(connection) as producer:
        for record in records:
            producer.send(TOPIC, record.value, key=record.key)


def _run_pipeline(directory: Path, bootstrap: str, story: Story) -> None:
    """Cleans, windows, and routes what is bad to a topic of its own."""
    shop = directory / "shop"
    _command(story, bootstrap, "init", str(shop), "--template", "shop", "--topic", TOPIC)
    story.tell("a pipeline, from the template shop: clean, per minute, dead letters")
    with story.console.status("the pipeline runs on Spark"):
        _command(story, bootstrap, "run", str(shop))
    story.tell("the pipeline has run over all that was there")


def _command(story: Story, bootstrap: str, *arguments: str) -> None:
    """`tidelog spark pipeline …` in a process of its own: its Java ends with it."""
    done = subprocess.run(
        [sys.executable, "-m", "tidelog", "spark", "pipeline", *arguments, "--json"],
        env={**os.environ, "TIDELOG_BOOTSTRAP": bootstrap},
        capture_output=True,
        text=True,
    )
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["it said nothing"]
        raise CommandFailed(f"the pipeline failed: {lines[-1].removeprefix('error: ')}")


def _check_topics(connection: Connection, sent: Sent, story: Story) -> None:
    clean = [json.loads(value) for value in _values(connection, CLEAN)]
    numbers = Counter(int(each["order"]) for each in clean)
    expected = Counter(order.number for order in sent.good)
    if numbers != expected:
        lost, extra = (expected - numbers).total(), (numbers - expected).total()
        raise CommandFailed(f"{CLEAN}: {lost:,} orders are missing, {extra:,} are too many")
    dead = sum(1 for _ in _values(connection, DEAD))
    if dead != sent.broken:
        raise CommandFailed(f"{DEAD} has {dead:,} records, not {sent.broken:,}")
    found: Counter[tuple[datetime, str]] = Counter()
    for value in _values(connection, MINUTES):
        row = json.loads(value)
        minute = datetime.fromisoformat(row["minute"]).astimezone(UTC)
        found[minute, row["city"]] += int(row["cents"])
    minutes = sent.closed_minutes(DELAY)
    if found != minutes:
        raise CommandFailed(f"{MINUTES}: {len(found):,} sums, not the {len(minutes):,} expected")
    story.tell(
        f"{CLEAN} has {len(clean):,} orders, {DEAD} {dead:,} records with the reason, "
        f"{MINUTES} {len(found):,} sums: all as sent"
    )


def _values(connection: Connection, topic: str) -> Iterator[bytes]:
    """All values of a topic, up to its end."""
    admin = Admin(connection)
    spans = admin.offsets(admin.topic(topic).topic_partitions)
    reader = Reader(connection, starts={place: span.start for place, span in spans.items()})
    give_up = time.monotonic() + READ_TIMEOUT_S
    try:
        while not reader.is_at_end and time.monotonic() < give_up:
            for record in reader.poll():
                yield record.value or b""
    finally:
        reader.close()


def _archive_and_ask(
    connection: Connection, directory: Path, sent: Sent, story: Story
) -> list[Any]:
    """Archive; let the log forget what is archived; send more; ask for all of it."""
    from tidelog.cli.spark_topics import TopicTables
    from tidelog.spark.jobs.query import query

    lake = directory / "lake"
    admin = Admin(connection)
    with spark_session(None, _SPARK) as spark:
        with story.console.status("archiving"):
            _archive(spark, connection.bootstrap, lake)
        spans = admin.offsets(admin.topic(TOPIC).topic_partitions)
        admin.delete_records({place: span.end for place, span in spans.items()})
        story.tell(f"archived {TOPIC} as a Delta table, and deleted it from the log")
        _send(connection, further_orders(FURTHER, sent))
        story.tell(f"{FURTHER:,} further orders sent; asking archive and live log in SQL")
        tables = TopicTables(connection.bootstrap, lake=lake)
        with story.console.status("asking"):
            rows = query(spark, _QUERY, lambda name: tables.find(spark, name)).collect()
    story.tell("answered")
    return rows


def _archive(spark: SparkSession, bootstrap: str, lake: Path) -> None:
    from tidelog.spark.jobs.archive import ArchiveOptions, archive

    with archive(spark, ArchiveOptions(TOPIC, lake, bootstrap)) as job:
        job.catch_up()


def _check_answer(rows: list[Any], sent: Sent) -> None:
    orders = Counter({row["city"]: row["orders"] for row in rows})
    cents = Counter({row["city"]: row["cents"] for row in rows})
    if orders != sent.orders_by_city() or cents != sent.cents_by_city():
        raise CommandFailed(
            f"the query found {orders.total():,} orders worth {money(cents.total())}, but "
            f"{len(sent.good):,} worth {money(sent.cents_by_city().total())} were sent"
        )


def _draw(rows: list[Any], chart: Path, story: Story) -> None:
    from tidelog.spark.charts import bars

    shown = [(row["city"], row["orders"], money(row["cents"])) for row in rows]
    total = sum(row["orders"] for row in rows), sum(row["cents"] for row in rows)
    shown.append(("all", total[0], money(total[1])))
    bars(
        chart,
        [row["city"] for row in rows],
        [row["cents"] / 100 for row in rows],
        title="Revenue by city, archive and live log together",
        unit="revenue",
    )
    story.show(add_rows(table("City", "#Orders", "#Revenue"), shown))
    story.tell(f"chart: {chart}")
