"""Generates decoders: one function per message and version, nested structs as nested loops.

What the generated code does, and why:

- Fixed-size fields that follow each other, the length that follows them, and the count of tagged
  fields at a struct's end are read by one `struct` call, straight into the message's slots. Of a
  varint only the first byte takes part; `uvarint_rest` reads on in the rare longer case.
- Messages are made without `__init__` (`object.__new__`, then every slot): half the time.
- Reading past the end raises `struct.error` or `IndexError` by itself; one handler around the
  whole function turns these into `DecodeError`. Slices don't raise, so lengths are compared.
- An array's claimed length must fit the bytes left, at the smallest size an element can have, and
  all arrays together the element budget, before anything is allocated.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from uuid import UUID

from tidelog.model.errors import ErrorCode
from tidelog.model.limits import MAX_DECODED_ELEMENTS, MAX_REQUEST_ELEMENTS, MAX_STRING_BYTES
from tidelog.wire.errors import DecodeError
from tidelog.wire.schema import FieldSchema, MessageSchema, WireType, schema_of
from tidelog.wire.source import FIXED, Source, fixed_size
from tidelog.wire.varints import read_uvarint, uvarint_rest

Decoder = Callable[[memoryview, int], Any]
"""Frame and the position of the body in it."""

_UUIDS_REMEMBERED = 4096
"""Topic ids come again and again, and a `UUID` takes a microsecond to make."""

_ERROR_CODES = {int(code): code for code in ErrorCode}


def build_decoder(cls: type, version: int) -> Decoder:
    """The decoder of `cls`, a whole request or response, at `version`."""
    schema = schema_of(cls)
    return _DecoderBuilder(schema, version).build()


class _Uuids(dict[bytes, UUID]):
    """Remembers a bounded number of uuids by their bytes."""

    def __missing__(self, raw: bytes) -> UUID:
        if len(self) >= _UUIDS_REMEMBERED:
            self.clear()
        value = self[raw] = UUID(bytes=raw)
        return value


class _ErrorCodes(dict[int, ErrorCode]):
    """A code of a future Kafka is an unknown error, as it is to Kafka's own clients."""

    def __missing__(self, number: int) -> ErrorCode:
        return ErrorCode.UNKNOWN_SERVER_ERROR


def _bad_length(name: str, length: int, left: int) -> DecodeError:
    if length < 0:
        return DecodeError(f"{name} may not be null")
    return DecodeError(f"{name} claims {length} bytes or elements where {left} bytes are left")


def _skip_tag(buf: memoryview, position: int, end: int) -> int:
    size, position = read_uvarint(buf, position)
    if size > end - position:
        raise DecodeError(f"a tagged field claims {size} bytes where {end - position} are left")
    return position + size


_SUPPORT: dict[str, Any] = {
    "new": object.__new__,
    "uuids": _Uuids(),
    "errors": _ErrorCodes(_ERROR_CODES),
    "uvarint_rest": uvarint_rest,
    "read_uvarint": read_uvarint,
    "bad_length": _bad_length,
    "skip_tag": _skip_tag,
    "unpack_from": struct.unpack_from,
    "StructError": struct.error,
    "DecodeError": DecodeError,
}


class _Group:
    """Fixed-size reads that are yet to be emitted as one."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._formats = ""
        self._targets: list[str] = []
        self._afterwards: list[str] = []

    def read(self, formats: str, target: str) -> None:
        self._formats += formats
        self._targets.append(target)

    def then(self, line: str) -> None:
        self._afterwards.append(line)

    def flush(self) -> None:
        source, formats = self._source, self._formats
        if formats == "B":
            source.line(f"{self._targets[0]} = buf[pos]")
            source.line("pos += 1")
        elif formats:
            unpack = source.struct_method(">" + formats, "unpack_from")
            source.line(f"{', '.join(self._targets)}, = {unpack}(buf, pos)")
            source.line(f"pos += {struct.calcsize('>' + formats)}")
        for line in self._afterwards:
            source.line(line)
        self._formats, self._targets, self._afterwards = "", [], []


class _DecoderBuilder:
    """Emits the decoder of one message at one version.

    In the emitted code: `buf`, `pos`, `end` (of the message, or of the tagged field), `left` (of
    the element budget). Every emitter leaves `pos` behind what it read.
    """

    def __init__(self, schema: MessageSchema, version: int) -> None:
        self._schema = schema
        self._version = version
        self._is_flexible = schema.flexible.holds(version)
        self._source = Source(f"decode {schema.cls.__name__} v{version}")
        self._source.namespace.update(_SUPPORT)
        self._group = _Group(self._source)
        self._tag_functions: dict[str, MessageSchema] = {}

    def build(self) -> Decoder:
        """Bytes after the message are ignored, as Kafka ignores them: librdkafka 2.16 sends three
        too many when it asks for the metadata of all topics in version 13."""
        source = self._source
        with source.block("def decode(buf, pos):"):
            source.line("end = len(buf)")
            is_request = self._schema.cls.__name__.endswith("Request")
            source.line(f"left = {MAX_REQUEST_ELEMENTS if is_request else MAX_DECODED_ELEMENTS}")
            with source.block("try:"):
                self._struct(self._schema, "o")
            self._handlers()
            source.line("return o")
        emitted = 0
        while emitted < len(self._tag_functions):
            self._tag_function(*list(self._tag_functions.items())[emitted])
            emitted += 1
        return source.compiled("decode")

    def _handlers(self) -> None:
        source = self._source
        with source.block("except (StructError, IndexError):"):
            source.line("raise DecodeError('the message is cut off') from None")
        with source.block("except UnicodeDecodeError:"):
            source.line("raise DecodeError('a string is not UTF-8') from None")

    def _struct(self, schema: MessageSchema, target: str) -> None:
        """Emit `target = <schema.cls read from buf>`."""
        slots = self._make_target(schema, target)
        for field in schema.absent_fields(self._version):
            self._source.line(f"{slots(field)} = {self._default(field)}")
        for field in schema.plain_fields(self._version):
            self._value(field.type, slots(field), field)
        if self._is_flexible:
            self._tags(schema, slots)
        self._group.flush()
        if schema.is_frozen:
            self._construct(schema, target, slots)

    def _make_target(self, schema: MessageSchema, target: str) -> Callable[[FieldSchema], str]:
        """Where each field goes: a slot of the new object, or, for a frozen one, a variable."""
        if schema.is_frozen:
            return lambda field: f"{target}_{field.name}"
        cls = self._source.bind("C", schema.cls)
        self._source.line(f"{target} = new({cls})")
        return lambda field: f"{target}.{field.name}"

    def _construct(
        self, schema: MessageSchema, target: str, slots: Callable[[FieldSchema], str]
    ) -> None:
        cls = self._source.bind("C", schema.cls)
        arguments = ", ".join(f"{field.name}={slots(field)}" for field in schema.fields)
        self._source.line(f"{target} = {cls}({arguments})")

    def _default(self, field: FieldSchema) -> str:
        if field.default_factory is list:
            return "[]"
        value = field.initial()
        if value is None or type(value) in (int, bool, str):
            return repr(value)
        return self._source.bind("D", value)

    def _value(self, wire_type: WireType, target: str, field: FieldSchema) -> None:
        """Emit `target = <wire_type read from buf>`, perhaps as a part of the pending group."""
        kind = wire_type.kind
        if kind == "error_code":
            self._converted(kind, target, "errors")
        elif kind == "uuid":
            self._converted(kind, target, "uuids")
        elif kind in FIXED:
            self._group.read(FIXED[kind], target)
        elif kind == "struct":
            self._nested(wire_type, target, field)
        elif kind == "array":
            self._array(wire_type, target, field)
        else:
            self._blob(kind, target, field)

    def _converted(self, kind: str, target: str, mapping: str) -> None:
        raw = self._source.fresh("raw")
        self._group.read(FIXED[kind], raw)
        self._group.then(f"{target} = {mapping}[{raw}]")

    def _nested(self, wire_type: WireType, target: str, field: FieldSchema) -> None:
        assert wire_type.struct is not None
        schema = schema_of(wire_type.struct)
        inner, marker = self._source.fresh("o"), self._source.fresh("n")
        if field.nullable.holds(self._version):
            self._group.read("b", marker)
            self._group.flush()
        with self._unless_null(field, target, marker):
            self._struct(schema, inner)
            self._source.line(f"{target} = {inner}")

    def _length(self, legacy_format: str) -> str:
        """Emit the reading of a length, -1 for null, and everything still pending before it."""
        length = self._source.fresh("n")
        if not self._is_flexible:
            self._group.read(legacy_format, length)
            self._group.flush()
            return length
        self._group.read("B", length)
        self._group.flush()
        with self._source.block(f"if {length} > 127:"):
            self._source.line(f"{length}, pos = uvarint_rest(buf, pos, {length})")
        self._source.line(f"{length} -= 1")
        return length

    @contextmanager
    def _unless_null(self, field: FieldSchema, target: str, length: str) -> Iterator[None]:
        if not field.nullable.holds(self._version):
            yield
            return
        with self._source.block(f"if {length} == -1:"):
            self._source.line(f"{target} = None")
        with self._source.block("else:"):
            yield

    def _blob(self, kind: str, target: str, field: FieldSchema) -> None:
        """A string, bytes or records: a length, then that many bytes."""
        source = self._source
        length = self._length("h" if kind == "string" else "i")
        expression = {
            "string": "str(buf[pos:stop], 'utf-8')",
            "bytes": "bytes(buf[pos:stop])",
            "records": "buf[pos:stop]",
        }[kind]
        with self._unless_null(field, target, length):
            source.line(f"stop = pos + {length}")
            too_long = f" or {length} > {MAX_STRING_BYTES}" if kind == "string" else ""
            with source.block(f"if {length} < 0 or stop > end{too_long}:"):
                source.line(f"raise bad_length({field.name!r}, {length}, end - pos)")
            source.line(f"{target} = {expression}")
            source.line("pos = stop")

    def _array(self, wire_type: WireType, target: str, field: FieldSchema) -> None:
        source = self._source
        element = wire_type.element
        assert element is not None
        length = self._length("i")
        with self._unless_null(field, target, length):
            least = self._least_size(element)
            with source.block(f"if {length} < 0 or {length} * {least} > end - pos:"):
                source.line(f"raise bad_length({field.name!r}, {length}, end - pos)")
            source.line(f"left -= {length}")
            with source.block("if left < 0:"):
                source.line("raise DecodeError('the message has too many elements')")
            self._elements(element, target, length, field=field)

    def _elements(self, element: WireType, target: str, length: str, *, field: FieldSchema) -> None:
        source = self._source
        if element.kind in FIXED and element.kind not in ("uuid", "error_code"):
            source.line(
                f"{target} = list(unpack_from(f'>{{{length}}}{FIXED[element.kind]}', buf, pos))"
            )
            source.line(f"pos += {length} * {fixed_size(element.kind)}")
            return
        items, item = source.fresh("items"), source.fresh("o")
        source.line(f"{target} = {items} = []")
        with source.block(f"for _ in range({length}):"):
            if element.kind == "struct":
                assert element.struct is not None
                self._struct(schema_of(element.struct), item)
            else:
                self._value(element, item, field.never_null())
                self._group.flush()
            source.line(f"{items}.append({item})")

    def _tags(self, schema: MessageSchema, slots: Callable[[FieldSchema], str]) -> None:
        """The tagged fields at a struct's end: nearly always none, so the rest is out of line."""
        source = self._source
        count = source.fresh("n")
        self._group.read("B", count)
        self._group.flush()
        tagged = schema.tagged_fields(self._version)
        if schema.is_frozen or not tagged:
            with source.block(f"if {count}:"):
                assert not tagged, "a frozen struct with tagged fields is not supported"
                self._tag_call(count, "None", schema)
            return
        for field in tagged:
            source.line(f"{slots(field)} = {self._default(field)}")
        with source.block(f"if {count}:"):
            self._tag_call(count, slots(tagged[0]).partition(".")[0], schema)

    def _tag_call(self, count: str, target: str, schema: MessageSchema) -> None:
        function = f"tags_of_{schema.cls.__name__}"
        self._tag_functions[function] = schema
        self._source.line(f"pos, left = {function}(buf, pos, end, left, {target}, {count})")

    def _tag_function(self, function: str, schema: MessageSchema) -> None:
        source = self._source
        with source.block(f"def {function}(buf, pos, end, left, o, count):"):
            with source.block("if count > 127:"):
                source.line("count, pos = uvarint_rest(buf, pos, count)")
            with source.block("for _ in range(count):"):
                source.line("tag, pos = read_uvarint(buf, pos)")
                source.line("after = skip_tag(buf, pos, end)")
                opening = "if"
                for field in schema.tagged_fields(self._version):
                    with source.block(f"{opening} tag == {field.tag}:"):
                        self._tagged_value(field)
                    opening = "elif"
                source.line("pos = after")
            source.line("return pos, left")

    def _tagged_value(self, field: FieldSchema) -> None:
        source = self._source
        source.line("_, pos = read_uvarint(buf, pos)")
        self._value(field.type, f"o.{field.name}", field)
        self._group.flush()
        with source.block("if pos != after:"):
            source.line(f"raise DecodeError('{field.name} is not of the size its tag claims')")

    def _least_size(self, wire_type: WireType) -> int:
        """The fewest bytes a value can take on the wire."""
        if wire_type.kind in FIXED:
            return fixed_size(wire_type.kind)
        if wire_type.kind == "struct":
            assert wire_type.struct is not None
            fields = schema_of(wire_type.struct).plain_fields(self._version)
            least = sum(
                1 if field.nullable.holds(self._version) else self._least_size(field.type)
                for field in fields
            )
            return max(1, least + self._is_flexible)
        if self._is_flexible:
            return 1
        return 2 if wire_type.kind == "string" else 4
