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

_LOG_END = 20_000
"""Characters of a log's end in a report: a node may say the same again and again."""

__all__ = ["NodeFailed", "RunningNode", "StartNode", "logs_of_nodes", "node_starter", "watched"]


_WATCHED: list[RunningNode] = []


@contextmanager
def watched(node: RunningNode) -> Iterator[RunningNode]:
    """While the block lasts the node is there, and `logs_of_nodes` has its log."""
    with node:
        _WATCHED.append(node)
        try:
            yield node
        finally:
            _WATCHED.remove(node)


def logs_of_nodes() -> str:
    """The end of each watched node's log, for the report of a failed test."""
    return "\n".join(
        f"node in {node.data_dir}, exit code {node.process.poll()}:\n{node.log[-_LOG_END:]}"
        for node in _WATCHED
    )


class StartNode(Protocol):
    """Starts `tidelog serve` on a free port of 127.0.0.1, with further arguments as given."""

    def __call__(self, data_dir: Path, *arguments: str) -> RunningNode: ...


@contextmanager
def node_starter() -> Iterator[StartNode]:
    """While the block lasts, nodes can be started; after it, none of them runs any more."""
    with ExitStack() as stack:

        def start(data_dir: Path, *arguments: str) -> RunningNode:
            return stack.enter_context(watched(RunningNode(data_dir, *arguments)))

        yield start
