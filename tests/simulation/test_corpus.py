"""Seeds that were red once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidelog.sim.report import tell
from tidelog.sim.run import run_seed

_CORPUS = Path(__file__).with_name("corpus.txt")


def _rows() -> list[tuple[int, str]]:
    rows = []
    for line in _CORPUS.read_text().splitlines():
        if line and not line.startswith("#"):
            seed, _, sentence = line.partition(" ")
            rows.append((int(seed), sentence.strip()))
    return rows


@pytest.mark.parametrize(("seed", "sentence"), _rows())
def test_what_was_wrong_once_stays_right(seed: int, sentence: str) -> None:
    outcome = run_seed(seed)
    assert not outcome.is_red, f"once: {sentence}\n{tell(outcome)}"
