"""A local cluster as processes: as many `tidelog serve` as asked for, each with its own directory
and port. For `tidelog cluster up`, the demo and the tests."""

from __future__ import annotations

import socket
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType

from tidelog.cli.failure import CommandFailed
from tidelog.cli.node_process import NodeProcess
from tidelog.model.ids import Endpoint

FIRST_NODE_ID = 1


class ClusterProcess:
    """Nodes 1 to `count`. Started together, since none is ready without a majority."""

    def __init__(
        self,
        data_dir: Path,
        *arguments: str,
        count: int = 3,
        host: str = "127.0.0.1",
        port: int = 0,
        zookeeper: str = "",
    ) -> None:
        """With `zookeeper` (as `zookeeper.connect`) they agree by that, else among themselves."""
        self.nodes: dict[int, NodeProcess] = {}
        ports = [port + index for index in range(count)] if port else free_ports(host, count)
        ids = range(FIRST_NODE_ID, FIRST_NODE_ID + count)
        addresses = [Endpoint(host, each) for each in ports]
        voters = ",".join(f"{i}@{at}" for i, at in zip(ids, addresses, strict=True))
        agreement = [f"controller.quorum.voters={voters}"]
        if zookeeper:
            agreement = ["consensus=zookeeper", f"zookeeper.connect={zookeeper}"]
        with ExitStack() as stack:
            for node_id, address in zip(ids, addresses, strict=True):
                node = NodeProcess(
                    data_dir / f"node-{node_id}",
                    *("--node-id", str(node_id)),
                    *(word for setting in agreement for word in ("--set", setting)),
                    *arguments,
                    listen=str(address),
                    waits=False,
                )
                self.nodes[node_id] = stack.enter_context(node)
            for node in self.nodes.values():
                node.wait_ready()
            self._stack = stack.pop_all()

    @property
    def bootstrap(self) -> str:
        return ",".join(node.bootstrap for node in self.nodes.values())

    def __enter__(self) -> ClusterProcess:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()


def free_ports(host: str, count: int) -> list[int]:
    """Ports nobody uses at this moment. All are held until the last is found: no two are alike."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with ExitStack() as stack:
        held = [stack.enter_context(socket.socket(family)) for _ in range(count)]
        try:
            for sock in held:
                sock.bind((host, 0))
        except OSError as error:
            raise CommandFailed(f"can't listen on {host}: {error.strerror}") from None
        return [sock.getsockname()[1] for sock in held]
