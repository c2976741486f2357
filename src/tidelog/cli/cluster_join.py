"""`tidelog cluster join`: a further node for a cluster that runs.

The node learns from the cluster who is in it, writes that and its own place into its directory
(`tidelog.toml`), and is served from here on like any other: a plain `tidelog serve` of the
directory continues. With --voter it asks for a vote once it has caught up, beside its serving.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, NamedTuple
from uuid import UUID

import typer

from tidelog.cli import serve
from tidelog.cli.cluster_process import free_ports
from tidelog.cli.failure import CommandFailed
from tidelog.cli.kept_config import KeptConfig
from tidelog.cli.options import Bootstrap, pairs
from tidelog.client import ClientError, Connection
from tidelog.client.cluster_admin import ClusterAdmin, ClusterView, QuorumView
from tidelog.client.connection import DEFAULT_BOOTSTRAP
from tidelog.model.cluster_settings import BOOTSTRAP_SERVERS, VOTERS
from tidelog.model.ids import Endpoint
from tidelog.model.settings import InvalidSetting, parse_settings
from tidelog.runtime.service import ServeOptions
from tidelog.wire.schema import NO_UUID

_ALONE_EPOCH = 0
"""A node that is alone has no elections."""

_LOOK_S = 0.3
_PATIENCE_S = 600.0


class _Place(NamedTuple):
    """What the cluster settles for a new node."""

    node_id: int
    bootstrap: str


def join(
    data_dir: Annotated[
        Path, typer.Option("--data-dir", metavar="DIR", help="Where the new node keeps everything.")
    ],
    listen: Annotated[
        str,
        typer.Option(
            "--listen", metavar="HOST:PORT", help="Where clients connect; port 0 chooses one."
        ),
    ] = "127.0.0.1:0",
    advertise: Annotated[
        str | None,
        typer.Option("--advertise", metavar="HOST", help="The host that others are sent to."),
    ] = None,
    node_id: Annotated[
        int | None,
        typer.Option(
            "--node-id", min=0, max=2**31 - 1, metavar="N", help="Its id; the next, if left out."
        ),
    ] = None,
    voter: Annotated[
        bool, typer.Option("--voter", help="Give it a vote on the metadata, once it knows all.")
    ] = False,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="A setting of the node; repeatable."),
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Start a node that joins the cluster at --bootstrap, and keep it until Ctrl-C.

    Prints `ready HOST:PORT` when clients may connect. What the node needs is written into its
    directory: later, `tidelog serve --data-dir DIR` is enough. Partitions come to it with
    `tidelog cluster reassign`.
    """
    given = pairs(settings or [], option="--set")
    if not (data_dir / serve.KEPT_CONFIG).exists():
        place = _place(ClusterAdmin(Connection(bootstrap)), node_id, data_dir)
        host, port = _address(listen)
        config = KeptConfig(
            place.node_id,
            str(Endpoint(host, port or free_ports(host, 1)[0])),
            advertise,
            {BOOTSTRAP_SERVERS: place.bootstrap, **given},
        )
        _check_settings(config.settings)
        config.write(data_dir)
    options = serve.parse_options(["--data-dir", str(data_dir)])
    if node_id not in (None, options.node_id):
        raise CommandFailed(f"{data_dir} is that of node {options.node_id}, not {node_id}")
    _remark(f"node {options.node_id} joins the cluster at {bootstrap}")
    if voter:
        asking = threading.Thread(target=ask_for_vote, args=(bootstrap, options), daemon=True)
        asking.start()
    raise typer.Exit(serve.run(["--data-dir", str(data_dir)]))


def _place(cluster: ClusterAdmin, wanted: int | None, data_dir: Path) -> _Place:
    """As the cluster is at this moment."""
    if (data_dir / "metadata").exists():
        raise CommandFailed(
            f"{data_dir} holds a node already: give an empty --data-dir. A node that was alone "
            f"becomes the first of a cluster by `tidelog serve --set {VOTERS}=ID@HOST:PORT`"
        )
    view, quorum = cluster.view(), cluster.quorum()
    if not quorum.voters:
        raise CommandFailed(
            "the cluster agrees by ZooKeeper: start the node by `tidelog serve` with the same "
            "consensus and zookeeper.connect as the others, and a --node-id of its own"
        )
    if quorum.epoch == _ALONE_EPOCH:
        alone = view.nodes[quorum.leader]
        raise CommandFailed(
            f"node {alone.node_id} at {alone.address} is alone: start it again with "
            f"--set {VOTERS}={alone.node_id}@{alone.address}, and it can have company"
        )
    if wanted is not None:
        known = view.nodes.get(wanted)
        if known is not None and not known.is_fenced:
            raise CommandFailed(f"there is a node {wanted} already, at {known.address}")
    return _Place(_next_id(view, quorum) if wanted is None else wanted, view.bootstrap)


def _next_id(view: ClusterView, quorum: QuorumView) -> int:
    return max((0, *view.nodes, *quorum.voters, *quorum.observers)) + 1


def _check_settings(given: Mapping[str, str]) -> None:
    try:
        parse_settings(given, scope="node")
    except InvalidSetting as wrong:
        raise typer.BadParameter(str(wrong), param_hint="--set") from None


def _address(listen: str) -> tuple[str, int]:
    try:
        return serve.address(listen, name="--listen")
    except serve.UsageError as wrong:
        raise typer.BadParameter(str(wrong)) from None


# --- the vote -----------------------------------------------------------------------------------


def ask_for_vote(bootstrap: str, options: ServeOptions) -> None:
    """Until the node has it; what went wrong is said, and the same command tries again."""
    cluster = ClusterAdmin(Connection(bootstrap))
    deadline = time.monotonic() + _PATIENCE_S
    trouble = "it does not follow the metadata"
    while time.monotonic() < deadline:
        try:
            if give_vote(cluster, options.node_id, _directory_id(options.data_dir)):
                voters = ", ".join(map(str, cluster.quorum().voters))
                _remark(f"node {options.node_id} has a vote: the voters are {voters}")
                return
        except ClientError as error:
            trouble = str(error)
        time.sleep(_LOOK_S)
    _remark(f"node {options.node_id} got no vote: {trouble}")


def _remark(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def give_vote(cluster: ClusterAdmin, node_id: int, directory_id: UUID | None) -> bool:
    """One try. A vote that an earlier directory of the node had is taken away first: what that one
    had promised, this one does not know."""
    quorum = cluster.quorum()
    voter = quorum.voters.get(node_id)
    if voter is not None and voter.directory_id in (NO_UUID, directory_id):
        return True
    node, observer = cluster.view().nodes.get(node_id), quorum.observers.get(node_id)
    if node is None or observer is None or observer.directory_id != directory_id:
        return False
    if voter is not None:
        cluster.remove_voter(node_id, voter.directory_id)
    cluster.add_voter(node, observer.directory_id)
    return True


def _directory_id(data_dir: Path) -> UUID | None:
    """The node writes it at its first start."""
    path = data_dir / "directory-id"
    return UUID(path.read_text().strip()) if path.exists() else None
