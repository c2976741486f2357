"""Generates encoders: one function per message and version, the reverse of `decoding.py`.

Consecutive fixed-size fields are packed by one `struct` call; the empty section of tagged fields
that ends most structs is a pad byte of the same call. A value that the message can't carry (None
where it isn't nullable, a number too large) is our own mistake, and whatever exception results is
left to stop us: nothing here depends on a peer.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tidelog.wire.parts import Part, Records
from tidelog.wire.schema import FieldSchema, MessageSchema, WireType, schema_of
from tidelog.wire.source import FIXED, Source
from tidelog.wire.varints import append_uvarint

Encoder = Callable[[Any, bytearray, list[Part]], bytearray]
"""Message, the bytes so far, the parts before them. Returns the bytes that are last: another
`bytearray` than was given if a span had to go between."""

LARGE_RECORDS = 4096
"""Immutable records from this size on travel as a part of their own instead of being copied."""


def build_encoder(cls: type, version: int) -> Encoder:
    """The encoder of `cls`, a whole request or response, at `version`."""
    return _EncoderBuilder(schema_of(cls), version).build()


_COPIED = (bytearray, memoryview)
"""Their owner may reuse the memory before the frame is sent."""


def _size_of_records(records: Records) -> int:
    if isinstance(records, bytes):
        return len(records)
    if isinstance(records, _COPIED):
        return memoryview(records).nbytes
    return records.size


def _append_records(records: Records, out: bytearray, parts: list[Part]) -> bytearray:
    if isinstance(records, bytes):
        if len(records) < LARGE_RECORDS:
            out += records
            return out
    elif isinstance(records, _COPIED):
        out += records
        return out
    parts.append(out)
    parts.append(records)
    return bytearray()


_SUPPORT: dict[str, Any] = {
    "append_uvarint": append_uvarint,
    "size_of_records": _size_of_records,
    "append_records": _append_records,
    "pack": struct.pack,
}


class _Group:
    """Fixed-size writes that are yet to be emitted as one."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._formats = ""
        self._values: list[str] = []

    def write(self, formats: str, value: str) -> None:
        self._formats += formats
        self._values.append(value)

    def pad(self) -> None:
        self._formats += "x"

    def flush(self) -> None:
        if self._formats == "x":
            self._source.line("out.append(0)")
        elif self._formats:
            pack = self._source.struct_method(">" + self._formats, "pack")
            self._source.line(f"out += {pack}({', '.join(self._values)})")
        self._formats, self._values = "", []


class _EncoderBuilder:
    """Emits the encoder of one message at one version. In the emitted code all goes to `out`."""

    def __init__(self, schema: MessageSchema, version: int) -> None:
        self._schema = schema
        self._version = version
        self._is_flexible = schema.flexible.holds(version)
        self._source = Source(f"encode {schema.cls.__name__} v{version}")
        self._source.namespace.update(_SUPPORT)
        self._group = _Group(self._source)
        self._tag_functions: dict[str, MessageSchema] = {}

    def build(self) -> Encoder:
        source = self._source
        with source.block("def encode(o, out, parts):"):
            self._struct(self._schema, "o")
            self._group.flush()
            source.line("return out")
        emitted = 0
        while emitted < len(self._tag_functions):
            self._tag_function(*list(self._tag_functions.items())[emitted])
            emitted += 1
        return source.compiled("encode")

    def _struct(self, schema: MessageSchema, origin: str) -> None:
        for field in schema.plain_fields(self._version):
            self._value(field.type, f"{origin}.{field.name}", field)
        if not self._is_flexible:
            return
        if not schema.tagged_fields(self._version):
            self._group.pad()
            return
        self._group.flush()
        function = f"tags_of_{schema.cls.__name__}"
        self._tag_functions[function] = schema
        is_silent = " and ".join(
            self._is_default(field, f"{origin}.{field.name}")
            for field in schema.tagged_fields(self._version)
        )
        with self._source.block(f"if {is_silent}:"):
            self._source.line("out.append(0)")
        with self._source.block("else:"):
            self._source.line(f"{function}({origin}, out)")

    def _is_default(self, field: FieldSchema, value: str) -> str:
        default = field.initial()
        if default is None:
            return f"{value} is None"
        if default == []:
            return f"not {value}"
        if type(default) in (int, bool, str):
            return f"{value} == {default!r}"
        name = self._source.bind("D", default)
        return f"({value} is {name} or {value} == {name})"

    def _value(self, wire_type: WireType, value: str, field: FieldSchema) -> None:
        """Emit the writing of the expression `value`, perhaps as a part of the pending group."""
        kind = wire_type.kind
        if kind == "uuid":
            self._group.write(FIXED[kind], f"{value}.bytes")
        elif kind in FIXED:
            self._group.write(FIXED[kind], value)
        elif kind == "struct":
            self._nested(wire_type, value, field)
        elif kind == "array":
            self._array(wire_type, value, field)
        else:
            self._blob(kind, value, field)

    def _nested(self, wire_type: WireType, value: str, field: FieldSchema) -> None:
        assert wire_type.struct is not None
        source, inner = self._source, self._source.fresh("o")
        source.line(f"{inner} = {value}")
        if not field.nullable.holds(self._version):
            self._struct(schema_of(wire_type.struct), inner)
            return
        self._group.flush()
        with source.block(f"if {inner} is None:"):
            source.line("out.append(255)")
        with source.block("else:"):
            source.line("out.append(1)")
            self._struct(schema_of(wire_type.struct), inner)
            self._group.flush()

    def _length(self, length: str, legacy_format: str) -> None:
        """Emit a length (an expression that may be a literal), and all that is pending."""
        source = self._source
        if not self._is_flexible:
            self._group.write(legacy_format, length)
            self._group.flush()
            return
        self._group.flush()
        wire_length = source.fresh("n")
        source.line(f"{wire_length} = {length} + 1")
        with source.block(f"if {wire_length} < 128:"):
            source.line(f"out.append({wire_length})")
        with source.block("else:"):
            source.line(f"append_uvarint(out, {wire_length})")

    @contextmanager
    def _unless_null(self, field: FieldSchema, value: str, legacy_format: str) -> Iterator[None]:
        """The block runs for a value; a null is written as its length alone."""
        if not field.nullable.holds(self._version):
            yield
            return
        source = self._source
        self._group.flush()
        with source.block(f"if {value} is None:"):
            null = "out.append(0)"
            if not self._is_flexible:
                null = f"out += {struct.pack('>' + legacy_format, -1)!r}"
            source.line(null)
        with source.block("else:"):
            yield

    def _blob(self, kind: str, value: str, field: FieldSchema) -> None:
        """A string, bytes or records: a length, then that many bytes."""
        source, blob = self._source, self._source.fresh("v")
        legacy_format = "h" if kind == "string" else "i"
        source.line(f"{blob} = {value}")
        with self._unless_null(field, blob, legacy_format):
            if kind == "records":
                self._length(f"size_of_records({blob})", legacy_format)
                source.line(f"out = append_records({blob}, out, parts)")
                return
            if kind == "string":
                source.line(f"{blob} = {blob}.encode()")
            self._length(f"len({blob})", legacy_format)
            source.line(f"out += {blob}")

    def _array(self, wire_type: WireType, value: str, field: FieldSchema) -> None:
        source, items = self._source, self._source.fresh("v")
        element = wire_type.element
        assert element is not None
        source.line(f"{items} = {value}")
        with self._unless_null(field, items, "i"):
            self._length(f"len({items})", "i")
            if element.kind in FIXED and element.kind != "uuid":
                source.line(f"out += pack(f'>{{len({items})}}{FIXED[element.kind]}', *{items})")
                return
            item = source.fresh("o")
            with source.block(f"for {item} in {items}:"):
                self._element(element, item, field)
                self._group.flush()

    def _element(self, element: WireType, item: str, field: FieldSchema) -> None:
        if element.kind == "struct":
            assert element.struct is not None
            self._struct(schema_of(element.struct), item)
        else:
            self._value(element, item, field.never_null())

    def _tag_function(self, function: str, schema: MessageSchema) -> None:
        source = self._source
        with source.block(f"def {function}(o, whole):"):
            source.line("count, parts, section = 0, None, bytearray()")
            for field in schema.tagged_fields(self._version):
                value = f"o.{field.name}"
                with source.block(f"if not ({self._is_default(field, value)}):"):
                    source.line("count, out = count + 1, bytearray()")
                    self._value(field.type, value, field)
                    self._group.flush()
                    source.line(f"append_uvarint(section, {field.tag})")
                    source.line("append_uvarint(section, len(out))")
                    source.line("section += out")
            source.line("append_uvarint(whole, count)")
            source.line("whole += section")
