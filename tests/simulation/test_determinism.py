"""The same seed is the same run, in every interpreter."""

from __future__ import annotations

import os
import subprocess
import sys

from tidelog.sim.run import run_seed

_SEEDS = (1, 2, 3, 11)
_PROGRAM = f"""
from tidelog.sim.run import run_seed
for seed in {_SEEDS}:
    outcome = run_seed(seed)
    print(seed, outcome.trace_hash, len(outcome.history), sorted(outcome.counters.items()))
"""


def _run_with_hash_seed(hash_seed: int) -> str:
    environment = {**os.environ, "PYTHONHASHSEED": str(hash_seed)}
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=600,
    )
    return done.stdout


def test_a_seed_gives_the_same_trace_under_every_hash_seed() -> None:
    first, second = _run_with_hash_seed(1), _run_with_hash_seed(4242)
    assert len(first.splitlines()) == len(_SEEDS)
    assert first == second


def test_two_seeds_are_two_runs() -> None:
    assert run_seed(1).trace_hash != run_seed(2).trace_hash


def test_a_run_does_not_depend_on_the_runs_before_it() -> None:
    alone = run_seed(5).trace_hash
    run_seed(6)
    assert run_seed(5).trace_hash == alone
