"""SQL over topics: a name in the query that Spark does not know is looked up among the topics.

A table has the record's columns, key and value as text, and, where the values are JSON objects,
their fields: by name beside the columns, and all of them in `data`. Its schema is guessed from a
sample, by `schema_guess`; a value that does not fit it has null fields.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tidelog.spark.errors import PipelineError
from tidelog.spark.plain_errors import condition
from tidelog.spark.schema_guess import Guess

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

Find = Callable[[str], "DataFrame | None"]
"""The rows of a topic; None if there is no such topic."""

_UNKNOWN = "TABLE_OR_VIEW_NOT_FOUND"
_MOST_TABLES = 100


def query(spark: SparkSession, sql: str, find: Find) -> DataFrame:
    """The query's result, not computed yet. Topics it names become views as they are asked for,
    and only until the query is understood: the next may want them otherwise. Spark Connect
    understands it anew whenever it is computed, so there they stay as long as the session."""
    from pyspark.errors import AnalysisException

    views: list[str] = []
    try:
        while len(views) <= _MOST_TABLES:
            try:
                result = spark.sql(sql)
                _ = result.schema  # Spark Connect looks at a query no sooner
                return result
            except AnalysisException as error:
                if not condition(error).startswith(_UNKNOWN):
                    raise
                views.append(_add_view(find, relation(error)))
    finally:
        for view in [] if _is_connect(spark) else views:
            spark.catalog.dropTempView(view)
    raise PipelineError(f"the query names more than {_MOST_TABLES} topics")


def _is_connect(spark: SparkSession) -> bool:
    return type(spark).__module__.startswith("pyspark.sql.connect.")


def relation(error: Exception) -> list[str]:
    """The parts of the name that Spark could not find."""
    ask = getattr(error, "getMessageParameters", None)
    parameters = (ask() if ask is not None else None) or {}
    return parts_of(str(parameters.get("relationName", "")))


def parts_of(quoted: str) -> list[str]:
    """`` `a`.`b.c` `` is a and b.c."""
    parts: list[str] = []
    current, is_inside, position = "", False, 0
    while position < len(quoted):
        letter = quoted[position]
        if letter == "`" and is_inside and quoted[position + 1 : position + 2] == "`":
            current += "`"
            position += 1
        elif letter == "`":
            is_inside = not is_inside
        elif letter == "." and not is_inside:
            parts.append(current)
            current = ""
        else:
            current += letter
        position += 1
    return [*parts, current]


def _add_view(find: Find, parts: list[str]) -> str:
    name = ".".join(parts)
    rows = find(name)
    if rows is None:
        raise PipelineError(f"there is no topic {name!r}: see `tidelog topic list`")
    if len(parts) > 1:
        raise PipelineError(f"a topic with a dot in its name needs backquotes: `{name}`")
    rows.createOrReplaceTempView(_quoted(name))
    return name


def readable(records: DataFrame, guessed: Guess) -> DataFrame:
    """A topic's records as people read them."""
    from pyspark.sql import functions as F

    columns = records.columns
    texts: dict[str, Column] = {
        name: F.col(name).cast("string") for name in ("key", "value") if name in columns
    }
    made: list[Column] = [texts.get(name, F.col(name)).alias(name) for name in columns]
    if guessed.fields:
        made.append(F.from_json(texts["value"], guessed.ddl).alias("data"))
    with_data = records.select(*made)
    if not guessed.fields:
        return with_data
    taken = {name.lower() for name in with_data.columns}
    fields = [name for name in guessed.fields if name.lower() not in taken]
    return with_data.select(
        *with_data.columns, *(F.col(f"data.{_quoted(name)}").alias(name) for name in fields)
    )


def _quoted(name: str) -> str:
    doubled = name.replace("`", "``")
    return f"`{doubled}`"
