"""Random messages, drawn from the schema: every field the version has, every null it allows."""

from __future__ import annotations

import importlib
import re
import struct
from typing import Any

from hypothesis import strategies as st

from tidelog.model.errors import ErrorCode
from tidelog.wire.messages import APIS, Api
from tidelog.wire.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from tidelog.wire.messages.quorum_records import LeaderChangeMessage, VotersRecord
from tidelog.wire.parts import Part
from tidelog.wire.schema import FieldSchema, WireType, schema_of

EVERY_MESSAGE = [(api, kind) for api in APIS for kind in ("request", "response")]
EVERY_VERSION = [
    (api, kind, version)
    for api, kind in EVERY_MESSAGE
    for version in range(api.min_version, api.max_version + 1)
]

EMBEDDED: list[type[Any]] = [
    ConsumerProtocolSubscription,
    ConsumerProtocolAssignment,
    LeaderChangeMessage,
    VotersRecord,
]
"""Messages that travel as bytes within others."""


def name_of(parameter: object) -> str:
    """For pytest's ids."""
    return parameter.name if isinstance(parameter, Api) else str(parameter)


def class_of(api: Api, kind: str) -> type[Any]:
    return api.request_class if kind == "request" else api.response_class


def versions_of(api: Api) -> st.SearchStrategy[int]:
    return st.integers(api.min_version, api.max_version)


def kio_versions(api: Api) -> range:
    """kio knows nothing of Produce v0-2, which Kafka advertises and refuses."""
    return range(3 if api.name == "Produce" else api.min_version, api.max_version + 1)


def kio_class(api: Api, kind: str, version: int) -> Any:
    module = importlib.import_module(f"kio.schema.{api.module}.v{version}.{kind}")
    return getattr(module, class_of(api, kind).__name__)


def kio_embedded_class(cls: type[Any], version: int) -> Any:
    package = re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__).lower()
    module = importlib.import_module(f"kio.schema.{package}.v{version}.data")
    return getattr(module, cls.__name__)


_INTEGERS = {
    "int8": (-(2**7), 2**7 - 1),
    "int16": (-(2**15), 2**15 - 1),
    "uint16": (0, 2**16 - 1),
    "int32": (-(2**31), 2**31 - 1),
    "uint32": (0, 2**32 - 1),
    "int64": (-(2**63), 2**63 - 1),
}

_OTHERS: dict[str, st.SearchStrategy[Any]] = {
    "bool": st.booleans(),
    "uuid": st.uuids(allow_nil=True),
    "error_code": st.sampled_from(ErrorCode),
    "float64": st.floats(allow_nan=False),
    "string": st.text(max_size=20) | st.text("é", min_size=60, max_size=200),
    "bytes": st.binary(max_size=200),
    "records": st.binary(max_size=200) | st.binary(min_size=4096, max_size=4200),
}


_milliseconds = st.integers(0, 2**31 - 1)
"""kio reads times as `datetime` and `timedelta`, whose ranges are narrower than the wire's."""


def instances(cls: type[Any], version: int) -> st.SearchStrategy[Any]:
    """Messages of `cls` as they can be written at `version`; other fields have their defaults."""
    fields = schema_of(cls).fields
    drawn = {
        field.name: _values(field, version) for field in fields if field.versions.holds(version)
    }
    return st.builds(cls, **drawn)


def _values(field: FieldSchema, version: int) -> st.SearchStrategy[Any]:
    if field.name.endswith("_ms"):
        return _milliseconds
    values = _values_of_type(field.type, version)
    if field.tag is not None:
        return st.just(field.initial()) | values
    if field.nullable.holds(version):
        return st.none() | values
    return values


def _values_of_type(wire_type: WireType, version: int) -> st.SearchStrategy[Any]:
    if wire_type.kind in _INTEGERS:
        low, high = _INTEGERS[wire_type.kind]
        return st.integers(low, high)
    if wire_type.kind == "struct":
        assert wire_type.struct is not None
        return instances(wire_type.struct, version)
    if wire_type.kind == "array":
        assert wire_type.element is not None
        return st.lists(_values_of_type(wire_type.element, version), max_size=3)
    return _OTHERS[wire_type.kind]


def joined(parts: list[Part]) -> bytes:
    """The bytes of parts among which there is no span."""
    for part in parts:
        assert isinstance(part, bytes | bytearray)
    return b"".join(parts)  # type: ignore[arg-type]


def frame_of(encoded: bytes | bytearray) -> memoryview:
    """A frame as a connection would hand it over: writable, without the prefix."""
    (size,) = struct.unpack_from(">i", encoded)
    assert size == len(encoded) - 4
    return memoryview(bytearray(encoded))[4:]
