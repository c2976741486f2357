"""Without a safeguard the same seeds turn red: so green means something."""

from __future__ import annotations

import pytest

from tidelog.model.safeguards import CLUSTER_SAFEGUARDS, Safeguard
from tidelog.sim.ablations import BEYOND_CLUSTERS, find_ablated

OF_ONE_NODE = [safeguard for safeguard in Safeguard if safeguard not in CLUSTER_SAFEGUARDS]
OF_A_CLUSTER = [
    safeguard
    for safeguard in Safeguard
    if safeguard in CLUSTER_SAFEGUARDS and safeguard not in BEYOND_CLUSTERS
]

LIKELY = {
    Safeguard.BROKER_EPOCH: 246,
    Safeguard.ELIGIBLE_LEADERS: 7,
    Safeguard.UNCLEAN_BY_LOG: 9,
    Safeguard.TRUNCATE_BY_EPOCH: 5,
    Safeguard.FETCH_IN_EPOCH: 26,
    Safeguard.EPOCH_IN_FETCH: 4,
    Safeguard.LOG_START_REPLICATED: 28,
    Safeguard.PRESENT_BEFORE_FOLLOWING: 16,
    Safeguard.PRESENT_BEFORE_SERVING: 1,
    Safeguard.REQUESTS_IN_ORDER: 1,
    Safeguard.CLEAN_MARK: 7,
    Safeguard.EXPAND_AFTER_EPOCH_START: 36,
    Safeguard.VOTE_DURABLE: 848,
    Safeguard.FLUSHES_NOTED: 12,
    Safeguard.LIVE_GROUPS_REMEMBER: 141,
    Safeguard.CUT_TAIL_TOLD: 673,
}
"""The first seeds that noticed, when somebody last looked: tried before all others."""


@pytest.mark.parametrize("safeguard", OF_ONE_NODE, ids=lambda safeguard: safeguard.name)
def test_a_missing_safeguard_is_noticed(safeguard: Safeguard) -> None:
    discovery = find_ablated(safeguard, likely=LIKELY.get(safeguard))
    assert discovery is not None, f"300 seeds did not notice that {safeguard.name} was off"


@pytest.mark.parametrize("safeguard", OF_A_CLUSTER, ids=lambda safeguard: safeguard.name)
def test_a_missing_safeguard_of_clusters_is_noticed(safeguard: Safeguard) -> None:
    discovery = find_ablated(safeguard, likely=LIKELY.get(safeguard))
    assert discovery is not None, f"300 seeds did not notice that {safeguard.name} was off"
