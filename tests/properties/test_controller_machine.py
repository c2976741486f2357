"""The controller under random commands on three to five nodes that hold records.

After every step the image is valid (I11), epochs have not gone back (I3), every ISR member is
usable, and no leader lacks a committed record (I8): not after crashes that lose data, not after
stops, reassignments, changed settings, or with another controller made from a snapshot. At the end
everybody comes back: leaders are there, ISRs full, reassignments complete.

And each of the safeguards for this is needed: without it, some run loses a record.
"""

from __future__ import annotations

import pytest
from tests.support.cluster_model import ClusterModel, RecordLost

from tidelog.model.safeguards import ALL_SAFEGUARDS, Safeguard

OF_THE_CONTROLLER = (Safeguard.BROKER_EPOCH, Safeguard.ELIGIBLE_LEADERS, Safeguard.CLEAN_MARK)
RUNS = 80
STEPS = 250


@pytest.mark.parametrize("first", range(0, RUNS, 10))
def test_no_leader_ever_lacks_a_committed_record(first: int) -> None:
    for seed in range(first, first + 10):
        try:
            ClusterModel(seed).run(STEPS)
        except AssertionError as wrong:
            raise AssertionError(f"seed {seed}: {wrong}") from wrong


@pytest.mark.parametrize("safeguard", OF_THE_CONTROLLER)
def test_without_a_safeguard_a_committed_record_is_lost(safeguard: Safeguard) -> None:
    for seed in range(600):
        try:
            ClusterModel(seed, safeguards=ALL_SAFEGUARDS - {safeguard}).run(STEPS)
        except RecordLost:
            return
    raise AssertionError(f"600 runs did not notice that {safeguard.name} was off")
