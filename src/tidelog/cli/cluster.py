"""`tidelog cluster up|status`: a cluster of real processes on this machine, and a look at any."""

from __future__ import annotations

import signal
import sys
import time
from pathlib import Path
from types import FrameType
from typing import Annotated, Any

import typer

from tidelog.cli.cluster_process import ClusterProcess
from tidelog.cli.failure import CommandFailed
from tidelog.cli.options import AsJson, Bootstrap
from tidelog.cli.output import add_rows, aside, emit_json, people, plural, table
from tidelog.cli.serve import UsageError, address
from tidelog.client import Admin, Connection
from tidelog.client.connection import DEFAULT_BOOTSTRAP

app = typer.Typer(
    help="Run a local cluster, and look after any.",
    rich_markup_mode="markdown",
    no_args_is_help=True,
    epilog="Example: `tidelog cluster up --nodes 3 --data-dir ./cluster`",
)

MOST_NODES = 9
_LOOK_S = 0.2
"""How often it is looked whether a node has ended by itself."""


@app.callback()
def cluster() -> None:
    """Run a local cluster, and look after any."""


@app.command(epilog="Example: `tidelog cluster status --bootstrap 127.0.0.1:9092`")
def status(bootstrap: Bootstrap = DEFAULT_BOOTSTRAP, as_json: AsJson = False) -> None:
    """Show the nodes, what each leads and keeps, and what is not as it should be."""
    admin = Admin(Connection(bootstrap))
    found = admin.cluster()
    partitions = [
        (topic.name, partition) for topic in admin.topics() for partition in topic.partitions
    ]
    troubled = [
        {
            "topic": name,
            "partition": partition.number,
            "leader": partition.leader,
            "replicas": list(partition.replicas),
            "in_sync": list(partition.in_sync),
        }
        for name, partition in partitions
        if partition.leader < 0 or len(partition.in_sync) < len(partition.replicas)
    ]
    rows = [
        {
            "node": node_id,
            "address": address,
            "is_controller": node_id == found.controller,
            "leads": sum(partition.leader == node_id for _, partition in partitions),
            "keeps": sum(node_id in partition.replicas for _, partition in partitions),
        }
        for node_id, address in found.nodes.items()
    ]
    if as_json:
        emit_json({"nodes": rows, "partitions": len(partitions), "troubled": troubled})
    else:
        _show_status(rows, len(partitions), troubled)


def _show_status(
    rows: list[dict[str, Any]], partitions: int, troubled: list[dict[str, Any]]
) -> None:
    console = people()
    made = table("#Node", "Address", "Controller", "#Leads", "#Keeps")
    console.print(add_rows(made, [row.values() for row in rows]))
    console.print()
    if not troubled:
        console.print(f"{plural(partitions, 'partition')}, all with a leader and all in sync")
        return
    console.print(f"{len(troubled):,} of {plural(partitions, 'partition')} not as they should be:")
    wanting = table("~Topic", "#Partition", "#Leader", "~Replicas", "~In sync")
    shown = (
        (
            row["topic"],
            row["partition"],
            row["leader"] if row["leader"] >= 0 else "none",
            ",".join(map(str, row["replicas"])),
            ",".join(map(str, row["in_sync"])),
        )
        for row in troubled
    )
    console.print(add_rows(wanting, shown))


@app.command(epilog="Example: `tidelog cluster up --nodes 3 --listen 127.0.0.1:9092`")
def up(
    nodes: Annotated[
        int, typer.Option("--nodes", min=1, max=MOST_NODES, metavar="N", help="How many.")
    ] = 3,
    data_dir: Annotated[
        Path,
        typer.Option("--data-dir", metavar="DIR", help="One folder per node is made in it."),
    ] = Path("tidelog-cluster"),
    listen: Annotated[
        str,
        typer.Option(
            "--listen",
            metavar="HOST:PORT",
            help="The first node's address; the others' ports follow. Port 0 chooses free ones.",
        ),
    ] = "127.0.0.1:9092",
    zookeeper: Annotated[
        str,
        typer.Option(
            "--zookeeper",
            metavar="HOST:PORT,…",
            help="Let this ZooKeeper keep the metadata, instead of the nodes themselves.",
        ),
    ] = "",
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="NAME=VALUE", help="A setting of all nodes; may be repeated."
        ),
    ] = None,
) -> None:
    """Start a local cluster and keep it until Ctrl-C.

    Prints `ready HOST:PORT,HOST:PORT,…` on standard output when clients may connect.
    """
    try:
        host, port = address(listen, name="--listen")
    except UsageError as wrong:
        raise typer.BadParameter(str(wrong)) from None
    arguments = [part for text in settings or [] for part in ("--set", text)]
    stop = _StopWish()
    with ClusterProcess(
        data_dir, *arguments, count=nodes, host=host, port=port, zookeeper=zookeeper
    ) as running:
        sys.stdout.write(f"ready {running.bootstrap}\n")
        sys.stdout.flush()
        gone: dict[int, int] = {}
        while not stop.is_wished and len(gone) < nodes:
            time.sleep(_LOOK_S)
            _report_ends(running, gone)
        codes = [node.stop() for i, node in running.nodes.items() if i not in gone]
    if any(codes) or gone:
        raise CommandFailed("a node did not end cleanly: its own log says why")


class _StopWish:
    """SIGTERM and Ctrl-C ask for an end, once the loop looks."""

    def __init__(self) -> None:
        self.is_wished = False
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._wish)

    def _wish(self, number: int, frame: FrameType | None) -> None:
        self.is_wished = True


def _report_ends(running: ClusterProcess, gone: dict[int, int]) -> None:
    for node_id, node in running.nodes.items():
        code = node.process.poll()
        if code is not None and node_id not in gone:
            gone[node_id] = code
            aside().print(f"node {node_id} has ended by itself (code {code})\n{node.log[-1000:]}")
