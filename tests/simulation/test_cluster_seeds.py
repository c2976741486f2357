"""Whole clusters among faults, by seed: every promise is kept in all of them."""

from __future__ import annotations

import pytest

from tidelog.sim.replicated.run import run_cluster_seed
from tidelog.sim.report import tell
from tidelog.sim.run import ANY_SIZE, RunOptions

SEEDS = 2_000
SEEDS_PER_TEST = 5
OPTIONS = RunOptions(nodes=ANY_SIZE)


@pytest.mark.parametrize("first", range(0, SEEDS, SEEDS_PER_TEST))
def test_every_promise_of_a_cluster_is_kept_from_seed(first: int) -> None:
    for seed in range(first, first + SEEDS_PER_TEST):
        outcome = run_cluster_seed(seed, OPTIONS)
        assert not outcome.is_red, tell(outcome)


def test_the_same_seed_of_a_cluster_gives_the_same_run() -> None:
    first, second = (run_cluster_seed(7, OPTIONS) for _ in range(2))
    assert first.trace_hash == second.trace_hash
