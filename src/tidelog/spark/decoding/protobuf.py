"""Protobuf: a message's descriptor to Spark's types, and bytes to rows.

The message is given as its compiled class, or as a descriptor set (`protoc --include_imports
--descriptor_set_out=FILE`) with the message's full name. Either way the serialized descriptor set
travels with the job, so that executors need no generated module.

A field without presence has its default when absent, as Protobuf says; one with presence is null.
Enums are their names, `Timestamp` is a timestamp, the wrapper types are their values, and uint64 a
decimal(20).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from decimal import Decimal
from functools import lru_cache
from pathlib import Path
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError
from pyspark.sql import types as T

from tidelog.spark.errors import PipelineError

_PACKAGE = "google.protobuf."
_WRAPPERS = tuple(
    f"{_PACKAGE}{name}Value"
    for name in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
)
_TIMESTAMP = f"{_PACKAGE}Timestamp"

Field = Any
"""Protobuf's FieldDescriptor; its types have no names that a checker knows."""


def message_and_set(message: Any, descriptors: bytes | str | Path | None) -> tuple[str, bytes]:
    """The message's full name, and the serialized descriptor set that defines it."""
    if hasattr(message, "DESCRIPTOR"):
        return message.DESCRIPTOR.full_name, _set_of(message.DESCRIPTOR.file)
    if not isinstance(message, str):
        raise PipelineError("give `message`: a compiled message class, or its name as text")
    if descriptors is None:
        raise PipelineError(f"give `descriptors`, the descriptor set that defines {message}")
    if isinstance(descriptors, bytes):
        return message, descriptors
    try:
        return message, Path(descriptors).read_bytes()
    except OSError as error:
        raise PipelineError(f"{descriptors}: {error.strerror}") from None


def spark_type(name: str, descriptors: bytes) -> T.StructType:
    """The row that the message becomes."""
    return _struct(_descriptor(name, descriptors), ())


def reader(name: str, descriptors: bytes) -> Callable[[bytes], Any]:
    """Bytes to a row."""
    return _reader(name, descriptors)


@lru_cache(maxsize=256)
def _reader(name: str, descriptors: bytes) -> Callable[[bytes], Any]:
    made = message_factory.GetMessageClass(_descriptor(name, descriptors))

    def read(payload: bytes) -> Any:
        try:
            return _row(made.FromString(payload))
        except DecodeError as error:
            raise ValueError(f"not a {name}: {error}") from None

    return read


@lru_cache(maxsize=256)
def _descriptor(name: str, descriptors: bytes) -> Any:
    files = descriptor_pb2.FileDescriptorSet()
    try:
        files.ParseFromString(descriptors)
        pool = descriptor_pool.DescriptorPool()
        for file in _in_order(files):
            pool.Add(file)
        return pool.FindMessageTypeByName(name)
    except KeyError:
        raise PipelineError(f"the descriptor set defines no message {name}") from None
    except (DecodeError, TypeError) as error:
        raise PipelineError(f"not a whole descriptor set (--include_imports?): {error}") from None


def _in_order(files: Any) -> Iterator[Any]:
    """Each file after those it imports."""
    waiting = {file.name: file for file in files.file}
    given: list[str] = []

    def give(name: str) -> Iterator[Any]:
        file = waiting.get(name)
        if file is None or name in given:
            return
        given.append(name)
        for imported in file.dependency:
            yield from give(imported)
        yield file

    for name in waiting:
        yield from give(name)


def _set_of(file: Any) -> bytes:
    files = descriptor_pb2.FileDescriptorSet()
    seen: list[str] = []

    def add(each: Any) -> None:
        if each.name in seen:
            return
        seen.append(each.name)
        for imported in each.dependencies:
            add(imported)
        files.file.add().ParseFromString(each.serialized_pb)

    add(file)
    return bytes(files.SerializeToString())


# --- types ------------------------------------------------------------------------------------


def _struct(message: Any, outer: tuple[str, ...]) -> T.StructType:
    if message.full_name in outer:
        raise PipelineError(
            f"the message {message.full_name} contains itself: Spark has no such type"
        )
    path = (*outer, message.full_name)
    return T.StructType([T.StructField(each.name, _type(each, path)) for each in message.fields])


def _type(field: Field, path: tuple[str, ...]) -> T.DataType:
    if _is_map(field):
        entry = field.message_type.fields_by_name
        return T.MapType(_single(entry["key"], path), _single(entry["value"], path))
    single = _single(field, path)
    return T.ArrayType(single) if field.is_repeated else single


def _single(field: Field, path: tuple[str, ...]) -> T.DataType:
    kind = field.cpp_type
    if kind == field.CPPTYPE_MESSAGE:
        name = field.message_type.full_name
        if name == _TIMESTAMP:
            return T.TimestampType()
        if name in _WRAPPERS:
            return _single(field.message_type.fields_by_name["value"], path)
        return _struct(field.message_type, path)
    if kind == field.CPPTYPE_STRING:
        return T.BinaryType() if field.type == field.TYPE_BYTES else T.StringType()
    return {
        field.CPPTYPE_INT32: T.IntegerType(),
        field.CPPTYPE_UINT32: T.LongType(),
        field.CPPTYPE_INT64: T.LongType(),
        field.CPPTYPE_UINT64: T.DecimalType(20, 0),
        field.CPPTYPE_FLOAT: T.FloatType(),
        field.CPPTYPE_DOUBLE: T.DoubleType(),
        field.CPPTYPE_BOOL: T.BooleanType(),
        field.CPPTYPE_ENUM: T.StringType(),
    }[kind]


def _is_map(field: Field) -> bool:
    return field.message_type is not None and field.message_type.GetOptions().map_entry


# --- values -----------------------------------------------------------------------------------


def _row(message: Any) -> dict[str, Any]:
    return {field.name: _value(message, field) for field in message.DESCRIPTOR.fields}


def _value(message: Any, field: Field) -> Any:
    if field.has_presence and not message.HasField(field.name):
        return None
    held = getattr(message, field.name)
    if _is_map(field):
        kind = field.message_type.fields_by_name["value"]
        return [(key, _plain(held[key], kind)) for key in held]
    if field.is_repeated:
        return [_plain(each, field) for each in held]
    return _plain(held, field)


def _plain(value: Any, field: Field) -> Any:
    if field.cpp_type == field.CPPTYPE_MESSAGE:
        name = field.message_type.full_name
        if name == _TIMESTAMP:
            return value.seconds * 1_000_000 + value.nanos // 1000
        return value.value if name in _WRAPPERS else _row(value)
    if field.cpp_type == field.CPPTYPE_ENUM:
        known = field.enum_type.values_by_number.get(value)
        return known.name if known is not None else str(value)
    return Decimal(value) if field.cpp_type == field.CPPTYPE_UINT64 else value
