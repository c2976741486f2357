"""Every message of every version against kio, which was generated from Kafka's own definitions."""

from __future__ import annotations

import importlib
import io
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kio.serial import entity_reader, entity_writer
from tests.unit.wire.instances import (
    EVERY_MESSAGE,
    class_of,
    instances,
    joined,
    name_of,
    versions_of,
)

from tidelog.wire.codec import decoder, encode_body
from tidelog.wire.messages import Api

thorough = settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def _kio_class(api: Api, kind: str, version: int) -> Any:
    module = importlib.import_module(f"kio.schema.{api.module}.v{version}.{kind}")
    return getattr(module, class_of(api, kind).__name__)


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
    oldest = 3 if api.name == "Produce" else api.min_version
    version = data.draw(st.integers(oldest, api.max_version))
    original = data.draw(instances(class_of(api, kind), version))
    ours = joined(encode_body(original, version))
    kio_class = _kio_class(api, kind, version)
    entity, size = entity_reader(kio_class)(ours, 0)
    assert size == len(ours)
    theirs = io.BytesIO()
    entity_writer(kio_class)(theirs, entity)
    assert theirs.getvalue() == ours
