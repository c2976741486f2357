"""Messages as plain values."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from datetime import UTC, datetime

import pytest

from tidelog.client.message import Message, as_bytes


def test_a_message_does_not_change() -> None:
    message = Message("orders", 0, 7, value=b"x")
    with pytest.raises(FrozenInstanceError):
        message.offset = 8  # type: ignore[misc]
    assert message == Message("orders", 0, 7, value=b"x")


def test_a_message_has_its_value_as_text_and_its_time_as_a_date() -> None:
    message = Message("orders", 0, 7, value="ä".encode(), timestamp_ms=1_700_000_000_500)
    assert message.text == "ä"
    assert message.time == datetime(2023, 11, 14, 22, 13, 20, 500_000, tzinfo=UTC)
    assert Message("orders", 0, 7).text == ""


def test_text_travels_as_utf_8() -> None:
    assert [as_bytes("ä"), as_bytes(b"\xff"), as_bytes(None)] == ["ä".encode(), b"\xff", None]
