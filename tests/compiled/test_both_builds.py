"""The compiled wheel against the sources it was made of: `make test-compiled` runs this, in an
environment in which `tidelog` is the wheel."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.util import find_spec
from pathlib import Path

import pytest
from tests.support.command_line import CommandLine

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "src"

_PROGRAM = """
import sys
from tidelog.broker import node
from tidelog.sim.any_run import run_any
from tidelog.sim.run import RunOptions
print(node.__file__)
first, seeds, nodes = map(int, sys.argv[1:])
for seed in range(first, first + seeds):
    outcome = run_any(seed, RunOptions(nodes=nodes))
    print(seed, outcome.trace_hash, len(outcome.history), sorted(outcome.counters.items()))
"""


def compiled_modules() -> list[str]:
    """By `pyproject.toml`, as the import system calls them."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    hook = settings["tool"]["hatch"]["build"]["targets"]["wheel"]["hooks"]["custom"]
    paths = [path for pattern in hook["modules"] for path in SOURCES.glob(pattern)]
    return [".".join(path.relative_to(SOURCES).with_suffix("").parts) for path in paths]


def run_seeds(first: int, seeds: int, *, nodes: int, **environment: str) -> tuple[str, list[str]]:
    """Where the node's code is from, and a line for each seed."""
    arguments = [str(number) for number in (first, seeds, nodes)]
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, *arguments],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
        timeout=1200,
    )
    origin, *lines = done.stdout.splitlines()
    assert len(lines) == seeds
    return origin, lines


@pytest.mark.parametrize("name", compiled_modules())
def test_a_module_that_should_be_compiled_is(name: str) -> None:
    found = find_spec(name)
    assert found is not None
    assert found.origin is not None
    assert found.origin.endswith(tuple(EXTENSION_SUFFIXES))


def test_the_command_says_that_it_is_compiled(tidelog: CommandLine) -> None:
    assert tidelog("version", "--json").json["build"] == "compiled"


@pytest.mark.parametrize(("nodes", "seeds"), [(1, 12), (0, 8)])
def test_a_seed_is_the_same_run_in_both_builds(nodes: int, seeds: int) -> None:
    compiled_from, compiled = run_seeds(0, seeds, nodes=nodes)
    pure_from, pure = run_seeds(0, seeds, nodes=nodes, PYTHONPATH=str(SOURCES))
    assert compiled_from.endswith(tuple(EXTENSION_SUFFIXES))
    assert pure_from == str(SOURCES / "tidelog" / "broker" / "node.py")
    assert compiled == pure
