"""What the values of a topic look like: a guess at their format and schema, from a sample.

Pure: bytes in, a `Guess` out. JSON objects get a type per field, merged over all samples: long and
double make double, two that don't fit make string, a text that is always an ISO time a timestamp.
Avro and Protobuf can't be told from noise; the registry's framing can, and its schema ids.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

_TIME = re.compile(r"^\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d{1,9})?)?(Z|[+-]\d\d:?\d\d)?$")
_PLAIN = re.compile(r"^[A-Za-z_]\w*$")
_ENOUGH = 0.5
"""The share of samples that must be of a format for the topic to be called so: a topic with
broken records in it is still a topic of the others."""

_RARE = 0.05
_NUMBERS = ("bigint", "double")

Shape = str | list[Any] | dict[str, Any]
"""A type: its name, `[element]`, or the fields of a struct. `"null"` fits everything."""


@dataclass(frozen=True, slots=True)
class Guess:
    """What was found. `fields` has Spark's type for each field of JSON objects."""

    format: str
    sampled: int = 0
    matching: int = 0
    fields: Mapping[str, str] = field(default_factory=dict)
    schema_ids: tuple[int, ...] = ()

    @property
    def ddl(self) -> str:
        """The fields as Spark's schema text."""
        return ", ".join(f"{_quoted(name)} {kind}" for name, kind in self.fields.items())


def guess(values: Iterable[bytes | None]) -> Guess:
    """The format that at least half of the values have, and its schema."""
    kinds: Counter[str] = Counter()
    seen: dict[str, _Seen] = {}
    ids: list[int] = []
    for value in values:
        if value is None:
            continue
        kind, parsed = _parsed(value)
        kinds[kind] += 1
        if kind == "json":
            for name, each in parsed.items():
                seen.setdefault(name, _Seen()).add(shape_of(each))
        elif kind == "framed":
            ids.append(int.from_bytes(value[1:5], "big"))
    sampled = kinds.total()
    if not sampled:
        return Guess("empty")
    name, count = kinds.most_common(1)[0]
    if count < sampled * _ENOUGH:
        return Guess("mixed", sampled, count)
    fields = {each: type_text(found.shape()) for each, found in seen.items()}
    if name != "json":
        fields = {}
    return Guess(name, sampled, count, fields, tuple(sorted(set(ids))))


class _Seen:
    """The types met in one field. A kind that is rare beside the others is taken for a mistake in
    the data: one text among a hundred numbers does not make the field a text."""

    def __init__(self) -> None:
        self._shapes: dict[str, Shape] = {}
        self._counts: Counter[str] = Counter()

    def add(self, shape: Shape) -> None:
        kind = _kind(shape)
        self._shapes[kind] = merged(self._shapes.get(kind, "null"), shape)
        self._counts[kind] += kind != "null"

    def shape(self) -> Shape:
        total = self._counts.total()
        found: Shape = "null"
        for kind, count in self._counts.items():
            if count >= total * _RARE:
                found = merged(found, self._shapes[kind])
        return found


def _kind(shape: Shape) -> str:
    if isinstance(shape, dict):
        return "struct"
    if isinstance(shape, list):
        return "array"
    return "number" if shape in _NUMBERS else shape


def _parsed(value: bytes) -> tuple[str, Any]:
    if len(value) > 5 and value[0] == 0:
        return "framed", None
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return "binary", None
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError):
        return "text", None
    return ("json", parsed) if isinstance(parsed, dict) else ("text", None)


def shape_of(value: Any) -> Shape:
    """The type of one parsed JSON value."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "bigint" if -(2**63) <= value < 2**63 else "double"
    if isinstance(value, float):
        return "double"
    if isinstance(value, str):
        return "timestamp" if _TIME.match(value) else "string"
    if isinstance(value, list):
        element: Shape = "null"
        for each in value:
            element = merged(element, shape_of(each))
        return [element]
    return {str(name): shape_of(each) for name, each in value.items()}


def merged(one: Shape, other: Shape) -> Shape:
    """The narrowest type that holds both."""
    if one == other or other == "null":
        return one
    if one == "null":
        return other
    if isinstance(one, dict) and isinstance(other, dict):
        both = dict(one)
        for name, kind in other.items():
            both[name] = merged(both.get(name, "null"), kind)
        return both
    if isinstance(one, list) and isinstance(other, list):
        return [merged(one[0], other[0])]
    return "double" if one in _NUMBERS and other in _NUMBERS else "string"


def type_text(shape: Shape) -> str:
    """As Spark writes it."""
    if isinstance(shape, list):
        return f"array<{type_text(shape[0])}>"
    if isinstance(shape, dict):
        if not shape:
            return "map<string,string>"
        parts = (f"{_quoted(name)}:{type_text(kind)}" for name, kind in shape.items())
        return f"struct<{','.join(parts)}>"
    return "string" if shape == "null" else shape


def _quoted(name: str) -> str:
    doubled = name.replace("`", "``")
    return name if _PLAIN.match(name) else f"`{doubled}`"
