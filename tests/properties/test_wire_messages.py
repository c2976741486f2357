"""Every message of every version against kio, which was generated from Kafka's own definitions."""

from __future__ import annotations

import io
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kio.serial import entity_reader, entity_writer
from tests.unit.wire.instances import (
    EMBEDDED,
    EVERY_MESSAGE,
    class_of,
    instances,
    joined,
    kio_class,
    kio_embedded_class,
    kio_versions,
    name_of,
    versions_of,
)

from tidelog.wire.codec import decoder, encode_body
from tidelog.wire.messages import Api
from tidelog.wire.schema import OWN_TAG, schema_of

thorough = settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@pytest.mark.parametrize(("api", "kind"), EVERY_MESSAGE, ids=name_of)
@given(data=st.data())
@thorough
def test_what_we_encode_we_decode(api: Api, kind: str, data: st.DataObject) -> None:
    version = data.draw(versions_of(api))
    cls = class_of(api, kind)
    original = data.draw(instances(cls, version))
    encoded = memoryview(joined(encode_body(original, version)))
    assert decoder(cls, version)(encoded, 0) == original


@pytest.mark.parametrize(("api", "kind"), EVERY_MESSAGE, ids=name_of)
@given(data=st.data())
@thorough
def test_kio_reads_what_we_encode_and_writes_the_same_bytes(
    api: Api, kind: str, data: st.DataObject
) -> None:
    version = data.draw(st.sampled_from(kio_versions(api)))
    original = _without_own_fields(data.draw(instances(class_of(api, kind), version)))
    ours = joined(encode_body(original, version))
    _check_against_kio(kio_class(api, kind, version), ours)


@pytest.mark.parametrize("cls", EMBEDDED)
@given(data=st.data())
@thorough
def test_what_members_exchange_is_read_back_by_us_and_by_kio(
    cls: type[Any], data: st.DataObject
) -> None:
    version = data.draw(st.integers(0, schema_of(cls).versions.last))
    original = data.draw(instances(cls, version))
    ours = joined(encode_body(original, version))
    assert decoder(cls, version)(memoryview(ours), 0) == original
    _check_against_kio(kio_embedded_class(cls, version), ours)


def _without_own_fields(message: Any) -> Any:
    """Only our own nodes know them."""
    for field in schema_of(type(message)).fields:
        if field.tag is not None and field.tag >= OWN_TAG:
            setattr(message, field.name, [])
    return message


def _check_against_kio(entity_class: Any, ours: bytes) -> None:
    entity, size = entity_reader(entity_class)(ours, 0)
    assert size == len(ours)
    theirs = io.BytesIO()
    entity_writer(entity_class)(theirs, entity)
    assert theirs.getvalue() == ours
