"""Seeds that were red once run before all others."""

from __future__ import annotations

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: "test_corpus" not in item.nodeid)
