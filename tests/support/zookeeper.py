"""A real ZooKeeper for tests: the one whose jar comes with pyspark, as processes here."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import TypeVar

import pyspark
from kazoo.client import KazooClient
from tests.support.eventually import eventually

from tidelog.cli.cluster_process import free_ports

HOST = "127.0.0.1"
TICK_MS = 500
"""Sessions may be as short as two ticks."""

_JARS = Path(pyspark.__file__).parent / "jars"
T = TypeVar("T")


class ZooKeeperServer:
    """One server. Kept and ended by its process id."""

    def __init__(self, directory: Path, port: int, *more: str, my_id: int = 1) -> None:
        data = directory / "data"
        data.mkdir(parents=True)
        (data / "myid").write_text(f"{my_id}\n")
        self._configuration = directory / "zoo.cfg"
        lines = (
            f"tickTime={TICK_MS}",
            f"dataDir={data}",
            f"clientPort={port}",
            f"clientPortAddress={HOST}",
            "admin.enableServer=false",
            "initLimit=20",
            "syncLimit=10",
            *more,
        )
        self._configuration.write_text("\n".join(lines) + "\n")
        self.address = f"{HOST}:{port}"
        self._port = port
        self._log = (directory / "log").open("wb")
        self._process = self._start()

    def wait_ready(self) -> None:
        eventually(self._is_serving, f"ZooKeeper at {self.address}")

    def pause(self) -> None:
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def restart(self) -> None:
        self._process = self._start()
        self.wait_ready()

    def __enter__(self) -> ZooKeeperServer:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()
        self._log.close()

    def _start(self) -> subprocess.Popen[bytes]:
        java = os.path.join(os.environ["JAVA_HOME"], "bin/java") if _has_java_home() else "java"
        return subprocess.Popen(
            [
                java,
                "-Xmx128m",
                "-XX:TieredStopAtLevel=1",
                "-Dzookeeper.4lw.commands.whitelist=srvr",
                "-cp",
                f"{_JARS}/*",
                "org.apache.zookeeper.server.quorum.QuorumPeerMain",
                str(self._configuration),
            ],
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=subprocess.STDOUT,
        )

    def _is_serving(self) -> bool:
        assert self._process.poll() is None, "ZooKeeper has ended"
        try:
            with socket.create_connection((HOST, self._port), timeout=5) as sock:
                sock.sendall(b"srvr")
                return b"Mode: " in sock.recv(4096)
        except OSError:
            return False


class ZooKeeperEnsemble:
    """One server, or three that agree among themselves."""

    def __init__(self, directory: Path, *, count: int = 1) -> None:
        ports = free_ports(HOST, 3 * count)
        rows = [ports[index * 3 : index * 3 + 3] for index in range(count)]
        members = [
            f"server.{number}={HOST}:{follow}:{elect}"
            for number, (_, follow, elect) in enumerate(rows, start=1)
        ]
        with ExitStack() as stack:
            self.servers = [
                stack.enter_context(
                    ZooKeeperServer(
                        directory / f"zookeeper-{number}",
                        client,
                        *(members if count > 1 else ()),
                        my_id=number,
                    )
                )
                for number, (client, _, _) in enumerate(rows, start=1)
            ]
            for server in self.servers:
                server.wait_ready()
            self._stack = stack.pop_all()

    @property
    def connect(self) -> str:
        return ",".join(server.address for server in self.servers)

    def look(self, read: Callable[[KazooClient], T]) -> T:
        """What `read` finds, with a client of its own."""
        client = KazooClient(self.connect, timeout=30)
        client.start(60)
        try:
            return read(client)
        finally:
            client.stop()
            client.close()

    def __enter__(self) -> ZooKeeperEnsemble:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()


def _has_java_home() -> bool:
    return (Path(os.environ.get("JAVA_HOME", "/nowhere")) / "bin/java").exists()
