"""Valid frames, damaged: a decoder answers with a message or a `DecodeError`, and stays frugal."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.unit.wire.instances import (
    EVERY_MESSAGE,
    class_of,
    instances,
    joined,
    name_of,
    versions_of,
)

from tidelog.wire.codec import decoder
from tidelog.wire.errors import DecodeError
from tidelog.wire.messages import Api
from tidelog.wire.requests import (
    RequestHeader,
    decode_body,
    decode_header,
    decode_response,
    encode_request,
    encode_response,
)

thorough = settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)

MOST_BYTES_PER_BYTE = 100
"""An empty struct takes three bytes on the wire and an object with an empty list in memory."""

FIXED_BYTES = 32 * 1024
"""The exception, the header, tracemalloc's own."""

damages = st.lists(
    st.tuples(
        st.sampled_from(["flip", "cut", "insert", "delete", "extreme"]),
        st.integers(0, 10_000),
        st.binary(min_size=1, max_size=6),
    ),
    min_size=1,
    max_size=4,
)


def _damaged(frame: bytes, damage: list[tuple[str, int, bytes]]) -> bytes:
    data = bytearray(frame)
    for kind, place, some in damage:
        at = place % (len(data) + 1)
        if kind == "flip" and at < len(data):
            data[at] ^= some[0] or 1
        elif kind == "cut":
            del data[at:]
        elif kind == "insert":
            data[at:at] = some
        elif kind == "delete":
            del data[at : at + len(some)]
        elif kind == "extreme":
            data[at : at + 4] = b"\x7f\xff\xff\xff" if some[0] & 1 else b"\xff\xff\xff\xff"
    return bytes(data)


def _peak_of(decode: Callable[[memoryview], Any], frame: bytes) -> int:
    """Bytes allocated at most; the function must be warm, so that no code is generated within."""
    view = memoryview(bytearray(frame))
    gc.disable()
    tracemalloc.start()
    try:
        decode(view)
    except DecodeError:
        pass
    finally:
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        gc.enable()
    return peak


@pytest.mark.parametrize(("api", "kind"), EVERY_MESSAGE, ids=name_of)
@given(data=st.data(), damage=damages)
@thorough
def test_damage_is_a_decode_error_or_another_message(
    api: Api, kind: str, data: st.DataObject, damage: list[tuple[str, int, bytes]]
) -> None:
    version = data.draw(versions_of(api))
    message = data.draw(instances(class_of(api, kind), version))
    if kind == "request":
        encoded = encode_request(message, version, correlation_id=1, client_id="c")[4:]
    else:
        encoded = joined(encode_response(RequestHeader(api.key, version, 1), message))[4:]

    def decode(frame: memoryview) -> Any:
        if kind == "response":
            return decode_response(api.key, version, frame)
        header, position = decode_header(frame)
        return decode_body(header, frame, position)

    with suppress(DecodeError):  # Metadata v10 has messages that it refuses
        decode(memoryview(encoded))
    damaged = _damaged(encoded, damage)
    try:
        decode(memoryview(bytearray(damaged)))
    except DecodeError:
        pass
    assert _peak_of(decode, damaged) <= MOST_BYTES_PER_BYTE * len(damaged) + FIXED_BYTES


@pytest.mark.parametrize(("api", "kind"), EVERY_MESSAGE, ids=name_of)
@given(data=st.data(), noise=st.binary(max_size=300))
@thorough
def test_noise_is_a_decode_error_or_a_message(
    api: Api, kind: str, data: st.DataObject, noise: bytes
) -> None:
    decode = decoder(class_of(api, kind), data.draw(versions_of(api)))
    try:
        decode(memoryview(noise), 0)
    except DecodeError:
        pass
