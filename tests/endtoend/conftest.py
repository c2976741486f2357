"""Fixtures for tests on real processes that try to break them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.endtoend.observing import Witness
from tests.support.command_line import CommandLine
from tests.support.node_process import RunningNode, node_starter
from tests.support.raw_client import RawClient
from tests.support.shell import Shell


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


@pytest.fixture
def shell(tidelog: CommandLine, node: RunningNode, tmp_path: Path) -> Shell:
    """Commands against a node of their own."""
    return Shell(tidelog, node, tmp_path)


@pytest.fixture(scope="module")
def shared_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    """One node for tests that keep to topics and groups of their own."""
    with node_starter() as start:
        yield start(tmp_path_factory.mktemp("shared") / "data")


@pytest.fixture
def shared_shell(tidelog: CommandLine, shared_node: RunningNode, tmp_path: Path) -> Shell:
    return Shell(tidelog, shared_node, tmp_path)
