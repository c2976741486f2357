"""Avro: a schema to Spark's types, and bytes to rows with fastavro.

A union with null is a value that may be null; of int and long, a long; of float and double, a
double; of anything else, the value as JSON text. A type that contains itself has no Spark type and
is refused.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from pyspark.sql import types as T

from tidelog.spark.errors import PipelineError

_SIMPLE: dict[str, type[T.DataType]] = {
    "null": T.NullType,
    "boolean": T.BooleanType,
    "int": T.IntegerType,
    "long": T.LongType,
    "float": T.FloatType,
    "double": T.DoubleType,
    "bytes": T.BinaryType,
    "string": T.StringType,
    "fixed": T.BinaryType,
    "enum": T.StringType,
}
_LOGICAL: dict[str, type[T.DataType]] = {
    "date": T.DateType,
    "timestamp-millis": T.TimestampType,
    "timestamp-micros": T.TimestampType,
    "local-timestamp-millis": T.TimestampNTZType,
    "local-timestamp-micros": T.TimestampNTZType,
    "uuid": T.StringType,
}
_WIDENED = ((("int", "long"), T.LongType), (("float", "double"), T.DoubleType))


def spark_type(schema: Any) -> T.StructType:
    """The row that a record of this schema becomes."""
    found = _Types().of(_as_json(schema))
    if not isinstance(found, T.StructType):
        raise PipelineError("the Avro schema must be a record: its fields become the columns")
    return found


def schema_text(schema: Any) -> str:
    """The schema as text, the same for the same schema: it travels with the job."""
    return json.dumps(_as_json(schema))


def reader(writer: str, wanted: str | None) -> Callable[[bytes], Any]:
    """Bytes to a row: written with `writer`, read as `wanted` (the same, if None)."""
    return _reader(writer, wanted)


@lru_cache(maxsize=256)
def _reader(writer: str, wanted: str | None) -> Callable[[bytes], Any]:
    import fastavro

    written = fastavro.parse_schema(json.loads(writer))
    asked = (
        None if wanted is None or wanted == writer else fastavro.parse_schema(json.loads(wanted))
    )
    shape = spark_type(json.loads(wanted or writer))

    def read(payload: bytes) -> Any:
        source = io.BytesIO(payload)
        row = fastavro.schemaless_reader(source, written, asked)
        left = len(payload) - source.tell()
        if left:
            raise ValueError(f"{left} bytes are left over after the record")
        return as_row(row, shape)

    return read


def as_row(value: Any, shape: T.DataType) -> Any:
    """What fastavro gives, as Arrow takes it for that type."""
    if value is None:
        return None
    if isinstance(shape, T.StructType):
        return {field.name: as_row(value.get(field.name), field.dataType) for field in shape}
    if isinstance(shape, T.ArrayType):
        return [as_row(each, shape.elementType) for each in value]
    if isinstance(shape, T.MapType):
        return [(key, as_row(each, shape.valueType)) for key, each in value.items()]
    if isinstance(shape, T.StringType) and not isinstance(value, str):
        return json.dumps(value, default=str) if isinstance(value, dict | list) else str(value)
    return value


def _as_json(schema: Any) -> Any:
    if not isinstance(schema, str):
        return schema
    try:
        return json.loads(schema)
    except ValueError as error:
        raise PipelineError(f"the Avro schema is not JSON: {error}") from None


class _Types:
    """Avro's types to Spark's, with the named ones met on the way."""

    def __init__(self) -> None:
        self._named: dict[str, Any] = {}
        self._open: list[str] = []

    def of(self, schema: Any) -> T.DataType:
        if isinstance(schema, list):
            return self._union(schema)
        if isinstance(schema, str):
            return self._by_name(schema)
        kind = schema.get("type")
        if isinstance(kind, dict | list):
            return self.of(kind)
        logical = schema.get("logicalType")
        if logical == "decimal":
            return T.DecimalType(int(schema["precision"]), int(schema.get("scale", 0)))
        if logical in _LOGICAL:
            return _LOGICAL[logical]()
        return self._complex(schema, kind)

    def _complex(self, schema: Any, kind: str) -> T.DataType:
        name = schema.get("name")
        if name:
            self._named[name] = schema
            self._named[f"{schema.get('namespace', '')}.{name}".lstrip(".")] = schema
        if kind in ("record", "error"):
            return self._record(schema, str(name))
        if kind == "array":
            return T.ArrayType(self.of(schema["items"]))
        if kind == "map":
            return T.MapType(T.StringType(), self.of(schema["values"]))
        return self._by_name(kind)

    def _record(self, schema: Any, name: str) -> T.StructType:
        if name in self._open:
            raise PipelineError(f"the Avro record {name} contains itself: Spark has no such type")
        self._open.append(name)
        fields = [
            T.StructField(each["name"], self.of(each["type"]), True) for each in schema["fields"]
        ]
        self._open.pop()
        return T.StructType(fields)

    def _by_name(self, name: str) -> T.DataType:
        if name in _SIMPLE:
            return _SIMPLE[name]()
        if name not in self._named:
            raise PipelineError(f"the Avro schema names a type {name!r} that it does not define")
        return self.of(self._named[name])

    def _union(self, branches: list[Any]) -> T.DataType:
        rest = [each for each in branches if each != "null"]
        if len(rest) == 1:
            return self.of(rest[0])
        for names, wide in _WIDENED:
            if rest and all(each in names for each in rest):
                return wide()
        for each in rest:
            self.of(each)
        return T.StringType()
