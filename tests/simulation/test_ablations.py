"""Without a safeguard the same seeds turn red: so green means something."""

from __future__ import annotations

import pytest

from tidelog.model.safeguards import CLUSTER_SAFEGUARDS, Safeguard
from tidelog.sim.ablations import find_ablated

OF_ONE_NODE = [safeguard for safeguard in Safeguard if safeguard not in CLUSTER_SAFEGUARDS]


@pytest.mark.parametrize("safeguard", OF_ONE_NODE, ids=lambda safeguard: safeguard.name)
def test_a_missing_safeguard_is_noticed(safeguard: Safeguard) -> None:
    discovery = find_ablated(safeguard)
    assert discovery is not None, f"300 seeds did not notice that {safeguard.name} was off"
