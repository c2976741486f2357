"""The data pipeline: topics as tables and streams on Spark, through PySpark, without a jar.

::

    spark = tidelog.spark.session()
    orders = spark.read.format("tidelog").option("subscribe", "orders").load()
    typed = tidelog.spark.decode(orders, "json", schema="city string, cents long")

- `sessions.py` starts Spark as the rest expects it, `java.py` finds the Java it needs,
  `plain_errors.py` says in one line what Spark says in two hundred.
- `source.py` (driver), `planner.py` (pure), `reader.py` and `sink.py` (executors) are
  `format("tidelog")`.
- `jobs/` are whole jobs: what `tidelog spark …` runs. `tiers.py` reads archive and live tail as one.
- `values/` turns JSON, Avro and Protobuf into typed columns; `pipelines/` is a thin layer over
  Spark's declarative pipelines.

Knows `client`, `wire` and `model` of ours. Importing the package imports no pyspark: a name does
that when it is first used, and says how to install it where it is missing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tidelog.spark.values import decode
    from tidelog.spark.sessions import session
    from tidelog.spark.tiers import topic

__all__ = ["decode", "session", "topic"]

_HOMES = {"decode": "values", "session": "sessions", "topic": "tiers"}
"""No module has the name of a function here: importing it would put it in the function's place."""


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
