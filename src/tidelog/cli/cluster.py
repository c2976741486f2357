"""`tidelog cluster up|status|join|reassign|drain|elect|confirm-clock`: run one, and look after any.

Here is `up`, a cluster of real processes on this machine; the others have files of their own."""

from __future__ import annotations

import signal
import sys
import time
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer

from tidelog.cli.cluster_clock import confirm_clock
from tidelog.cli.cluster_drain import drain
from tidelog.cli.cluster_elect import elect
from tidelog.cli.cluster_join import join
from tidelog.cli.cluster_process import ClusterProcess
from tidelog.cli.cluster_reassign import reassign
from tidelog.cli.cluster_status import status
from tidelog.cli.failure import CommandFailed
from tidelog.cli.output import aside
from tidelog.cli.serve import UsageError, address

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


app.command(epilog="Example: `tidelog cluster status --bootstrap 127.0.0.1:9092`")(status)
app.command(
    epilog="Example: `tidelog cluster reassign`, and with `--yes` for real\n\n"
    "Three copies of all: `tidelog cluster reassign --replication-factor 3 --yes`\n\n"
    "One partition: `tidelog cluster reassign --topic orders --partition 0 --replicas 3,1,2 --yes`"
)(reassign)
app.command(
    epilog="Example: `tidelog cluster drain 3 --yes`\n\n"
    "For good: `tidelog cluster drain 3 --remove --yes`"
)(drain)
app.command(epilog="Example: `tidelog cluster elect`, or `tidelog cluster elect --topic orders`")(
    elect
)
app.command(
    "confirm-clock", epilog="Example: `tidelog cluster confirm-clock --bootstrap 127.0.0.1:9092`"
)(confirm_clock)
app.command(
    epilog="Example: `tidelog cluster join --bootstrap 127.0.0.1:9092 --data-dir ./node-4 "
    "--listen 127.0.0.1:9095`"
)(join)


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
