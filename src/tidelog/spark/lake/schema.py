"""The columns of an archive: those of Spark's Kafka source, always with headers.

`partition` is the table's partition column: it stands in the directory's name, not in the files.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

PARTITION = "partition"

HEADERS_TYPE = pa.list_(
    pa.field(
        "element",
        pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]),
    )
)

TABLE_SCHEMA = pa.schema(
    [
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("topic", pa.string()),
        pa.field(PARTITION, pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("timestamp", pa.timestamp("us", tz="UTC")),
        pa.field("timestampType", pa.int32()),
        pa.field("headers", HEADERS_TYPE),
    ]
)
FILE_SCHEMA = pa.schema([field for field in TABLE_SCHEMA if field.name != PARTITION])

COLUMNS = tuple(TABLE_SCHEMA.names)

_SPARK_TYPES = {
    "key": "binary",
    "value": "binary",
    "topic": "string",
    PARTITION: "int",
    "offset": "long",
    "timestamp": "timestamp",
    "timestampType": "int",
    "headers": "array<struct<key:string,value:binary>>",
}


def spark_schema(columns: Sequence[str] = COLUMNS) -> str:
    """The same for Spark, in its own words."""
    return ", ".join(f"{name} {_SPARK_TYPES[name]}" for name in columns)


def as_file_batch(batch: pa.RecordBatch) -> pa.RecordBatch:
    """`batch` with exactly the columns of a file, in their order and of their types."""
    columns = []
    for field in FILE_SCHEMA:
        column = batch.column(field.name)
        columns.append(column if column.type == field.type else column.cast(field.type))
    return pa.RecordBatch.from_arrays(columns, schema=FILE_SCHEMA)
