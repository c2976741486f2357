"""Proof that the simulator would notice: run with one safeguard off until a seed is red.

A simulator that is always green proves nothing by itself. For each safeguard there is a bug that
its absence lets in; the same seeds that are green with it must turn red without it, soon.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidelog.model.safeguards import Safeguard
from tidelog.sim.host import NodeFactory
from tidelog.sim.run import Outcome, RunOptions, run_seed

MAX_SEEDS = 300


@dataclass(slots=True, frozen=True)
class Discovery:
    """The first red seed, and how many seeds it took."""

    outcome: Outcome
    seeds: int


def find_ablated(safeguard: Safeguard, *, max_seeds: int = MAX_SEEDS) -> Discovery | None:
    """The first seed that notices the missing safeguard; None if none of them does."""
    return find_red(RunOptions(ablate=safeguard), max_seeds=max_seeds)


def find_broken(make_node: NodeFactory, *, max_seeds: int = MAX_SEEDS) -> Discovery | None:
    """The same for a node that is wrong in a way of its own: the canary."""
    return find_red(RunOptions(make_node=make_node), max_seeds=max_seeds)


def find_red(options: RunOptions, *, max_seeds: int) -> Discovery | None:
    """The first red seed under these options."""
    for seed in range(max_seeds):
        outcome = run_seed(seed, options)
        if outcome.is_red:
            return Discovery(outcome, seed + 1)
    return None
