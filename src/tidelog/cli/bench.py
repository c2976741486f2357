"""`tidelog bench`: this node against the raw limit of the machine, in one table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from tidelog.bench import report
from tidelog.bench.admin import WrongAnswer
from tidelog.bench.lines import FULL, QUICK
from tidelog.bench.load import LoadFailed
from tidelog.bench.rdkafka import LibraryMissing
from tidelog.bench.servers import ServerFailed, parse_address
from tidelog.bench.suite import LINES, Run
from tidelog.bench.suite import run as run_suite
from tidelog.cli import bench_scale
from tidelog.cli.output import add_rows, aside, people, report_error, table

app = typer.Typer(add_completion=False, rich_markup_mode="markdown")

_TABLE_WIDTH = 200
"""A figure must never be cut, in a narrow terminal or in a file."""

_EPILOG = (
    "Example: `tidelog bench --quick`, or `tidelog bench produce --seconds 5 --kafka ~/kafka_4`, "
    "or, without any process, what metadata costs as clusters grow: "
    "`tidelog bench scale --json scale.json`."
)


class What(Enum):
    """`all`, or one line of the table; or `scale`, which is a table of its own."""

    ALL = "all"
    PRODUCE = "produce"
    CONSUME = "consume"
    LATENCY = "latency"
    REQUESTS = "requests"
    PARTITIONS = "partitions"
    CONNECTIONS = "connections"
    START = "start"
    MEMORY = "memory"
    COLD = "cold"
    GROUPS = "groups"
    COMPACTION = "compaction"
    REPLICATED = "replicated"
    FAILOVER = "failover"
    SPARK = "spark"
    SCALE = "scale"


@app.command(epilog=_EPILOG)
def bench(
    what: Annotated[What, typer.Argument(help="What to measure.")] = What.ALL,
    seconds: Annotated[
        float | None, typer.Option(min=0.2, max=60, help="Length of each measurement.")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="One short round of each: for a first look.")
    ] = False,
    kafka: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Also measure the Apache Kafka in DIR, which holds libs/*.jar."
        ),
    ] = None,
    connector: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Also measure Spark's own Kafka connector, whose jars DIR holds."
        ),
    ] = None,
    json: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the figures to FILE as well.")
    ] = None,
    bootstrap: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT", help="Measure the node that runs there; no CPU, no memory."
        ),
    ] = None,
) -> None:
    """Measure this machine's raw limit and a node against it, in one run.

    Starts real node processes on temporary directories, drives them with prebuilt requests and
    with librdkafka, and leaves the table in bench-results/. Takes a few minutes.
    """
    if bootstrap is not None:
        _check_address(bootstrap)
    if what is What.SCALE:
        bench_scale.show(is_quick=quick, json_path=json)
        return
    scale = QUICK if quick else FULL
    if seconds is not None:
        scale = replace(scale, seconds=seconds)
    started_at = datetime.now().astimezone()

    def measure(say: Callable[[str], None]) -> Run:
        return run_suite(
            list(LINES) if what is What.ALL else [what.value],
            scale=scale,
            kafka_dir=kafka,
            bootstrap=bootstrap,
            say=say,
            connector_dir=connector,
        )

    _show(_run(measure), started_at, json)


def _run(measure: Callable[[Callable[[str], None]], Run]) -> Run:
    """With a word about each step; what goes wrong is told with the last one that did not."""
    steps = ["the start"]
    try:
        with aside().status("starting") as status:

            def say(step: str) -> None:
                steps.append(step)
                status.update(f"measured {step}")

            return measure(say)
    except (LibraryMissing, LoadFailed, ServerFailed, WrongAnswer) as error:
        report_error(f"{error} (after {steps[-1]})")
        raise typer.Exit(1) from None


def _check_address(text: str) -> None:
    try:
        parse_address(text)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--bootstrap") from None


def _show(run: Run, at: datetime, json_path: Path | None) -> None:
    names = report.columns(has_kafka=run.has_kafka)
    words = ("figure", "target", "met")
    made = table(*(name if name in words else f"#{name}" for name in names))
    add_rows(made, (report.cells(row, has_kafka=run.has_kafka) for row in run.rows))
    console = people()
    console.width = max(console.width, _TABLE_WIDTH)
    console.print(made)
    for note in report.notes(run.rows):
        console.print(note)
    console.print("; ".join(f"{name}: {value}" for name, value in run.facts.items()))
    document = report.as_json(run.rows, run.facts, run.samples, at=at)
    text = report.markdown(run.rows, run.facts, has_kafka=run.has_kafka)
    path = report.write_results(report.RESULTS_DIRECTORY, at=at, text=text, document=document)
    if json_path is not None:
        json_path.write_text(document)
    console.print(f"written to {path} and {path.with_suffix('.json').name}")
