"""The descriptions against kio's dataclasses, one class for each version, generated from Kafka's
definitions: a second witness for names, nulls and defaults, and the only one for the newer group
protocol."""

from __future__ import annotations

import dataclasses
import importlib.util
from dataclasses import MISSING
from datetime import timedelta
from types import NoneType
from typing import Any, get_args, get_type_hints

import pytest
from kio.schema.errors import ErrorCode as KioErrorCode
from tests.unit.wire.instances import (
    EMBEDDED,
    EVERY_MESSAGE,
    class_of,
    kio_class,
    kio_embedded_class,
    kio_versions,
    name_of,
)

from tidelog.model.errors import ErrorCode
from tidelog.wire.messages import Api
from tidelog.wire.schema import OWN_TAG, FieldSchema, MessageSchema, schema_of

ABSENT_TIMES = ("log_append_time_ms",)
"""kio has null for a time that is -1 on the wire."""


def _check(schema: MessageSchema, theirs: Any, version: int) -> None:
    fields = [field for field in schema.fields if field.versions.holds(version)]
    fields = [field for field in fields if field.tag is None or field.tag < OWN_TAG]
    names = [field.name.removesuffix("_ms") for field in fields]
    assert names == [field.name for field in dataclasses.fields(theirs)]
    hints = get_type_hints(theirs)
    for field, their_field in zip(fields, dataclasses.fields(theirs), strict=True):
        hint = hints[their_field.name]
        if field.name not in ABSENT_TIMES:
            _check_null(field, hint, version)
            _check_default(field, their_field.default)
        assert field.tag == their_field.metadata.get("tag"), field.name
        inner = (field.type.element or field.type).struct
        if inner is not None:
            assert inner.__name__.endswith(_innermost(hint).__name__)
            _check(schema_of(inner), _innermost(hint), version)


def _check_null(field: FieldSchema, hint: Any, version: int) -> None:
    """kio has null for the zero uuid, so that its uuids tell nothing."""
    if field.type.kind != "uuid":
        assert field.nullable.holds(version) == (NoneType in get_args(hint)), field.name


def _check_default(field: FieldSchema, theirs: Any) -> None:
    """What Kafka has no default for may be required by us, or be zero or empty."""
    if field.type.kind in ("uuid", "struct") or theirs == ():
        return
    if theirs is MISSING:
        assert field.default in (MISSING, None) or not field.default, field.name
    elif isinstance(theirs, timedelta):
        assert field.default == theirs / timedelta(milliseconds=1), field.name
    else:
        assert field.default == theirs, field.name


def _innermost(hint: Any) -> Any:
    """The struct within `tuple[Struct, ...] | None`."""
    while inner := [each for each in get_args(hint) if each not in (NoneType, ...)]:
        hint = inner[0]
    return hint


@pytest.mark.parametrize(("api", "kind"), EVERY_MESSAGE, ids=name_of)
def test_every_version_has_the_fields_that_kio_has(api: Api, kind: str) -> None:
    for version in kio_versions(api):
        _check(schema_of(class_of(api, kind)), kio_class(api, kind, version), version)


@pytest.mark.parametrize("cls", EMBEDDED)
def test_every_version_of_what_members_exchange_has_the_fields_that_kio_has(
    cls: type[Any],
) -> None:
    schema = schema_of(cls)
    for version in range(schema.versions.first, schema.versions.last + 1):
        _check(schema, kio_embedded_class(cls, version), version)


@pytest.mark.parametrize("api", {api.key: api for api, _ in EVERY_MESSAGE}.values(), ids=name_of)
def test_the_codec_knows_the_last_version_that_kio_knows(api: Api) -> None:
    package = f"kio.schema.{api.module}"
    assert importlib.util.find_spec(f"{package}.v{api.max_version}") is not None
    assert importlib.util.find_spec(f"{package}.v{api.max_version + 1}") is None


@pytest.mark.parametrize(("api", "kind"), EVERY_MESSAGE, ids=name_of)
def test_the_flexible_versions_are_those_that_kio_has(api: Api, kind: str) -> None:
    flexible = [v for v in kio_versions(api) if kio_class(api, kind, v).__flexible__]
    assert flexible == [version for version in kio_versions(api) if api.is_flexible(version)]


def test_the_error_codes_are_kafkas() -> None:
    theirs = [(each.value, each.name.upper(), each.retriable) for each in KioErrorCode]
    assert [(each.value, each.name, each.is_retriable) for each in ErrorCode] == theirs
