"""Varints: every value there and back, and nothing longer than it may be."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.wire.errors import DecodeError
from tidelog.wire.varints import (
    append_uvarint,
    append_varint,
    read_uvarint,
    read_varint,
    read_varlong,
)


@given(st.integers(0, 2**32 - 1))
def test_an_unsigned_varint_reads_as_it_was_written(value: int) -> None:
    out = bytearray(b"x")
    append_uvarint(out, value)
    assert read_uvarint(out, 1) == (value, len(out))


@given(st.integers(-(2**31), 2**31 - 1))
def test_a_varint_reads_as_it_was_written(value: int) -> None:
    out = bytearray()
    append_varint(out, value)
    assert read_varint(out, 0) == (value, len(out))
    assert read_varlong(out, 0) == (value, len(out))


@given(st.integers(-(2**63), 2**63 - 1))
def test_a_varlong_reads_as_it_was_written(value: int) -> None:
    out = bytearray()
    append_varint(out, value)
    assert read_varlong(out, 0) == (value, len(out))


@pytest.mark.parametrize(
    ("value", "encoded"),
    [(0, "00"), (-1, "01"), (1, "02"), (63, "7e"), (-64, "7f"), (64, "8001"), (-65, "8101")],
)
def test_signed_varints_zigzag(value: int, encoded: str) -> None:
    out = bytearray()
    append_varint(out, value)
    assert out.hex() == encoded


@pytest.mark.parametrize("encoded", ["ffffffffff00", "ffffffff10", "8080808080808000"])
def test_a_varint_beyond_32_bits_is_refused(encoded: str) -> None:
    with pytest.raises(DecodeError):
        read_uvarint(bytes.fromhex(encoded), 0)


@pytest.mark.parametrize("encoded", ["ff" * 10 + "00", "ff" * 9 + "02"])
def test_a_varlong_beyond_64_bits_is_refused(encoded: str) -> None:
    with pytest.raises(DecodeError):
        read_varlong(bytes.fromhex(encoded), 0)


@pytest.mark.parametrize("read", [read_uvarint, read_varint, read_varlong])
def test_a_varint_cut_off_is_an_index_error_for_the_caller(read: object) -> None:
    with pytest.raises(IndexError):
        read(b"\x80\x80", 0)  # type: ignore[operator]
