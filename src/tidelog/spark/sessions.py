"""`tidelog.spark.session()`: Spark as Tidelog's source, sink and jobs expect it.

On this machine by default (`local[*]`), on a cluster by its master (`spark://HOST:7077`, `yarn`,
`k8s://…`), or through a Spark Connect server (`sc://HOST:15002`): the same code on all of them.

What it sets, and why:

- workers run this very interpreter: Spark's default is whatever `python3` is first on PATH;
- filters are pushed down to Python sources, which Spark 4.3 leaves off;
- a Python process may take its time to start: fifteen seconds are not enough on a busy machine;
- no web page and a quiet log: a failure is an exception, which `plain_errors` makes a sentence.
"""

from __future__ import annotations

import logging
import os
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import IO, TYPE_CHECKING

from tidelog.spark.errors import PipelineError
from tidelog.spark.java import find_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Value = str | int | float | bool

DEFAULT_MASTER = "local[*]"
NEEDED = ("pyspark", "pyarrow", "pandas")
_LOG_SETTINGS = Path(__file__).with_name("quiet-log4j2.properties")
JAVA_OPTIONS = f"-Dlog4j2.configurationFile={_LOG_SETTINGS.as_uri()}"


class SparkMissing(PipelineError):
    """The extra `spark` is not installed, or only in part."""


def session(
    master: str | None = None,
    *,
    app_name: str = "tidelog",
    java_log: IO[bytes] | None = None,
    **conf: Value,
) -> SparkSession:
    """A running session; the one there is, if this process has one already.

    `conf` are Spark's settings, by their names, or with `_` for `.`:
    `session(spark_sql_shuffle_partitions=4)`. `java_log` gets what the Java process itself says;
    without it, that goes to standard error.
    """
    need_packages()
    from pyspark.sql import SparkSession

    _hush()
    settings = spark_settings(conf)
    address = master or DEFAULT_MASTER
    if is_connect_address(address):
        remote = SparkSession.builder.remote(address)
        for name, value in _runtime_settings(settings).items():
            remote = remote.config(name, value)
        return remote.getOrCreate()
    running = SparkSession.getActiveSession()
    if running is not None:
        for name, value in _runtime_settings(settings).items():
            running.conf.set(name, value)
        return running
    find_java()
    return _start(address, app_name, settings, java_log)


def _hush() -> None:
    """PySpark also logs what it raises, with the Java stack trace, to standard error."""
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        logging.getLogger(name).setLevel(logging.CRITICAL)


def need_packages() -> None:
    """`SparkMissing` unless the extra is installed."""
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        raise SparkMissing(f'the pipeline needs {", ".join(missing)}: pip install "tidelog[spark]"')


def is_connect_address(address: str) -> bool:
    return address.startswith("sc://")


def spark_settings(conf: dict[str, Value]) -> dict[str, str]:
    """Ours, and over them those given; true and false as Java writes them."""
    given = {
        (name if "." in name else name.replace("_", ".")): (
            str(value).lower() if isinstance(value, bool) else str(value)
        )
        for name, value in conf.items()
    }
    return {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.python.filterPushdown.enabled": "true",
        "spark.sql.session.timeZone": "UTC",
        "spark.python.authenticate.socketTimeout": "120s",
        "spark.driver.extraJavaOptions": JAVA_OPTIONS,
        **given,
    }


def _runtime_settings(settings: dict[str, str]) -> dict[str, str]:
    """What can still be set on a session that runs."""
    return {name: value for name, value in settings.items() if name.startswith("spark.sql.")}


def _start(
    master: str, app_name: str, settings: dict[str, str], java_log: IO[bytes] | None
) -> SparkSession:
    """A new Java process with a driver in it. It ends when this process does, however that ends:
    it reads our end of a pipe."""
    from pyspark import SparkConf, SparkContext
    from pyspark.errors import PySparkRuntimeError
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    if master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    conf = SparkConf().setMaster(master).setAppName(app_name).setAll(list(settings.items()))
    # Spark makes this folder where it stands, although nothing of ours is kept in it.
    warehouse = Path(tempfile.gettempdir()) / f"tidelog-spark-warehouse-{os.getuid()}"
    conf.setIfMissing("spark.sql.warehouse.dir", warehouse.as_uri())
    streams = {} if java_log is None else {"stdout": java_log, "stderr": java_log}
    try:
        gateway = launch_gateway(conf, popen_kwargs=streams)  # type: ignore[no-untyped-call]
        context = SparkContext(conf=conf, gateway=gateway)
    except PySparkRuntimeError as error:
        raise PipelineError(f"Spark did not start: {_last_words(java_log, error)}") from error
    return SparkSession(context)


def _last_words(java_log: IO[bytes] | None, error: Exception) -> str:
    """The log's line that says most; a stack trace says it in its first."""
    if java_log is None:
        return str(error)
    java_log.seek(0)
    lines = java_log.read().decode(errors="replace").splitlines()
    telling = [line.strip() for line in lines if "Exception" in line or "Error" in line]
    return telling[0] if telling else str(error)
