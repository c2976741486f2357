"""Three replicas under crashes, delays, losses and elections: nothing committed is lost, ever.

Each seed draws its own story; with a safeguard switched off, the same stories must go wrong.
"""

from __future__ import annotations

import pytest
from tests.support.mini_cluster import MiniCluster

from tidelog.model.safeguards import ALL_SAFEGUARDS, Safeguard

SEEDS = 300
SEEDS_PER_TEST = 30

ABLATIONS = (
    Safeguard.ACK_AFTER_REPLICATION,
    Safeguard.MAXIMAL_ISR,
    Safeguard.EPOCH_IN_FETCH,
    Safeguard.TRUNCATE_BY_EPOCH,
    Safeguard.EXPAND_AFTER_EPOCH_START,
    Safeguard.FETCH_IN_EPOCH,
    Safeguard.LOG_START_REPLICATED,
    Safeguard.FLUSH_BEFORE_ACK,
)


@pytest.mark.parametrize("first", range(0, SEEDS, SEEDS_PER_TEST))
def test_no_committed_record_is_lost_from_seed(first: int) -> None:
    for seed in range(first, first + SEEDS_PER_TEST):
        MiniCluster(seed).play()


@pytest.mark.parametrize("safeguard", ABLATIONS, ids=lambda safeguard: safeguard.name)
def test_a_missing_safeguard_is_noticed(safeguard: Safeguard) -> None:
    for seed in range(SEEDS):
        try:
            MiniCluster(seed, ALL_SAFEGUARDS - {safeguard}).play()
        except AssertionError:
            return
    pytest.fail(f"{SEEDS} seeds did not notice that {safeguard.name} was off")


def test_the_same_seed_tells_the_same_story() -> None:
    first, second = MiniCluster(7), MiniCluster(7)
    first.play()
    second.play()
    assert first.trace == second.trace
