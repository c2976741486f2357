"""`tidelog spark pipeline init|run`: a directory from a template, and one pass over what is new."""

from __future__ import annotations

import os
import tempfile
import time
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from tidelog.cli.options import AsJson, Bootstrap, named
from tidelog.cli.output import add_rows, aside, duration_text, emit_json, people, plural, table
from tidelog.cli.spark_options import MASTER_VARIABLE
from tidelog.client import Admin, ClientError, Connection
from tidelog.client.connection import BOOTSTRAP_VARIABLE, DEFAULT_BOOTSTRAP
from tidelog.spark.pipelines import project
from tidelog.spark.sampling import sample
from tidelog.spark.schema_guess import guess

app = typer.Typer(
    help="Declarative pipelines: begin with a template, edit its SQL, run it.",
    rich_markup_mode="markdown",
    no_args_is_help=True,
    epilog="Example: `tidelog spark pipeline init shop --template dead-letters`, then "
    "`tidelog spark pipeline run shop`",
)

PipelineName = Annotated[
    str, typer.Argument(metavar="NAME", help="The pipeline's directory.", callback=named)
]
TemplateName = StrEnum(  # type: ignore[misc]
    "TemplateName", {each.name: each.name for each in project.TEMPLATES}
)
_TEMPLATE_HELP = "; ".join(f"{each.name}: {each.summary}" for each in project.TEMPLATES)


@app.command(epilog="Example: `tidelog spark pipeline init shop --template windows --topic orders`")
def init(
    name: PipelineName,
    template: Annotated[
        TemplateName, typer.Option("--template", "-t", metavar="TEMPLATE", help=_TEMPLATE_HELP)
    ] = TemplateName("sql"),
    topic: Annotated[
        str, typer.Option("--topic", metavar="TOPIC", help="Whose records to read.", callback=named)
    ] = "orders",
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: AsJson = False,
) -> None:
    """Write a pipeline that runs as it is, for you to edit.

    The fields are taken from the topic's newest records, if a broker answers and they are JSON;
    otherwise they are those of the sample orders.
    """
    fields = _fields(bootstrap, topic)
    paths = project.create(Path(name), template.value, topic=topic, fields=fields)
    if as_json:
        emit_json({"pipeline": name, "files": [str(path) for path in paths], "fields": fields})
        return
    console = people()
    for path in paths:
        console.print(f"wrote {path}", soft_wrap=True)
    origin = f"the records of {topic}" if fields else "the sample orders"
    console.print(f"its fields are those of {origin}", soft_wrap=True)
    console.print(f"run it with: tidelog spark pipeline run {name}", soft_wrap=True)


def _fields(bootstrap: str, topic: str) -> dict[str, str]:
    """None found is no error: the template has some of its own."""
    connection = Connection(bootstrap)
    try:
        records = sample(connection, Admin(connection).topic(topic))
    except ClientError:
        return {}
    return dict(guess(record.value for record in records).fields)


@app.command(epilog="Example: `tidelog spark pipeline run shop --bootstrap 127.0.0.1:9092`")
def run(
    name: PipelineName,
    full_refresh: Annotated[
        bool, typer.Option("--full-refresh", help="Forget what was done and do all of it again.")
    ] = False,
    dry: Annotated[
        bool, typer.Option("--dry-run", help="Only check that the definitions fit together.")
    ] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    master: Annotated[
        str | None,
        typer.Option(
            "--master",
            metavar="ADDRESS",
            envvar=MASTER_VARIABLE,
            help="Where Spark runs: `local[2]`, `spark://HOST:7077`, or Spark Connect's "
            "`sc://HOST:15002`.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run a pipeline once, over everything that is new since its last run.

    Ctrl-C, SIGTERM and SIGHUP end it at once, Java included; the next run goes on from there.
    """
    found = project.find(name)
    from tidelog.spark.sessions import need_packages

    need_packages()
    Connection(bootstrap).probe()
    os.environ[BOOTSTRAP_VARIABLE] = bootstrap
    from tidelog.spark.pipelines.run import Wish
    from tidelog.spark.pipelines.run import run as run_pipeline

    started = time.monotonic()
    wish = Wish(is_all_refreshed=full_refresh, is_dry=dry)
    with tempfile.TemporaryFile() as java_log, aside().status("starting Spark") as status:
        outcome = run_pipeline(
            found,
            wish,
            master=master,
            java_log=java_log,
            on_flow=lambda flow, state: status.update(f"{flow}: {state.lower()}"),
        )
    seconds = time.monotonic() - started
    if as_json:
        emit_json({"pipeline": found.name, "flows": outcome.flows, "seconds": round(seconds, 3)})
        return
    rows = [(flow, state.lower()) for flow, state in sorted(outcome.flows.items())]
    people().print(add_rows(table("Flow", "State"), rows))
    word = "checked" if dry else "ran"
    people().print(f"{word} {plural(len(rows), 'flow')} in {duration_text(seconds)}")
