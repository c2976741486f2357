"""Seeds that were red once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidelog.sim.any_run import run_any
from tidelog.sim.report import tell
from tidelog.sim.run import ANY_SIZE, RunOptions

_CORPUS = Path(__file__).with_name("corpus.txt")
_OF_A_CLUSTER = "c"


def _rows() -> list[tuple[int, int, str]]:
    """Nodes, seed and sentence."""
    rows = []
    for line in _CORPUS.read_text().splitlines():
        if line and not line.startswith("#"):
            seed, _, sentence = line.partition(" ")
            nodes = ANY_SIZE if seed.startswith(_OF_A_CLUSTER) else 1
            rows.append((nodes, int(seed.removeprefix(_OF_A_CLUSTER)), sentence.strip()))
    return rows


@pytest.mark.parametrize(("nodes", "seed", "sentence"), _rows())
def test_what_was_wrong_once_stays_right(nodes: int, seed: int, sentence: str) -> None:
    outcome = run_any(seed, RunOptions(nodes=nodes))
    assert not outcome.is_red, f"once: {sentence}\n{tell(outcome)}"
