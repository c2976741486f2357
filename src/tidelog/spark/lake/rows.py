"""An archive as a Spark table, without Delta's jar: Spark's own Parquet reader and a list of files.

The list is one version of the table; what is committed later is not in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tidelog.spark.lake.archive_table import ArchiveTable
from tidelog.spark.lake.files import OffsetFile
from tidelog.spark.lake.schema import COLUMNS, spark_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


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
        .option("basePath", root.as_uri())
        .parquet(*((root / file.path).as_uri() for file in chosen))
        .select(*columns)
    )
