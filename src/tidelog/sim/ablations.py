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

BEYOND_CLUSTERS: frozenset[Safeguard] = frozenset(
    (
        Safeguard.BROKER_EPOCH,
        Safeguard.ELIGIBLE_LEADERS,
        Safeguard.OWN_EPOCH_FIRST,
    )
)
"""Those that 300 whole clusters did not miss: a word of a former life would have to be held up
while the next one registers, a replica to come back with less on the one day that eligible leaders
are for, a record of an old epoch to be counted just then. The properties of their own rooms find
them (`tests/properties`), with nothing else going on."""


@dataclass(slots=True, frozen=True)
class Discovery:
    """The first red seed, and how many seeds it took."""

    outcome: Outcome
    seeds: int


def size_for(safeguard: Safeguard | None) -> int:
    """How many nodes it takes to suffer from its absence."""
    return ANY_SIZE if safeguard in CLUSTER_SAFEGUARDS else 1


def find_ablated(
    safeguard: Safeguard, *, max_seeds: int = MAX_SEEDS, likely: int | None = None
) -> Discovery | None:
    """The first seed that notices the missing safeguard; None if none of them does. A seed that
    is `likely` to, because it did once, is tried before all others."""
    options = RunOptions(ablate=safeguard, nodes=size_for(safeguard))
    return find_red(options, max_seeds=max_seeds, likely=likely)


def find_broken(
    make_node: NodeFactory,
    *,
    nodes: int = 1,
    consensus: str = "quorum",
    max_seeds: int = MAX_SEEDS,
) -> Discovery | None:
    """The same for a node that is wrong in a way of its own: the canary."""
    options = RunOptions(make_node=make_node, nodes=nodes, consensus=consensus)
    return find_red(options, max_seeds=max_seeds)


def find_red(options: RunOptions, *, max_seeds: int, likely: int | None = None) -> Discovery | None:
    """The first red seed under these options."""
    seeds = [*(() if likely is None else (likely,)), *range(max_seeds)]
    for tried, seed in enumerate(seeds, start=1):
        outcome = run_any(seed, options)
        if outcome.is_red:
            return Discovery(outcome, tried)
    return None
