"""The descriptions against Kafka's own definition files, which kafka-python ships."""

from __future__ import annotations

import importlib.util
import json
import re
from dataclasses import MISSING
from pathlib import Path
from typing import Any

import pytest
from tests.unit.wire.instances import EMBEDDED, EVERY_MESSAGE, class_of, name_of

from tidelog.model.errors import ErrorCode
from tidelog.wire.codec import decoder
from tidelog.wire.messages import API_BY_KEY, APIS, Api
from tidelog.wire.schema import (
    LATEST,
    NEVER,
    FieldSchema,
    MessageSchema,
    Versions,
    array,
    int32,
    message,
    parse_versions,
    schema_of,
    string,
)

UNKNOWN_TO_KAFKA_PYTHON = (
    *("ConsumerGroupHeartbeat", "ConsumerGroupDescribe"),
    *("Vote", "BeginQuorumEpoch", "EndQuorumEpoch", "FetchSnapshot"),
    *("AddRaftVoter", "RemoveRaftVoter", "UnregisterBroker"),
    *("BrokerRegistration", "BrokerHeartbeat", "AlterPartition", "AllocateProducerIds"),
)
"""It does not speak the newer group protocol, nor what brokers and controllers say to each other;
`test_schema_kio.py` looks at these."""

DEFINED = [(api, kind) for api, kind in EVERY_MESSAGE if api.name not in UNKNOWN_TO_KAFKA_PYTHON]


def _definition(cls: type[Any]) -> Any:
    kafka_python = importlib.util.find_spec("kafka")
    assert kafka_python is not None
    assert kafka_python.origin is not None
    resources = Path(kafka_python.origin).parent / "protocol" / "schemas" / "resources"
    text = (resources / f"{cls.__name__}.json").read_text()
    return json.loads(re.sub(r"^\s*//.*$", "", text, flags=re.MULTILINE))


def _snake_case(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


def _parse(text: str) -> Versions:
    return NEVER if text == "none" else parse_versions(text)


def _range(versions: Versions, known: Versions) -> Versions:
    """A range cut to the versions the codec knows."""
    return NEVER if versions.last < versions.first else _both(versions, known)


def _within(text: str, known: Versions) -> Versions:
    return _range(_parse(text), known)


def _both(one: Versions, other: Versions) -> Versions:
    return Versions(max(one.first, other.first), min(one.last, other.last))


def _kafka_default(definition: Any) -> Any:
    text, kind = definition.get("default"), definition["type"]
    if text is None or text == "null":
        return None
    if kind.startswith("int"):
        return int(str(text), 0)
    if kind == "bool":
        return str(text) == "true"
    return text


def _fields_exist_in(definitions: list[Any], known: Versions) -> list[Any]:
    ranges = [_within(definition["versions"], known) for definition in definitions]
    return [d for d, r in zip(definitions, ranges, strict=True) if r.first <= r.last]


def _check_struct(
    schema: MessageSchema, definitions: list[Any], *, known: Versions, of: Versions
) -> None:
    existing = _fields_exist_in(definitions, known)
    assert [f.name for f in schema.fields] == [_snake_case(d["name"]) for d in existing]
    for field, definition in zip(schema.fields, existing, strict=True):
        _check_field(field, definition, known=known, of=of)


def _check_field(field: FieldSchema, definition: Any, *, known: Versions, of: Versions) -> None:
    where = _both(_within(definition["versions"], known), of)
    assert _both(field.versions, of) == where, field.name
    nullable = _within(definition.get("nullableVersions", "none"), known)
    assert _range(field.nullable, known) == nullable, field.name
    assert field.tag == definition.get("tag"), field.name
    if definition.get("default") is not None:
        assert field.default == _kafka_default(definition), field.name
    elif field.default is not MISSING and field.type.kind != "struct":
        assert not field.default or field.default.int == 0, field.name
    _check_type(field, definition, known=known, of=where)


def _check_type(field: FieldSchema, definition: Any, *, known: Versions, of: Versions) -> None:
    kind, wire_type = definition["type"], field.type
    if kind.startswith("[]"):
        assert wire_type.kind == "array"
        assert wire_type.element is not None
        kind, wire_type = kind[2:], wire_type.element
    if "fields" in definition:
        assert wire_type.struct is not None
        # Where request and response have structs of one name, ours puts a word before the second.
        assert wire_type.struct.__name__.endswith(kind)
        _check_struct(schema_of(wire_type.struct), definition["fields"], known=known, of=of)
    elif wire_type.struct is not None:
        # A struct that Kafka defines elsewhere in the file; its fields are compared with kio's.
        assert wire_type.struct.__name__ == kind
    elif wire_type.kind == "error_code":
        assert kind == "int16"
    else:
        assert wire_type.kind == kind


@pytest.mark.parametrize(("api", "kind"), DEFINED, ids=name_of)
def test_every_field_is_as_kafka_defines_it(api: Api, kind: str) -> None:
    definition = _definition(class_of(api, kind))
    schema = schema_of(class_of(api, kind))
    valid = Versions(api.min_version, api.max_version)
    assert schema.api_key == definition["apiKey"] == api.key
    assert schema.versions == valid
    assert schema.flexible == _parse(definition["flexibleVersions"])
    assert api.first_flexible == (None if schema.flexible == NEVER else schema.flexible.first)
    _check_struct(schema, definition["fields"], known=valid, of=valid)


@pytest.mark.parametrize("cls", [cls for cls in EMBEDDED if "Protocol" in cls.__name__])
def test_every_field_that_members_exchange_is_as_kafka_defines_it(cls: type[Any]) -> None:
    definition = _definition(cls)
    schema = schema_of(cls)
    valid = parse_versions(definition["validVersions"])
    assert schema.versions == valid
    assert schema.flexible == _parse(definition["flexibleVersions"])
    _check_struct(schema, definition["fields"], known=valid, of=valid)


@pytest.mark.parametrize(("api", "kind"), DEFINED, ids=name_of)
def test_the_codec_knows_every_valid_version(api: Api, kind: str) -> None:
    valid = parse_versions(_definition(class_of(api, kind))["validVersions"])
    assert api.max_version == valid.last
    assert api.min_version <= valid.first
    with pytest.raises(ValueError):
        decoder(class_of(api, kind), api.max_version + 1)


def test_the_registry_finds_each_api_by_its_key() -> None:
    assert list(API_BY_KEY.values()) == list(APIS)
    assert API_BY_KEY[18].request_class.__name__ == "ApiVersionsRequest"


def test_version_ranges_read_as_kafka_writes_them() -> None:
    assert parse_versions("3+") == Versions(3, LATEST)
    assert parse_versions("0-12") == Versions(0, 12)
    assert parse_versions("7") == Versions(7, 7)


@message
class _Point:
    x: int = int32()
    labels: list[str] = array("string", default_factory=list)
    note: str | None = string(nullable="0+", default=None)


def test_messages_compare_by_value_and_show_their_fields() -> None:
    assert _Point(x=1) == _Point(x=1)
    assert _Point(x=1) != _Point(x=2)
    assert repr(_Point(x=1)) == "_Point(x=1, labels=[], note=None)"


def test_two_messages_do_not_share_a_default_list() -> None:
    first, second = _Point(x=1), _Point(x=1)
    first.labels.append("a")
    assert second.labels == []


def test_a_message_takes_no_field_it_does_not_have() -> None:
    point = _Point(x=1)
    with pytest.raises(AttributeError):
        point.y = 2  # type: ignore[attr-defined]


def test_error_codes_have_defaults_of_no_error() -> None:
    response = API_BY_KEY[22].response_class(producer_id=1, producer_epoch=0)
    assert response.error_code is ErrorCode.NONE
