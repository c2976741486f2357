"""An archive as a Spark table, without Delta's jar: Spark's own Parquet reader and a list of files.

The list is one version of the table; what is committed later is not in it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tidelog.spark.lake.archive_table import ArchiveTable
from tidelog.spark.lake.files import OffsetFile
from tidelog.spark.lake.latest_table import LATEST_SCHEMA, LatestTable
from tidelog.spark.lake.schema import COLUMNS, spark_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_PATTERN_SIGNS = re.compile(r"[\\\[\]{}*?,]")


def archived_rows(
    spark: SparkSession,
    table: ArchiveTable,
    *,
    columns: Sequence[str] = COLUMNS,
    files: Sequence[OffsetFile] | None = None,
) -> DataFrame:
    """All rows of this version of the table, or those of `files`."""
    chosen = table.files() if files is None else files
    if not chosen:
        return spark.createDataFrame([], spark_schema(columns))
    root = table.path.resolve()
    return (
        spark.read.schema(spark_schema())
        .option("basePath", f"file://{root}")
        .parquet(*(_taken_literally(f"file://{root / file.path}") for file in chosen))
        .select(*columns)
    )


def latest_rows(spark: SparkSession, table: LatestTable) -> DataFrame:
    """All rows of this version of a table of latest values."""
    schema = spark_schema(LATEST_SCHEMA.names)
    paths = [_taken_literally(f"file://{table.path.resolve() / path}") for path in table.paths()]
    if not paths:
        return spark.createDataFrame([], schema)
    return spark.read.schema(schema).parquet(*paths)


def _taken_literally(path: str) -> str:
    """Spark takes a path for a pattern; a directory may have any name."""
    return _PATTERN_SIGNS.sub(r"\\\g<0>", path)
