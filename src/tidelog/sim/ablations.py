"""Proof that the simulator would notice: run with one safeguard off until a seed is red.

A simulator that is always green proves nothing by itself. For each safeguard there is a bug that
its absence lets in; the same seeds that are green with it must turn red without it, soon.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidelog.model.safeguards import CLUSTER_SAFEGUARDS, Safeguard
from tidelog.sim.any_run import run_any
from tidelog.sim.host import NodeFactory
from tidelog.sim.run import ANY_SIZE, Outcome, RunOptions

MAX_SEEDS = 300


@dataclass(slots=True, frozen=True)
class Discovery:
    """The first red seed, and how many seeds it took."""

    outcome: Outcome
    seeds: int


def find_ablated(safeguard: Safeguard, *, max_seeds: int = MAX_SEEDS) -> Discovery | None:
    """The first seed that notices the missing safeguard; None if none of them does."""
    nodes = ANY_SIZE if safeguard in CLUSTER_SAFEGUARDS else 1
    return find_red(RunOptions(ablate=safeguard, nodes=nodes), max_seeds=max_seeds)


def find_broken(make_node: NodeFactory, *, max_seeds: int = MAX_SEEDS) -> Discovery | None:
    """The same for a node that is wrong in a way of its own: the canary."""
    return find_red(RunOptions(make_node=make_node), max_seeds=max_seeds)


def find_red(options: RunOptions, *, max_seeds: int) -> Discovery | None:
    """The first red seed under these options."""
    for seed in range(max_seeds):
        outcome = run_any(seed, options)
        if outcome.is_red:
            return Discovery(outcome, seed + 1)
    return None
