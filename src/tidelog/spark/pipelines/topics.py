"""The two ends of a pipeline: a topic as a streaming view, and a view or table into a topic."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from tidelog.client.connection import BOOTSTRAP_VARIABLE, DEFAULT_BOOTSTRAP

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

RECORD_COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "error")
"""What a decoded view has beside the fields."""


def from_topic(
    topic: str,
    *,
    view: str | None = None,
    schema: Any = None,
    format: str = "json",
    where: str | None = None,
    once_by: str | None = None,
    time: str = "timestamp",
    within: str = "1 hour",
    bootstrap: str | None = None,
    options: dict[str, str] | None = None,
    **decoding: Any,
) -> None:
    """Declare the streaming view `view` (the topic's name with `_`): all of the topic, from its
    beginning; only what `where`, in SQL, lets through.

    With `once_by`, a record comes once, by that column: a second one `within` that much of the time
    in the column `time` is left out. (Spark's pipelines can do that at a source only.)

    With a `schema` (or what else `tidelog.spark.decode` takes) it has the decoded fields, `error`,
    and the record's `key`, `value`, `topic`, `partition`, `offset` and `timestamp`; those have a
    `_` before them where a field has the same name. Without, it has the record's columns alone.
    """
    from pyspark import pipelines
    from pyspark.sql import SparkSession

    from tidelog.spark.decoding import decode, shape_of
    from tidelog.spark.pipelines.project import table_name

    servers = bootstrap_of(bootstrap)
    given = {"startingOffsets": "earliest", **(options or {})}
    is_decoded = schema is not None or bool(decoding)
    shape = shape_of(format, schema=schema, **decoding) if is_decoded else None
    known = shape if format == "json" else schema

    def read() -> DataFrame:
        stream = SparkSession.active().readStream.format("tidelog")
        stream = stream.option("kafka.bootstrap.servers", servers).option("subscribe", topic)
        records = stream.options(**given).load()
        if shape is not None:
            decoded = decode(records, format, schema=known, **decoding)
            records = flattened(decoded, shape.fieldNames())
        chosen = records if where is None else records.where(where)
        if once_by is None:
            return chosen
        return chosen.withWatermark(time, within).dropDuplicatesWithinWatermark([once_by])

    pipelines.temporary_view(name=view or table_name(topic))(read)


def flattened(decoded: DataFrame, fields: list[str]) -> DataFrame:
    """The fields of `data` beside the record's own columns. Spark lets no pipeline ask a frame for
    its columns, so they are known beforehand."""
    from pyspark.sql import functions as F

    return decoded.select(
        *(F.col(f"data.{_quoted(name)}").alias(name) for name in fields),
        *(F.col(name).alias(f"_{name}" if name in fields else name) for name in RECORD_COLUMNS),
    )


def _quoted(name: str) -> str:
    doubled = name.replace("`", "``")
    return f"`{doubled}`"


def to_topic(
    topic: str,
    table: str,
    *,
    key: str | None = None,
    as_is: bool = False,
    bootstrap: str | None = None,
    options: dict[str, str] | None = None,
) -> None:
    """Send every row of the streaming view or table `table` to the topic.

    As JSON, keyed by the column `key`; or `as_is`: then the row has a column `value`, and may have
    `key`, `headers` and `partition`.
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
        rows = SparkSession.active().readStream.table(table)
        return rows if as_is else as_json(rows, key)

    pipelines.append_flow(target=sink, name=f"{table}_to_{table_name(topic)}")(send)


def as_json(rows: DataFrame, key: str | None) -> DataFrame:
    """Rows as the sink takes them."""
    from pyspark.sql import functions as F

    value = F.to_json(F.struct("*")).cast("binary").alias("value")
    if key is None:
        return rows.select(value)
    return rows.select(F.col(key).cast("string").cast("binary").alias("key"), value)


def bootstrap_of(given: str | None) -> str:
    """As everywhere: what is given, else the variable, else this machine."""
    return given or os.environ.get(BOOTSTRAP_VARIABLE) or DEFAULT_BOOTSTRAP
