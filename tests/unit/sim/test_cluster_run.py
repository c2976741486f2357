"""What a run of a whole cluster allows itself, by what it does to the nodes."""

from __future__ import annotations

from itertools import count, islice

from tidelog.sim.replicated.run import ClusterRun
from tidelog.sim.run import ANY_SIZE, RunOptions


def test_where_a_node_is_spoiled_nobody_decides_that_one_copy_is_enough() -> None:
    """The others might leave the ISR one by one, and it be the only one to be elected."""
    runs = (ClusterRun(seed, RunOptions(nodes=ANY_SIZE)) for seed in count())
    for run in islice((run for run in runs if run.spoiler.is_on), 10):
        assert run.least_in_sync == 2
        assert int(dict(run.plan.topic_settings)["min.insync.replicas"]) == 2
