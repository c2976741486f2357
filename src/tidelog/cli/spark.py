"""`tidelog spark …`: the verbs that run on Spark, each in a file of its own.

None of them imports pyspark before it runs: `tidelog --help` must not wait for it, and a machine
without the extra must hear how to install it.
"""

from __future__ import annotations

import typer

from tidelog.cli import spark_inspect, spark_lake, spark_pipeline, spark_sql

app = typer.Typer(
    help="Query, archive, replay, inspect and transform topics with Spark.",
    rich_markup_mode="markdown",
    no_args_is_help=True,
    epilog='Example: `tidelog spark sql "select city, count(*) from orders group by city"`',
)
for part in (spark_sql, spark_lake, spark_inspect):
    app.registered_commands.extend(part.app.registered_commands)
app.add_typer(spark_pipeline.app, name="pipeline")
