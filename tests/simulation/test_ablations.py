"""Without a safeguard the same seeds turn red: so green means something."""

from __future__ import annotations

import pytest

from tidelog.model.safeguards import Safeguard
from tidelog.sim.ablations import find_ablated


@pytest.mark.parametrize("safeguard", Safeguard, ids=lambda safeguard: safeguard.name)
def test_a_missing_safeguard_is_noticed(safeguard: Safeguard) -> None:
    discovery = find_ablated(safeguard)
    assert discovery is not None, f"300 seeds did not notice that {safeguard.name} was off"
