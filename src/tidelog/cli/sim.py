"""`tidelog sim`: simulated nodes with faults, by seed."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from enum import Enum
from pathlib import Path
from typing import Annotated, NamedTuple

import typer
from rich.console import Console

from tidelog.cli.options import AsJson
from tidelog.cli.output import add_rows, emit_json, people, plural, progress, table
from tidelog.model.safeguards import Safeguard
from tidelog.sim.ablations import size_for
from tidelog.sim.any_run import run_any
from tidelog.sim.history import dump
from tidelog.sim.report import count_rows, replay_command, tell, total
from tidelog.sim.run import ANY_SIZE, RunOptions

app = typer.Typer(
    help="Run simulated nodes with faults, by seed.",
    add_completion=False,
    rich_markup_mode="markdown",
    no_args_is_help=True,
    epilog="Example: `tidelog sim run --seeds 100`, then `tidelog sim run --seed 7`",
)

DEFAULT_SEEDS = 100
MOST_NODES = 9
_SEEDS_PER_TASK = 4
_REPORTS_SHOWN = 3
_TITLES = {"fault": "faults", "struck": "what they hit", "answer": "operations and their answers"}

Ablation = Enum("Ablation", {guard.name: guard.name for guard in Safeguard})  # type: ignore[misc]
"""The safeguards by name, as typer likes its choices."""


class Consensus(Enum):
    """Who keeps the metadata: the nodes themselves, or a simulated ZooKeeper."""

    quorum = "quorum"
    zookeeper = "zookeeper"


class Result(NamedTuple):
    """What comes back from a worker: an outcome without its history, which is large."""

    seed: int
    trace_hash: str
    findings: list[str]
    counters: Counter[str]
    cpu_seconds: float
    report: str
    history: str

    @property
    def is_red(self) -> bool:
        return bool(self.findings)


@app.callback()
def sim() -> None:
    """Simulated nodes with faults, by seed."""


@app.command(
    epilog="Example: `tidelog sim run --seeds 500 --jobs 4`, and for a red seed "
    "`tidelog sim run --seed 17`."
)
def run(
    seed: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="Run this one seed, and tell all.")
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, metavar="N", help="Run so many seeds.")] = (
        DEFAULT_SEEDS
    ),
    first: Annotated[
        int, typer.Option(min=0, metavar="N", help="The first of --seeds: a long run in parts.")
    ] = 0,
    jobs: Annotated[
        int | None, typer.Option(min=1, metavar="J", help="Processes; one per core if not given.")
    ] = None,
    nodes: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=MOST_NODES,
            metavar="N",
            help="Nodes of the cluster; 0: each seed chooses. If not given, one; or, with --ablate "
            "of a safeguard that one node does not need, 0.",
        ),
    ] = None,
    consensus: Annotated[
        Consensus,
        typer.Option(help="How a cluster agrees on its metadata; `zookeeper` makes it a cluster."),
    ] = Consensus.quorum,
    ablate: Annotated[
        Ablation | None,
        typer.Option(
            metavar="SAFEGUARD",
            help="Switch one off: red seeds are what is hoped for then. `?` lists them.",
        ),
    ] = None,
    history: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="With --seed: write what clients saw, as JSON lines."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run the real node on a simulated disk, clock and network, and check every promise.

    The same seed always gives the same run. A red seed is told as soon as it is met, and again at
    the end. Exit code 1 if there is one.
    """
    missing = None if ablate is None else Safeguard[ablate.value]
    if nodes is None:
        nodes = ANY_SIZE if consensus is Consensus.zookeeper else size_for(missing)
    options = RunOptions(nodes=nodes, ablate=missing, consensus=consensus.value)
    chosen = list(range(first, first + seeds)) if seed is None else [seed]
    results = _run_all(chosen, options, jobs=jobs)
    if history is not None and seed is not None:
        history.write_text(results[0].history)
    if as_json:
        emit_json(_document(results, options))
    else:
        _show(results, options)
    if any(result.is_red for result in results):
        raise typer.Exit(1)


def _run_all(seeds: list[int], options: RunOptions, *, jobs: int | None) -> list[Result]:
    with progress() as bar:
        task = bar.add_task("seeds", total=len(seeds))
        results, red = [], 0
        for result in _results(seeds, options, jobs=jobs or os.cpu_count() or 1):
            results.append(result)
            red += result.is_red
            if result.is_red and len(seeds) > 1:
                bar.console.print(f"seed {result.seed} is red: {result.findings[0]}", markup=False)
            words = f"seeds ({red} red)" if red else "seeds"
            bar.update(task, advance=1, description=words)
    return results


def _results(seeds: list[int], options: RunOptions, *, jobs: int) -> Iterator[Result]:
    """In order of seeds, from as many processes as asked for."""
    if jobs == 1 or len(seeds) == 1:
        for seed in seeds:
            yield _run_one(seed, options, has_history=len(seeds) == 1)
        return
    with ProcessPoolExecutor(jobs) as pool:
        yield from pool.map(_run_one, seeds, [options] * len(seeds), chunksize=_SEEDS_PER_TASK)


def _run_one(seed: int, options: RunOptions, has_history: bool = False) -> Result:
    began = time.process_time()
    outcome = run_any(seed, options)
    cpu_seconds = time.process_time() - began
    return Result(
        seed=seed,
        trace_hash=outcome.trace_hash,
        findings=[str(finding) for finding in outcome.findings],
        counters=outcome.counters,
        cpu_seconds=cpu_seconds,
        report=tell(outcome) if outcome.is_red else "",
        history=dump(outcome.history) if has_history else "",
    )


def _document(results: list[Result], options: RunOptions) -> dict[str, object]:
    return {
        "ablated": None if options.ablate is None else options.ablate.name,
        "seeds": len(results),
        "cpu_seconds": sum(result.cpu_seconds for result in results),
        "red": [
            {
                "seed": result.seed,
                "findings": result.findings,
                "replay": replay_command(result.seed, options),
            }
            for result in results
            if result.is_red
        ],
        "trace_hashes": {str(result.seed): result.trace_hash for result in results},
        "counters": dict(sorted(total(result.counters for result in results).items())),
    }


def _show(results: list[Result], options: RunOptions) -> None:
    console = people()
    counters = total(result.counters for result in results)
    red = [result for result in results if result.is_red]
    for group, rows in count_rows(counters).items():
        console.print(add_rows(table(_TITLES[group], "#count"), rows))
        console.print()
    for result in red[:_REPORTS_SHOWN]:
        console.print(result.report)
        console.print()
    _show_summary(console, results, counters)
    if red:
        listed = ", ".join(str(result.seed) for result in red)
        console.print(f"RED: {plural(len(red), 'seed')}: {listed}", style="bold red")
        console.print(f"replay the first: {replay_command(red[0].seed, options)}")
    else:
        console.print("green: nothing found", style="bold green")
    if len(results) == 1:
        console.print(f"trace hash {results[0].trace_hash}")


def _show_summary(console: Console, results: list[Result], counters: Counter[str]) -> None:
    console.print(
        f"{plural(len(results), 'seed')}, {plural(counters['lives'], 'start')} of a node, "
        f"{plural(counters['steps'], 'step')}, "
        f"{plural(counters['acknowledged'], 'acknowledged record')}, "
        f"worst lag from ack to read {counters['worst lag ms']:,} ms of virtual time, "
        f"{sum(result.cpu_seconds for result in results) / len(results):.2f} CPU s a seed"
    )
