"""The answer "no" to any request, in the shape its API gives to errors.

There is no list of APIs here. The schema of the response says where an error may stand; wherever it
does, it is put. A row of the response that carries an error answers a row of the request (a topic,
a partition, a group): it gets the names that the request's row has, and numbers that mean
"nothing" (-1, never 0) for all else. Rows nobody asked for are left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import MISSING
from typing import Any

from tidelog.model.errors import ErrorCode
from tidelog.wire.messages import API_BY_KEY
from tidelog.wire.requests import RequestHeader
from tidelog.wire.schema import NO_UUID, FieldSchema, MessageSchema, WireType, schema_of

_PARTITION_NUMBERS = ("partition_index", "partition", "index")
"""What Kafka calls it differs from request to response."""

_NAMING_KINDS = ("string", "uuid", "int8")
"""Topics, groups, members, and the types of resources. Larger numbers are offsets, epochs and
counts: to repeat those would look like success."""

_ERROR_MESSAGE = "error_message"

_BLANKS: dict[str, Any] = {
    "string": "",
    "bytes": b"",
    "records": b"",
    "bool": False,
    "uuid": NO_UUID,
    "float64": 0.0,
}


def refusal(header: RequestHeader, request: Any, error: ErrorCode) -> Any:
    """The response to `request` that says `error` wherever it can."""
    response = schema_of(API_BY_KEY[header.api_key].response_class)
    return _Refusal(header.api_version, error).of(response, request)


class _Refusal:
    """One error, at one version."""

    def __init__(self, version: int, error: ErrorCode) -> None:
        self._version = version
        self._error = error

    def of(self, schema: MessageSchema, asked: Any) -> Any:
        """A message of `schema`, in answer to `asked`: a request, a row of one, or a bare name."""
        return schema.cls(
            **{field.name: self._value(schema, field, asked) for field in schema.fields}
        )

    def _value(self, schema: MessageSchema, field: FieldSchema, asked: Any) -> Any:
        if field.type.kind == "error_code":
            return self._error
        if field.name == _ERROR_MESSAGE:
            return self._error.explanation
        if _rows_have_errors(field.type):
            element = schema_of(_struct(field.type))
            return [self.of(element, row) for row in self._rows_asked(field, element, asked)]
        name = _name_of(schema, field, asked)
        if name is not None:
            return name
        if field.default is not MISSING or field.default_factory is not None:
            return field.initial()
        return self._blank(field.type)

    def _rows_asked(self, field: FieldSchema, element: MessageSchema, asked: Any) -> list[Any]:
        """The rows of the request that the response's `field` has an answer to."""
        arrays = [
            each
            for each in _fields_of(asked)
            if each.type.kind == "array" and each.versions.holds(self._version)
        ]
        arrays.sort(key=lambda each: each.name != field.name)
        for array in arrays:
            if array.type.element is not None and _fits(array.type.element, element):
                return list(getattr(asked, array.name) or ())
        return []

    def _blank(self, wire_type: WireType) -> Any:
        if wire_type.kind == "array":
            return []
        if wire_type.kind == "struct":
            return self.of(schema_of(_struct(wire_type)), None)
        return _BLANKS.get(wire_type.kind, -1)


def _rows_have_errors(wire_type: WireType) -> bool:
    if wire_type.kind != "array" or wire_type.element is None or wire_type.element.struct is None:
        return False
    fields = schema_of(wire_type.element.struct).fields
    return any(f.type.kind == "error_code" or _rows_have_errors(f.type) for f in fields)


def _struct(wire_type: WireType) -> type:
    struct = wire_type.struct or (wire_type.element and wire_type.element.struct)
    assert struct is not None
    return struct


def _fields_of(asked: Any) -> tuple[FieldSchema, ...]:
    return () if asked is None or isinstance(asked, str | int) else schema_of(type(asked)).fields


def _fits(asked: WireType, answer: MessageSchema) -> bool:
    """Whether rows of the two can be about the same thing: they have a name in common."""
    if asked.struct is None:
        return next(_bare_name_fields(answer, asked.kind), None) is not None
    names = {field.name for field in schema_of(asked.struct).fields}
    return any(
        (field.type.kind in _NAMING_KINDS and field.name in names)
        or (field.name in _PARTITION_NUMBERS and names.intersection(_PARTITION_NUMBERS))
        for field in answer.fields
    )


def _bare_name_fields(answer: MessageSchema, kind: str) -> Iterator[FieldSchema]:
    """Where a row puts its name if the request's rows are nothing but names."""
    return (f for f in answer.fields if f.type.kind == kind and f.name != _ERROR_MESSAGE)


def _name_of(schema: MessageSchema, field: FieldSchema, asked: Any) -> Any:
    """The part of `asked` that belongs into `field`; None if there is none."""
    if isinstance(asked, str | int):
        kind = "string" if isinstance(asked, str) else "int32"
        return asked if field is next(_bare_name_fields(schema, kind), None) else None
    names = {each.name for each in _fields_of(asked)}
    if field.name in _PARTITION_NUMBERS:
        known = [name for name in _PARTITION_NUMBERS if name in names]
        return getattr(asked, known[0]) if known else None
    if field.type.kind in _NAMING_KINDS and field.name in names:
        return getattr(asked, field.name)
    return None
