"""`tidelog spark inspect`: what is in a topic, how it flows, and what is odd about it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from tidelog.cli.options import AsJson, Bootstrap, TopicName
from tidelog.cli.output import (
    add_rows,
    aside,
    duration_text,
    emit_json,
    people,
    size_text,
    table,
    time_text,
)
from tidelog.cli.spark_options import Conf, Master, spark_session
from tidelog.client import Admin, Connection
from tidelog.client.connection import DEFAULT_BOOTSTRAP

if TYPE_CHECKING:
    from tidelog.spark.jobs.inspect import Report

app = typer.Typer(rich_markup_mode="markdown")


@app.command(epilog="Example: `tidelog spark inspect orders --hot-keys 20 --plots ./plots`")
def inspect(
    topic: TopicName,
    hot_keys: Annotated[
        int, typer.Option("--hot-keys", min=0, max=1000, metavar="N", help="How many to list.")
    ] = 10,
    newest: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Only the last N offsets of each partition."),
    ] = None,
    plots: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Draw charts to PNG files there.")
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    master: Master = None,
    conf: Conf = None,
    as_json: AsJson = False,
) -> None:
    """Look into a topic: throughput, lag, skew, hot keys, gaps, late data, schema."""
    from tidelog.spark.sessions import need_packages

    need_packages()
    Admin(Connection(bootstrap)).topic(topic)
    from tidelog.spark.jobs.inspect import inspect as look

    with spark_session(master, conf) as spark, aside().status(f"reading {topic}"):
        report = look(spark, topic, bootstrap=bootstrap, hot_keys=hot_keys, newest=newest)
    drawn = [] if plots is None else draw(report, plots)
    if as_json:
        emit_json({**report.document(), "plots": [str(path) for path in drawn]})
        return
    _show(people(), report)
    for path in drawn:
        people().print(f"chart: {path}", soft_wrap=True)


def _show(console: Console, report: Report) -> None:
    console.print(add_rows(table("What", "~Found"), _summary(report)))
    console.print()
    columns = (
        "#Partition",
        "#Records",
        "#Gaps",
        "#Bytes",
        "#Late",
        "~First record",
        "~Last record",
    )
    rows = (
        (
            each.partition,
            each.records,
            each.gaps,
            size_text(each.data_bytes),
            each.late,
            time_text(each.first_ms),
            time_text(each.last_ms),
        )
        for each in report.partitions
    )
    console.print(add_rows(table(*columns), rows))
    if report.hot_keys:
        console.print()
        keys = ((each.key, each.records, f"{each.share:.1%}") for each in report.hot_keys)
        console.print(add_rows(table("~Key", "#Records", "#Share"), keys))
    if report.groups:
        console.print()
        lags = ((each.group, each.lag) for each in report.groups)
        console.print(add_rows(table("~Group", "#Lag"), lags))


def _summary(report: Report) -> list[tuple[str, object]]:
    seconds = report.seconds
    rate = "-"
    if seconds:
        rate = f"{report.records / seconds:,.1f}/s, {size_text(report.data_bytes / seconds)}/s"
    sizes = report.value_bytes
    latest = max((each.latest_by_ms for each in report.partitions), default=0)
    late = f"{report.late:,}"
    if report.late:
        late += f", at most by {duration_text(latest / 1000)}"
    return [
        ("records", f"{report.records:,} in {size_text(report.data_bytes)}"),
        ("throughput", f"{rate} over {duration_text(seconds)}"),
        (
            "value size",
            f"median {size_text(sizes['median'])}, 99 % below {size_text(sizes['p99'])}, "
            f"largest {size_text(sizes['max'])}",
        ),
        ("tombstones", report.tombstones),
        ("distinct keys", f"about {report.distinct_keys:,}"),
        ("skew", f"{report.skew:.2f} (fullest partition to mean)"),
        ("gaps", report.gaps),
        ("late", late),
        ("schema", _schema(report)),
    ]


def _schema(report: Report) -> str:
    found = report.schema
    if found.format == "framed":
        return f"schema registry framing, ids {', '.join(map(str, found.schema_ids))}"
    share = "" if found.matching == found.sampled else f" in {found.matching} of {found.sampled}"
    return f"{found.format}{share}: {found.ddl}" if found.fields else f"{found.format}{share}"


def draw(report: Report, directory: Path) -> list[Path]:
    """One file a chart."""
    from tidelog.spark.charts import bars, curve

    per_s = 1000 / report.bucket_ms
    partitions = [str(each.partition) for each in report.partitions]
    paths = [
        curve(
            directory / f"{report.topic}-throughput.png",
            [each.start_ms for each in report.buckets],
            [each.records * per_s for each in report.buckets],
            title=f"{report.topic}: throughput",
            unit="records/s",
        ),
        bars(
            directory / f"{report.topic}-partitions.png",
            partitions,
            [each.records for each in report.partitions],
            title=f"{report.topic}: records by partition",
            unit="records",
        ),
    ]
    if report.hot_keys:
        paths.append(
            bars(
                directory / f"{report.topic}-hot-keys.png",
                [str(each.key) for each in report.hot_keys],
                [each.records for each in report.hot_keys],
                title=f"{report.topic}: hottest keys",
                unit="records",
            )
        )
    if report.late_by:
        paths.append(
            bars(
                directory / f"{report.topic}-late.png",
                [f"< {name}" for name, _ in report.late_by],
                [count for _, count in report.late_by],
                title=f"{report.topic}: late records, by how much",
                unit="records",
            )
        )
    return paths
