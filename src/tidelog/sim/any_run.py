"""One seed, of whatever size: a node alone, or a cluster."""

from __future__ import annotations

from tidelog.sim.replicated.run import run_cluster_seed
from tidelog.sim.run import Outcome, RunOptions, run_seed


def run_any(seed: int, options: RunOptions) -> Outcome:
    """The same seed and options give the same outcome, always."""
    return run_seed(seed, options) if options.nodes == 1 else run_cluster_seed(seed, options)
