"""Clusters that agree by a simulated ZooKeeper, among faults of both, by seed."""

from __future__ import annotations

import pytest

from tidelog.sim.replicated.configuration import ZOOKEEPER_FAULTS
from tidelog.sim.replicated.run import run_cluster_seed
from tidelog.sim.report import tell
from tidelog.sim.run import ANY_SIZE, RunOptions

SEEDS = 150
SEEDS_PER_TEST = 5
OPTIONS = RunOptions(nodes=ANY_SIZE, consensus="zookeeper")


@pytest.mark.parametrize("first", range(0, SEEDS, SEEDS_PER_TEST))
def test_every_promise_is_kept_with_a_zookeeper_from_seed(first: int) -> None:
    for seed in range(first, first + SEEDS_PER_TEST):
        outcome = run_cluster_seed(seed, OPTIONS)
        assert not outcome.is_red, tell(outcome)


def test_the_same_seed_with_a_zookeeper_gives_the_same_run() -> None:
    first, second = (run_cluster_seed(7, OPTIONS) for _ in range(2))
    assert first.trace_hash == second.trace_hash


def test_the_seeds_meet_every_fault_of_a_zookeeper() -> None:
    wanted = {f"fault: {kind}" for kind in ZOOKEEPER_FAULTS}
    for seed in range(SEEDS):
        wanted -= set(run_cluster_seed(seed, OPTIONS).counters)
        if not wanted:
            return
    pytest.fail(f"never met: {sorted(wanted)}")
