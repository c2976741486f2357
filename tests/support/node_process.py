"""Real nodes for tests: the class behind `tidelog demo`, and one way to start them.

A test takes the fixture `node` (one node, empty) or `start_node` (as many as it likes); both are
in `tests/conftest.py` and end every process they started, by its id.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Protocol

from tidelog.cli.node_process import NodeFailed, NodeProcess

RunningNode = NodeProcess

__all__ = ["NodeFailed", "RunningNode", "StartNode", "node_starter"]


class StartNode(Protocol):
    """Starts `tidelog serve` on a free port of 127.0.0.1, with further arguments as given."""

    def __call__(self, data_dir: Path, *arguments: str) -> RunningNode: ...


@contextmanager
def node_starter() -> Iterator[StartNode]:
    """While the block lasts, nodes can be started; after it, none of them runs any more."""
    with ExitStack() as stack:

        def start(data_dir: Path, *arguments: str) -> RunningNode:
            return stack.enter_context(RunningNode(data_dir, *arguments))

        yield start
