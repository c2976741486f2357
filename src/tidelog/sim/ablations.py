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

BEYOND_CLUSTERS: frozenset[Safeguard] = frozenset((Safeguard.OWN_EPOCH_FIRST,))
"""Those that whole clusters can't miss. A record of an old epoch would have to be counted while the
new leader's first record is not there yet; but whoever fetches the one gets the other with it, in
the same answer. The properties of the quorum's own room find it, where records come one by one
(`tests/properties`)."""


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
    likely: int | None = None,
) -> Discovery | None:
    """The same for a node that is wrong in a way of its own: the canary."""
    options = RunOptions(make_node=make_node, nodes=nodes, consensus=consensus)
    return find_red(options, max_seeds=max_seeds, likely=likely)


def find_red(options: RunOptions, *, max_seeds: int, likely: int | None = None) -> Discovery | None:
    """The first red seed under these options."""
    seeds = [*(() if likely is None else (likely,)), *range(max_seeds)]
    for tried, seed in enumerate(seeds, start=1):
        outcome = run_any(seed, options)
        if outcome.is_red:
            return Discovery(outcome, tried)
    return None
