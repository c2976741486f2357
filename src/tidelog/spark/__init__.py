"""The data pipeline: topics as tables and streams on Spark, with `pip install` alone.

::

    spark = tidelog.spark.session()
    orders = spark.read.format("tidelog").option("subscribe", "orders").load()

Where to start reading: `source.py` (what Spark calls), then

- `options.py`, `option_values.py`: every option, checked, in one line of complaint each;
- `subscription.py`: options and a cluster to offsets; `offsets.py`: how far a stream has come;
- `planner.py` (pure): offset ranges to splits, limits;
- `reader.py` (tasks): fetch, `record_decoding.py` and its compiled kernel, Arrow batches out;
- `sink.py` (tasks): Arrow batches in, `record_encoding.py` and its kernel, record batches out;
- `cluster.py`, `connection.py`: a small Kafka client, for any broker;
- `sessions.py`, `jobs/`, `pipelines/`, `tiers.py`, `decoding/`: what people do with it.

Rules: the driver plans, tasks read and write; only options, splits and offsets travel between them.
Memory is bounded by the fetch size, not by the topic's. A user's mistake is a `PipelineError`, one
line without a traceback. Importing this package imports nothing heavy.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOMES = {"decode": "decoding", "session": "sessions", "topic": "tiers"}
"""No module has the name of a function here: importing it would put it in the function's place."""


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
