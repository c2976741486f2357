"""A thousand seeds, each a node's life among faults: every promise is kept in all of them."""

from __future__ import annotations

import pytest

from tidelog.sim.report import tell
from tidelog.sim.run import run_seed

SEEDS = 1000
SEEDS_PER_TEST = 5
"""A few seconds' work: who has nothing left to do takes it from another until the end."""


@pytest.mark.parametrize("first", range(0, SEEDS, SEEDS_PER_TEST))
def test_every_promise_is_kept_from_seed(first: int) -> None:
    for seed in range(first, first + SEEDS_PER_TEST):
        outcome = run_seed(seed)
        assert not outcome.is_red, tell(outcome)
