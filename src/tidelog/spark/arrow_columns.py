"""The columns of a topic in Arrow's words.

Spark compares the first batch's schema with its own and refuses any difference, so the types here
are those that Spark derives from its schema (`element` is Arrow's name for it, too).
"""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from tidelog.spark.columns import HEADERS

HEADER_FIELDS = [pa.field("key", pa.string()), pa.field("value", pa.binary())]

ARROW_TYPES: dict[str, pa.DataType] = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestampType": pa.int32(),
    HEADERS: pa.list_(pa.field("element", pa.struct(HEADER_FIELDS))),
}


def arrow_schema(columns: Iterable[str]) -> pa.Schema:
    return pa.schema([pa.field(name, ARROW_TYPES[name]) for name in columns])
