"""Building the text of a generated function: lines, indentation, and the objects it refers to."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

FIXED = {
    "int8": "b",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "uint32": "I",
    "int64": "q",
    "float64": "d",
    "bool": "?",
    "error_code": "h",
    "uuid": "16s",
}
"""The `struct` format of each type whose size does not depend on its value."""


def fixed_size(kind: str) -> int:
    return struct.calcsize(">" + FIXED[kind])


class Source:
    """The source of one or more functions, and the namespace they run in."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._lines: list[str] = []
        self._depth = 0
        self._names = 0
        self._bound: dict[tuple[str, int | str], str] = {}
        self.namespace: dict[str, Any] = {}

    def line(self, text: str) -> None:
        self._lines.append("    " * self._depth + text)

    @contextmanager
    def block(self, opening: str) -> Iterator[None]:
        self.line(opening)
        self._depth += 1
        yield
        self._depth -= 1

    def fresh(self, stem: str) -> str:
        """A name nobody else uses."""
        self._names += 1
        return f"{stem}{self._names}"

    def bind(self, stem: str, value: Any) -> str:
        """A name by which the generated code reaches `value`; the same object, the same name."""
        key = (stem, value if isinstance(value, str) else id(value))
        if key not in self._bound:
            name = self.fresh(stem)
            self._bound[key] = name
            self.namespace[name] = value
        return self._bound[key]

    def struct_method(self, formats: str, method: str) -> str:
        """A name bound to `Struct(formats).method`."""
        key = (method, formats)
        if key not in self._bound:
            name = self.fresh(method)
            self._bound[key] = name
            self.namespace[name] = getattr(struct.Struct(formats), method)
        return self._bound[key]

    def text(self) -> str:
        return "\n".join(self._lines) + "\n"

    def compiled(self, function: str) -> Callable[..., Any]:
        exec(compile(self.text(), f"<{self._title}>", "exec"), self.namespace)
        result: Callable[..., Any] = self.namespace[function]
        return result
