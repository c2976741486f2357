"""The columns of a topic: the schema of Spark's Kafka source, exactly."""

from __future__ import annotations

from collections.abc import Iterable

from tidelog.spark.errors import OptionError

HEADERS = "headers"

COLUMNS: dict[str, str] = {
    "key": "binary",
    "value": "binary",
    "topic": "string",
    "partition": "int",
    "offset": "long",
    "timestamp": "timestamp",
    "timestampType": "int",
    HEADERS: "array<struct<key:string,value:binary>>",
}
"""All columns and Spark's names of their types, in the order of Spark's Kafka source."""

SIMPLE_TYPES: dict[str, str] = {**COLUMNS, "offset": "bigint"}
"""The same as Spark writes them itself."""


def all_columns(*, include_headers: bool) -> tuple[str, ...]:
    return tuple(name for name in COLUMNS if include_headers or name != HEADERS)


def chosen_columns(names: Iterable[str], *, include_headers: bool) -> tuple[str, ...]:
    """`names` as columns, in any case of letters; an unknown one is an `OptionError`."""
    spelled = {name.lower(): name for name in all_columns(include_headers=include_headers)}
    chosen: list[str] = []
    for name in names:
        column = spelled.get(name.lower())
        if column is None:
            hint = ": set includeHeaders to true" if name.lower() == HEADERS else ""
            raise OptionError(
                f"there is no column {name!r}{hint or '; there are ' + ', '.join(COLUMNS)}"
            )
        chosen.append(column)
    return tuple(chosen)
