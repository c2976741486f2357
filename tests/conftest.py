"""Fixtures for everybody: real nodes, each with a process, a directory and a port of its own, and
the command line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings
from tests.support.command_line import CommandLine
from tests.support.node_process import RunningNode, StartNode, node_starter
from tests.support.second_chances import SecondChances

hypothesis_settings.register_profile(
    "house", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
hypothesis_settings.load_profile("house")
"""How long an example takes says more about the machine than about the code."""


REAL_PROCESSES = ("compat", "endtoend", "spark")
"""Rooms whose tests run other people's programs, or ours as processes, on a machine that may be
busy with something else: they get second chances. What is deterministic gets none."""


def pytest_configure(config: pytest.Config) -> None:
    rooms = [Path(__file__).parent / name for name in REAL_PROCESSES]
    config.pluginmanager.register(SecondChances(config, rooms), "second-chances")


@pytest.fixture
def start_node() -> Iterator[StartNode]:
    """`start_node(data_dir, *arguments)`; all nodes are gone when the test ends."""
    with node_starter() as start:
        yield start


@pytest.fixture
def node(start_node: StartNode, tmp_path: Path) -> RunningNode:
    """One node with an empty data directory."""
    return start_node(tmp_path / "data")


@pytest.fixture
def tidelog(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    """`tidelog("topic", "list")` gives exit code, output and errors."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.delenv("TIDELOG_BOOTSTRAP", raising=False)
    return CommandLine(capsys)
