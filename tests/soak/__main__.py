"""`make soak`: nodes under a load that changes everything and adds nothing, and whether they stay
as large as they are. Exits with 1 if something grows."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from tests.soak.load import NODE_SETTINGS, Load
from tests.soak.samples import Sample, growth, table, take

from tidelog.cli.cluster_process import ClusterProcess
from tidelog.cli.node_process import NodeProcess


def main() -> int:
    asked = _arguments()
    arguments = [word for each in NODE_SETTINGS.items() for word in ("--set", "=".join(each))]
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        data_dir = Path(folder)
        nodes: list[NodeProcess]
        if asked.nodes == 1:
            nodes = [stack.enter_context(NodeProcess(data_dir / "node-1", *arguments))]
        else:
            cluster = ClusterProcess(data_dir, *arguments, count=asked.nodes)
            nodes = [*stack.enter_context(cluster).nodes.values()]
        bootstrap = ",".join(node.bootstrap for node in nodes)
        print(f"{asked.nodes} node(s) for {asked.minutes:g} min, a sample each {asked.every:g} s")
        with Load(bootstrap, copies=min(3, asked.nodes)) as load:
            samples = _watch(nodes, data_dir, load, asked.minutes * 60, asked.every)
        load.check()
        for node in nodes:
            assert "Traceback" not in node.log, node.log
    print(table(samples))
    print(f"rounds of load: {', '.join(f'{name} {n}' for name, n in load.rounds.items())}")
    grown = growth(samples)
    print("\n".join(f"NOT FLAT: {line}" for line in grown) if grown else "flat")
    return 1 if grown else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--nodes", type=int, default=1)
    parser.add_argument("--every", type=float, default=10, help="seconds between samples")
    return parser.parse_args()


def _watch(
    nodes: list[NodeProcess], data_dir: Path, load: Load, seconds: float, every_s: float
) -> list[Sample]:
    started = time.monotonic()
    samples: list[Sample] = []
    while (at_s := time.monotonic() - started) < seconds:
        load.check()
        samples.append(take([node.process.pid for node in nodes], data_dir, at_s))
        time.sleep(every_s)
    return samples


if __name__ == "__main__":
    sys.exit(main())
