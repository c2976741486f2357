"""Moments, and which of them comes first."""

from __future__ import annotations

from tidelog.model.clock import earliest


def test_never_is_later_than_any_moment() -> None:
    assert earliest(None, 3.0, None, 2.0) == 2.0
    assert earliest(0.0, 1.0) == 0.0
    assert earliest(None) is None
