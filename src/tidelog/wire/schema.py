"""How a message is described: a dataclass whose field declarations are its wire format.

::

    @message(api_key=0, versions="0-13", flexible="9+")
    class ProduceRequest:
        transactional_id: str | None = string(versions="3+", nullable="3+", default=None)
        acks: int = int16()

The annotation is for people and mypy, the specifier for `codec.py`. One class serves every
version: a field outside its `versions` is skipped on encode and gets its default on decode, so a
handler never asks for a version. Names, numbers and defaults are Kafka's.

- `versions`: where the field exists; `nullable`: where it may be null; both as Kafka writes them
  (`"3+"`, `"0-12"`, `"7"`).
- `tag`: the field is tagged (KIP-482) wherever it exists: absent from the wire at its default.
- Messages are slotted and mutable, because a frozen dataclass takes three times as long to build.
  A struct that serves as a shared default is declared `frozen`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import MISSING, dataclass
from typing import Any, NamedTuple, TypeVar, dataclass_transform, overload
from uuid import UUID

from tidelog.model.ids import NO_TOPIC_ID

_T = TypeVar("_T")

NO_UUID: UUID = NO_TOPIC_ID
"""Kafka's null uuid; the same object everywhere, so that `is` finds it fast."""

LATEST = 0x7FFF

OWN_TAG = 10_000
"""Tagged fields from here on are ours alone, between nodes: far above any of Kafka's."""

_SPECIFICATION = "wire"


class Versions(NamedTuple):
    """An inclusive range of versions; empty if `last < first`."""

    first: int
    last: int

    def holds(self, version: int) -> bool:
        return self.first <= version <= self.last


NEVER = Versions(0, -1)


def parse_versions(text: str) -> Versions:
    """`"3+"`, `"0-12"` or `"7"`."""
    if text.endswith("+"):
        return Versions(int(text[:-1]), LATEST)
    first, _, last = text.partition("-")
    return Versions(int(first), int(last or first))


class WireType(NamedTuple):
    """`kind` is Kafka's type name, or `struct` or `array`."""

    kind: str
    struct: type | None = None
    element: WireType | None = None


@dataclass(frozen=True, slots=True)
class FieldSchema:
    """One field's place on the wire."""

    name: str
    type: WireType
    versions: Versions
    nullable: Versions
    tag: int | None
    default: Any
    default_factory: Callable[[], Any] | None

    def initial(self) -> Any:
        """The value the field has where the wire is silent."""
        if self.default_factory is not None:
            return self.default_factory()
        if self.default is MISSING:
            raise TypeError(f"{self.name}: a field that may be absent needs a default")
        return self.default

    def never_null(self) -> FieldSchema:
        """For an array's elements: the array may be null where its field is nullable, they not."""
        return dataclasses.replace(self, nullable=NEVER)


@dataclass(frozen=True, slots=True)
class MessageSchema:
    """A struct or, with an `api_key`, a whole request or response."""

    cls: type
    fields: tuple[FieldSchema, ...]
    api_key: int | None
    versions: Versions
    flexible: Versions
    is_frozen: bool

    def plain_fields(self, version: int) -> list[FieldSchema]:
        """In wire order."""
        return [f for f in self.fields if f.tag is None and f.versions.holds(version)]

    def tagged_fields(self, version: int) -> list[FieldSchema]:
        """In the order of their tags, as the protocol wants them written."""
        tagged = [f for f in self.fields if f.tag is not None and f.versions.holds(version)]
        return sorted(tagged, key=lambda f: f.tag or 0)

    def absent_fields(self, version: int) -> list[FieldSchema]:
        return [f for f in self.fields if not f.versions.holds(version)]


_schemas: dict[type, MessageSchema] = {}


def schema_of(cls: type) -> MessageSchema:
    """The schema of a class made by `message`."""
    return _schemas[cls]


class _Specification(NamedTuple):
    type: WireType
    versions: Versions
    nullable: Versions
    tag: int | None


def _field(
    wire_type: WireType,
    versions: str,
    nullable: str | None,
    *,
    tag: int | None,
    default: Any = MISSING,
    default_factory: Any = MISSING,
) -> Any:
    specification = _Specification(
        wire_type,
        parse_versions(versions),
        parse_versions(nullable) if nullable else NEVER,
        tag,
    )
    metadata = {_SPECIFICATION: specification}
    if default_factory is not MISSING:
        return dataclasses.field(default_factory=default_factory, metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


def int8(*, versions: str = "0+", tag: int | None = None, default: Any = MISSING) -> Any:
    return _field(WireType("int8"), versions, None, tag=tag, default=default)


def int16(*, versions: str = "0+", tag: int | None = None, default: Any = MISSING) -> Any:
    return _field(WireType("int16"), versions, None, tag=tag, default=default)


def uint16(*, versions: str = "0+", tag: int | None = None, default: Any = MISSING) -> Any:
    return _field(WireType("uint16"), versions, None, tag=tag, default=default)


def int32(*, versions: str = "0+", tag: int | None = None, default: Any = MISSING) -> Any:
    return _field(WireType("int32"), versions, None, tag=tag, default=default)


def uint32(*, versions: str = "0+", tag: int | None = None, default: Any = MISSING) -> Any:
    return _field(WireType("uint32"), versions, None, tag=tag, default=default)


def int64(*, versions: str = "0+", tag: int | None = None, default: Any = MISSING) -> Any:
    return _field(WireType("int64"), versions, None, tag=tag, default=default)


def float64(*, versions: str = "0+", tag: int | None = None, default: Any = MISSING) -> Any:
    return _field(WireType("float64"), versions, None, tag=tag, default=default)


def boolean(*, versions: str = "0+", tag: int | None = None, default: Any = MISSING) -> Any:
    return _field(WireType("bool"), versions, None, tag=tag, default=default)


def uuid(*, versions: str = "0+", tag: int | None = None, default: Any = MISSING) -> Any:
    return _field(WireType("uuid"), versions, None, tag=tag, default=default)


def error_code(*, versions: str = "0+", tag: int | None = None, default: Any = MISSING) -> Any:
    """An int16 that is a `tidelog.model.errors.ErrorCode`."""
    return _field(WireType("error_code"), versions, None, tag=tag, default=default)


def string(
    *,
    versions: str = "0+",
    nullable: str | None = None,
    tag: int | None = None,
    default: Any = MISSING,
) -> Any:
    return _field(WireType("string"), versions, nullable, tag=tag, default=default)


def byte_string(
    *,
    versions: str = "0+",
    nullable: str | None = None,
    tag: int | None = None,
    default: Any = MISSING,
) -> Any:
    """Kafka's `bytes`: copied on decode, so that it may outlive the frame."""
    return _field(WireType("bytes"), versions, nullable, tag=tag, default=default)


def record_batches(
    *, versions: str = "0+", nullable: str | None = None, default: Any = MISSING
) -> Any:
    """Kafka's `records`: not copied on decode; may be a `Span` on encode."""
    return _field(WireType("records"), versions, nullable, tag=None, default=default)


def struct(
    cls: type,
    *,
    versions: str = "0+",
    nullable: str | None = None,
    tag: int | None = None,
    default: Any = MISSING,
) -> Any:
    """A nested message. A `default` must be of a `frozen` class, since all share it."""
    return _field(WireType("struct", struct=cls), versions, nullable, tag=tag, default=default)


def array(
    element: type | str,
    *,
    versions: str = "0+",
    nullable: str | None = None,
    tag: int | None = None,
    default: Any = MISSING,
    default_factory: Any = MISSING,
) -> Any:
    """A list of messages (a class) or of primitives (Kafka's type name)."""
    if isinstance(element, str):
        element_type = WireType(element)
    else:
        element_type = WireType("struct", struct=element)
    return _field(
        WireType("array", element=element_type),
        versions,
        nullable,
        tag=tag,
        default=default,
        default_factory=default_factory,
    )


@overload
@dataclass_transform(
    kw_only_default=True,
    field_specifiers=(
        int8,
        int16,
        uint16,
        int32,
        uint32,
        int64,
        float64,
        boolean,
        uuid,
        error_code,
        string,
        byte_string,
        record_batches,
        struct,
        array,
    ),
)
def message(cls: type[_T], /) -> type[_T]: ...


@overload
def message(
    *,
    api_key: int | None = None,
    versions: str = "0+",
    flexible: str | None = None,
    frozen: bool = False,
) -> Callable[[type[_T]], type[_T]]: ...


def message(
    cls: type | None = None,
    /,
    *,
    api_key: int | None = None,
    versions: str = "0+",
    flexible: str | None = None,
    frozen: bool = False,
) -> Any:
    """Make a message of a class. Structs take version and flexibility from what holds them."""

    def make(cls: type) -> type:
        made = _as_dataclass(cls, frozen)
        _schemas[made] = MessageSchema(
            cls=made,
            fields=tuple(_field_schema(field) for field in dataclasses.fields(made)),
            api_key=api_key,
            versions=parse_versions(versions),
            flexible=parse_versions(flexible) if flexible else NEVER,
            is_frozen=frozen,
        )
        return made

    return make if cls is None else make(cls)


def _as_dataclass(cls: type, frozen: bool) -> type:
    """A slotted dataclass, made in half the time: a node makes sixty of them before it is ready.

    `dataclass` would compile an `__eq__` and a `__repr__` for each class, and a signature for its
    docstring; one of each serves all.
    """
    if frozen:
        return dataclass(slots=True, kw_only=True, frozen=True)(cls)
    cls.__doc__ = cls.__doc__ or cls.__name__
    cls.__eq__ = _equals  # type: ignore[assignment]
    cls.__hash__ = None  # type: ignore[assignment]
    cls.__repr__ = _represent  # type: ignore[assignment]
    return dataclass(slots=True, kw_only=True, eq=False, repr=False)(cls)


def _equals(self: Any, other: Any) -> bool:
    return type(other) is type(self) and all(
        getattr(self, name) == getattr(other, name) for name in self.__slots__
    )


def _represent(self: Any) -> str:
    values = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__slots__)
    return f"{type(self).__name__}({values})"


def _field_schema(field: dataclasses.Field[Any]) -> FieldSchema:
    specification: _Specification = field.metadata[_SPECIFICATION]
    has_factory = field.default_factory is not MISSING
    return FieldSchema(
        name=field.name,
        type=specification.type,
        versions=specification.versions,
        nullable=specification.nullable,
        tag=specification.tag,
        default=field.default,
        default_factory=field.default_factory if has_factory else None,  # type: ignore[arg-type]
    )
