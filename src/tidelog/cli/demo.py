"""`tidelog demo`: the main job end to end, on a real node, checked by itself.

Three parts. `log`: orders stream through a node that is killed with -9, and every one is there
once. `cluster`: of three nodes the one that leads is killed, and another goes on.
`pipeline`: orders, some of them late, twice or broken, go through Spark: a pipeline, an archive, a
query over archive and live tail. Each adds up what it finds and fails if a sum is wrong.
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from tidelog.cli import demo_cluster, demo_log
from tidelog.cli.demo_story import Story

app = typer.Typer(rich_markup_mode="markdown")

DEFAULT_CHART = Path("tidelog-demo.png")


class Part(StrEnum):
    """What to show."""

    ALL = "all"
    LOG = "log"
    CLUSTER = "cluster"
    PIPELINE = "pipeline"


@app.command(epilog="Example: `tidelog demo`, or `tidelog demo log --orders 100000`")
def demo(
    part: Annotated[
        Part, typer.Argument(metavar="[all|log|cluster|pipeline]", help="All parts, or one.")
    ] = Part.ALL,
    orders: Annotated[
        int, typer.Option("--orders", "-n", min=10, metavar="N", help="How many, for the log.")
    ] = 50_000,
    chart: Annotated[
        Path, typer.Option(metavar="FILE", help="Where the pipeline's chart goes.")
    ] = DEFAULT_CHART,
) -> None:
    """See it work: orders through a kill -9, a failover, and a pipeline on Spark.

    Uses ports of its own and temporary directories, and leaves nothing behind but the chart.
    """
    story = Story()
    parts = {
        Part.LOG: lambda: demo_log.run(orders, story),
        Part.CLUSTER: lambda: demo_cluster.run(story),
        Part.PIPELINE: lambda: _show_pipeline(chart, story),
    }
    chosen = parts if part is Part.ALL else (part,)
    for number, each in enumerate(chosen):
        if number:
            story.console.print()
        parts[each]()


def _show_pipeline(chart: Path, story: Story) -> None:
    """Spark is imported only for it."""
    from tidelog.cli import demo_pipeline

    demo_pipeline.run(chart, story)
