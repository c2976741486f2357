"""`decode`: which format, what becomes of malformed rows, and the columns that are made."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.functions import arrow_udf

from tidelog.spark.decoding import avro, protobuf
from tidelog.spark.decoding.framing import HEADER_BYTES, unframe, without_message_path
from tidelog.spark.decoding.registry import Registry, avro_schemas, descriptor_sets
from tidelog.spark.errors import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

FORMATS = ("json", "avro", "protobuf")
MODES = ("permissive", "failfast")

_UNREADABLE = (ValueError, TypeError, LookupError, ArithmeticError, EOFError, struct.error)
"""What fastavro and protobuf raise over bytes that are not theirs."""

_CORRUPT = "__corrupt"
_SHOWN_BYTES = 40

Read = Callable[[bytes], Any]


def decode(
    df: DataFrame,
    format: str = "json",
    *,
    schema: Any = None,
    message: Any = None,
    descriptors: bytes | str | Path | None = None,
    registry: Registry | None = None,
    framed: bool = False,
    mode: str = "permissive",
    column: str = "value",
    into: str = "data",
    error: str = "error",
) -> DataFrame:
    """Add the struct `into`, decoded from the bytes in `column`, and the text `error`.

    - JSON: `schema` in Spark's words, `"city string, cents long"`, or a StructType.
    - Avro: `schema` as JSON text or a dict; with a `registry` (id to schema, or a directory) each
      record is read with the schema it was written with, as `schema` if that is given.
    - Protobuf: `message`, a compiled class, or its name with `descriptors`, a descriptor set.

    `framed` (implied by `registry`) takes the schema registry's framing off. A row that can't be
    decoded has null data and says why in `error`; with `mode="failfast"` it ends the query.
    """
    if mode not in MODES:
        raise PipelineError(f"unknown mode {mode!r}: known are {', '.join(MODES)}")
    shape = shape_of(
        format, schema=schema, message=message, descriptors=descriptors, registry=registry
    )
    source = F.col(column)
    is_framed = framed or registry is not None
    may_fail = mode == "failfast"
    if format == "json":
        decoded = _json(source, shape, is_framed=is_framed, may_fail=may_fail)
    elif format == "avro":
        read = _avro(schema, registry, is_framed=is_framed)
        decoded = _by_python(source, shape, read, may_fail=may_fail)
    else:
        read = _protobuf(message, descriptors, registry, is_framed=is_framed)
        decoded = _by_python(source, shape, read, may_fail=may_fail)
    made = df.withColumn("__decoded", decoded)
    return (
        made.withColumn(into, F.col("__decoded.data"))
        .withColumn(error, F.col("__decoded.error"))
        .drop("__decoded")
    )


def shape_of(
    format: str,
    *,
    schema: Any = None,
    message: Any = None,
    descriptors: bytes | str | Path | None = None,
    registry: Registry | None = None,
    **_others: Any,
) -> T.StructType:
    """The type of the struct that `decode` makes with the same arguments."""
    if format not in FORMATS:
        raise PipelineError(f"unknown format {format!r}: known are {', '.join(FORMATS)}")
    if format == "avro":
        return avro.spark_type(_asked(schema, registry))
    if format == "protobuf":
        return protobuf.spark_type(*protobuf.message_and_set(message, descriptors))
    if schema is None:
        raise PipelineError('JSON needs a schema, such as schema="city string, cents long"')
    parsed = schema if isinstance(schema, T.StructType) else T.StructType.fromDDL(schema)
    if not isinstance(parsed, T.StructType):
        raise PipelineError('a JSON schema has fields: schema="city string, cents long"')
    return parsed


def _json(value: Column, shape: T.StructType, *, is_framed: bool, may_fail: bool) -> Column:
    """Spark's own parser; it keeps what it could not read, which is how a bad row is known."""
    payload = F.substring(value, HEADER_BYTES + 1, 2**31 - 1) if is_framed else value
    text = payload.cast("string")
    if may_fail:
        parsed = F.from_json(text, shape, {"mode": "FAILFAST"})
        return F.struct(parsed.alias("data"), F.lit(None).cast("string").alias("error"))
    wide = T.StructType([*shape.fields, T.StructField(_CORRUPT, T.StringType())])
    parsed = F.from_json(text, wide, {"columnNameOfCorruptRecord": _CORRUPT})
    broken = parsed[_CORRUPT].isNotNull() | (text.isNotNull() & parsed.isNull())
    empty = F.trim(text) == ""
    fields = F.struct(*(parsed[field.name].alias(field.name) for field in shape.fields))
    said = F.concat(F.lit("not JSON of this schema: "), F.substring(text, 1, _SHOWN_BYTES))
    is_bad = F.coalesce(broken | empty, F.lit(False))
    return F.struct(
        F.when(text.isNull() | is_bad, F.lit(None)).otherwise(fields).alias("data"),
        F.when(is_bad, said).alias("error"),
    )


def _asked(schema: Any, registry: Registry | None) -> Any:
    """The newest of the registry, unless a schema is asked for: ids only grow."""
    if schema is not None:
        return schema
    if registry is None:
        raise PipelineError("Avro needs a schema, or a registry that has them by id")
    by_id = avro_schemas(registry)
    return by_id[max(by_id)]


def _avro(schema: Any, registry: Registry | None, *, is_framed: bool) -> Read:
    by_id = {} if registry is None else avro_schemas(registry)
    wanted = avro.schema_text(_asked(schema, registry))
    written = {number: avro.schema_text(each) for number, each in by_id.items()}

    def read(record: bytes) -> Any:
        if not is_framed:
            return avro.reader(wanted, None)(record)
        number, payload = unframe(record)
        if written and number not in written:
            raise ValueError(f"the registry has no schema {number}")
        return avro.reader(written.get(number, wanted), wanted)(payload)

    return read


def _protobuf(
    message: Any,
    descriptors: bytes | str | Path | None,
    registry: Registry | None,
    *,
    is_framed: bool,
) -> Read:
    """Protobuf's own rules make any version of a message readable as any other, so the id only
    has to be known."""
    name, files = protobuf.message_and_set(message, descriptors)
    known = () if registry is None else tuple(descriptor_sets(registry))

    def read(record: bytes) -> Any:
        if not is_framed:
            return protobuf.reader(name, files)(record)
        number, rest = unframe(record)
        if known and number not in known:
            raise ValueError(f"the registry has no schema {number}")
        _path, payload = without_message_path(rest)
        return protobuf.reader(name, files)(payload)

    return read


def _by_python(value: Column, shape: T.StructType, read: Read, *, may_fail: bool) -> Column:
    """A function over Arrow arrays: one call per batch of rows, in Spark's Python workers."""
    both = T.StructType([T.StructField("data", shape), T.StructField("error", T.StringType())])

    def decoded(values: Any) -> Any:
        return decoded_batch(values, shape, read, may_fail=may_fail)

    decoded.__annotations__ = {}
    return arrow_udf(decoded, both)(value)  # type: ignore[call-overload, no-any-return]


def decoded_batch(values: Any, shape: T.StructType, read: Read, *, may_fail: bool) -> Any:
    """An Arrow array of bytes to one of `struct<data, error>`."""
    import pyarrow as pa
    from pyspark.sql.pandas.types import to_arrow_type

    rows: list[Any] = []
    errors: list[str | None] = []
    for value in values.to_pylist():
        row, said = (None, None) if value is None else _read_one(value, read, may_fail=may_fail)
        rows.append(row)
        errors.append(said)
    kind = to_arrow_type(shape, timezone="UTC")
    data = pa.array(rows, type=kind)
    return pa.StructArray.from_arrays(
        [data, pa.array(errors, type=pa.string())],
        fields=[pa.field("data", kind), pa.field("error", pa.string())],
    )


def _read_one(value: bytes, read: Read, *, may_fail: bool) -> tuple[Any, str | None]:
    try:
        return read(value), None
    except _UNREADABLE as error:
        if may_fail:
            raise ValueError(f"a record can't be decoded: {_sentence(error)}") from None
        return None, _sentence(error)


def _sentence(error: BaseException) -> str:
    if isinstance(error, EOFError):
        return "the record is cut off"
    said = str(error)
    return said if " " in said else f"{type(error).__name__}: {said}"
