"""What the commands on Spark share: where it runs, its settings, a session that ends with them."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from tidelog.cli.options import pairs
from tidelog.cli.output import aside

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MASTER_VARIABLE = "TIDELOG_MASTER"

Master = Annotated[
    str | None,
    typer.Option(
        "--master",
        metavar="ADDRESS",
        envvar=MASTER_VARIABLE,
        help="Where Spark runs: `local[*]` (this machine), `spark://HOST:7077`, `yarn`, "
        "`k8s://...`, or Spark Connect's `sc://HOST:15002`.",
    ),
]
Conf = Annotated[
    list[str] | None,
    typer.Option("--conf", metavar="NAME=VALUE", help="A setting of Spark's; repeatable."),
]


def settings_of(conf: list[str] | None) -> dict[str, str]:
    return pairs(conf or [], option="--conf")


@contextmanager
def spark_session(master: str | None, conf: list[str] | None) -> Iterator[SparkSession]:
    """Spark while the block lasts; what it raises is one line, what Java says is not shown.

    A session that this process has already is used, and left running.
    """
    settings = settings_of(conf)
    from tidelog.spark.sessions import need_packages, session

    need_packages()
    from pyspark.sql import SparkSession

    from tidelog.spark.plain_errors import speaking_plainly

    was_running = SparkSession.getActiveSession() is not None
    with tempfile.TemporaryFile() as java_log, speaking_plainly():
        with aside().status("starting Spark"):
            spark = session(master, java_log=java_log, **settings)
        try:
            yield spark
        finally:
            if not was_running:
                spark.stop()
