"""A node as a process of its own: start, kill -9, stop, restart. For the demo and the tests.

A restarted node comes back on the same port, so that clients find it again by themselves.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import IO

from tidelog.cli.failure import CommandFailed

START_TIMEOUT_S = 120.0
STOP_TIMEOUT_S = 120.0


class NodeFailed(CommandFailed):
    """The process ended, or was silent for too long; the message has its last words."""


class NodeSilent(NodeFailed):
    """The process runs, and has not said in time that it is ready."""


class NodeProcess:
    """One `tidelog serve`, or `cluster join`. Kept and ended by its process id, never by name."""

    def __init__(
        self,
        data_dir: Path,
        *arguments: str,
        listen: str = "127.0.0.1:0",
        waits: bool = True,
        command: tuple[str, ...] = ("serve",),
    ) -> None:
        """`command` is what starts it: `serve`, or `cluster join`. Without `waits` the node may not
        be ready yet: `wait_ready` says when. A node of a cluster is ready only together with
        others."""
        self.data_dir = data_dir
        self.host, self.port = "", 0
        self._command = command
        self._arguments = arguments
        self._listen = listen
        self._log: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 (closed in __exit__)
        self.process = self._spawn()
        if waits:
            self.wait_ready()

    @property
    def bootstrap(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def log(self) -> str:
        """All that the node has written to standard error, over all its lives."""
        self._log.seek(0)
        return self._log.read().decode(errors="replace")

    def kill(self) -> None:
        """As if the power had gone, for the process: no clean-up, no last flush."""
        self.process.kill()
        self._reap()

    def stop(self) -> int:
        """SIGTERM, and the exit code: 0 if the node says it stopped cleanly."""
        self.process.send_signal(signal.SIGTERM)
        return self._reap()

    def restart(self, *, waits: bool = True) -> None:
        """Start again, on the same data and the same port; `kill` or `stop` it first."""
        if self.port:
            self._listen = self.bootstrap
        self.process = self._spawn()
        if waits:
            self.wait_ready()

    def wait_ready(self) -> None:
        """Until clients may connect."""
        try:
            self.host, self.port = _ready_address(self.process)
        except NodeFailed as failure:
            self.process.kill()
            self.process.wait()
            raise type(failure)(f"{failure}: {self.log[-2000:].strip()}") from None

    def __enter__(self) -> NodeProcess:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.process.poll() is None:
            self.kill()
        self._log.close()

    def _spawn(self) -> subprocess.Popen[bytes]:
        program = [sys.executable, "-m", "tidelog", *self._command]
        return subprocess.Popen(
            [
                *program,
                "--data-dir",
                str(self.data_dir),
                "--listen",
                self._listen,
                *self._arguments,
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self._log,
        )

    def _reap(self) -> int:
        code = self.process.wait(STOP_TIMEOUT_S)
        if self.process.stdout is not None:
            self.process.stdout.close()
        return code


def _ready_address(process: subprocess.Popen[bytes]) -> tuple[str, int]:
    """What the node's one line on standard output says: `ready HOST:PORT`."""
    assert process.stdout is not None
    line = b""
    deadline = time.monotonic() + START_TIMEOUT_S
    while not line.endswith(b"\n"):
        left_s = deadline - time.monotonic()
        if left_s <= 0 or not select.select([process.stdout], [], [], left_s)[0]:
            raise NodeSilent(f"the node was not ready within {START_TIMEOUT_S:.0f} s")
        piece = os.read(process.stdout.fileno(), 4096)
        if not piece:
            raise NodeFailed("the node ended before it was ready")
        line += piece
    word, _, address = line.decode().strip().partition(" ")
    host, _, port = address.rpartition(":")
    if word != "ready" or not port.isdecimal():
        raise NodeFailed(f"the node said {line!r} instead of ready HOST:PORT")
    return host, int(port)
