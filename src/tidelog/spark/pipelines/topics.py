"""The two ends of a pipeline: a topic as a streaming view, and a view or table into a topic."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from tidelog.client.connection import BOOTSTRAP_VARIABLE, DEFAULT_BOOTSTRAP

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def from_topic(
    topic: str,
    *,
    view: str | None = None,
    schema: Any = None,
    format: str = "json",
    bootstrap: str | None = None,
    options: dict[str, str] | None = None,
    **decoding: Any,
) -> None:
    """Declare the streaming view `view` (the topic's name with `_`): all of the topic, from its
    beginning.

    With a `schema` (or what else `tidelog.spark.decode` takes) it has the decoded fields, `error`,
    and the record's `key`, `value`, `topic`, `partition`, `offset` and `timestamp`; those have a
    `_` before them where a field has the same name. Without, it has the record's columns alone.
    """
    from pyspark import pipelines
    from pyspark.sql import SparkSession

    from tidelog.spark.decoding import decode
    from tidelog.spark.pipelines.project import table_name

    servers = bootstrap_of(bootstrap)
    given = {"startingOffsets": "earliest", **(options or {})}

    def read() -> DataFrame:
        stream = SparkSession.active().readStream.format("tidelog")
        stream = stream.option("kafka.bootstrap.servers", servers).option("subscribe", topic)
        records = stream.options(**given).load()
        if schema is None and not decoding:
            return records
        return flattened(decode(records, format, schema=schema, **decoding))

    pipelines.temporary_view(name=view or table_name(topic))(read)


def flattened(decoded: DataFrame) -> DataFrame:
    """The fields of `data` beside the record's own columns."""
    from pyspark.sql import functions as F

    shape: Any = decoded.schema["data"].dataType
    fields = shape.fieldNames()
    rest = [name for name in decoded.columns if name != "data"]
    return decoded.select(
        *(F.col(f"data.`{name}`").alias(name) for name in fields),
        *(F.col(name).alias(f"_{name}" if name in fields else name) for name in rest),
    )


def to_topic(
    topic: str,
    table: str,
    *,
    key: str | None = None,
    bootstrap: str | None = None,
    options: dict[str, str] | None = None,
) -> None:
    """Send every row of the streaming view or table `table` to the topic.

    Rows with a column `value` go as they are (with `key`, `headers` and `partition` if they have
    them); all others as JSON, keyed by the column `key`.
    """
    from pyspark import pipelines
    from pyspark.sql import SparkSession

    from tidelog.spark.pipelines.project import table_name

    sink = f"to_{table_name(topic)}"
    servers = bootstrap_of(bootstrap)
    pipelines.create_sink(
        sink, "tidelog", {"kafka.bootstrap.servers": servers, "topic": topic, **(options or {})}
    )

    def send() -> DataFrame:
        return as_records(SparkSession.active().readStream.table(table), key)

    pipelines.append_flow(target=sink, name=f"{table}_to_{table_name(topic)}")(send)


def as_records(rows: DataFrame, key: str | None) -> DataFrame:
    """Rows as the sink takes them."""
    from pyspark.sql import functions as F

    if "value" in rows.columns:
        return rows
    value = F.to_json(F.struct("*")).cast("binary").alias("value")
    if key is None:
        return rows.select(value)
    return rows.select(F.col(key).cast("string").cast("binary").alias("key"), value)


def bootstrap_of(given: str | None) -> str:
    """As everywhere: what is given, else the variable, else this machine."""
    return given or os.environ.get(BOOTSTRAP_VARIABLE) or DEFAULT_BOOTSTRAP
