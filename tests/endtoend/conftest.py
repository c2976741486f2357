"""Fixtures for tests on real processes that try to break them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.endtoend.observing import Witness
from tests.support.node_process import RunningNode
from tests.support.raw_client import RawClient


@pytest.fixture
def witness(node: RunningNode) -> Iterator[Witness]:
    """A good client of `node`, at work during the test; satisfied at its end, or the test fails."""
    good = Witness(node)
    good.check()
    yield good
    good.close()


@pytest.fixture
def client(node: RunningNode) -> Iterator[RawClient]:
    with RawClient(node) as client:
        yield client
