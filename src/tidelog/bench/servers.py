"""The processes that are measured: started, watched for `ready`, and stopped by their own id."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Kind = Literal["reference", "node", "kafka"]

READY_SECONDS = 60.0
STOP_SECONDS = 60.0


class ServerFailed(Exception):
    """A server did not start or did not stop; the message holds its last words."""


@dataclass(frozen=True, slots=True)
class Server:
    """Where to connect, and the process id to ask `/proc` about: 0 if it is not ours to know."""

    kind: Kind
    host: str
    port: int
    pid: int
    seconds_to_ready: float = 0.0
    data_dir: Path | None = None
    """None where it is of no use to know, or where somebody else has started the server."""

    @property
    def bootstrap(self) -> str:
        return f"{self.host}:{self.port}"

    def topic_settings(self, *, is_flushed: bool) -> dict[str, str]:
        """What makes a topic of this server flush each batch before its ack, or not."""
        if self.kind == "kafka":
            return {"flush.messages": "1"} if is_flushed else {}
        return {"flush.policy": "ack" if is_flushed else "os"}


def parse_address(text: str) -> tuple[str, int]:
    """`HOST:PORT`."""
    host, colon, port = text.strip().rpartition(":")
    if not (host and colon and port.isdecimal()):
        raise ValueError(f"not HOST:PORT: {text!r}")
    return host.strip("[]"), int(port)


def parse_ready(line: str) -> tuple[str, int]:
    """The address in a server's line `ready HOST:PORT`."""
    word, _, address = line.strip().partition(" ")
    if word != "ready":
        raise ValueError(f"not a ready line: {line!r}")
    return parse_address(address)


def node_command(
    data_dir: Path,
    *,
    is_flushed: bool,
    settings: Mapping[str, str] | None = None,
    port: int = 0,
) -> list[str]:
    """`settings` of the node, beside the flush policy. Port 0 is any that is free."""
    wanted = {**(settings or {}), "flush.policy": "ack" if is_flushed else "os"}
    command = [sys.executable, "-m", "tidelog", "serve", "--data-dir", str(data_dir)]
    command += ["--listen", f"127.0.0.1:{port}"]
    for name, value in wanted.items():
        command += ["--set", f"{name}={value}"]
    return command


def reference_command(data_dir: Path, *, is_flushed: bool, fetch_bytes: int) -> list[str]:
    command = [sys.executable, "-m", "tidelog.bench.reference", "--data-dir", str(data_dir)]
    command += ["--fetch-bytes", str(fetch_bytes)]
    return [*command, "--flush"] if is_flushed else command


@contextlib.contextmanager
def running(
    kind: Kind, command: Sequence[str], *, log_dir: Path, data_dir: Path | None = None
) -> Iterator[Server]:
    """A server that prints `ready HOST:PORT`; stopped with SIGTERM at the end."""
    log_path = log_dir / f"{kind}.stderr"
    started_at = time.monotonic()
    with log_path.open("ab") as log:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log)
    try:
        line = first_line(process, log_path)
        seconds = time.monotonic() - started_at
        host, port = parse_ready(line)
        yield Server(kind, host, port, process.pid, seconds, data_dir)
    finally:
        stop(process)


def first_line(process: subprocess.Popen[bytes], log_path: Path) -> str:
    """What a server says when it is ready, or `ServerFailed`."""
    assert process.stdout is not None
    readable, _, _ = select.select([process.stdout], [], [], READY_SECONDS)
    line = process.stdout.readline().decode() if readable else ""
    if not line:
        raise ServerFailed(f"a server did not become ready: {last_words(log_path)}")
    return line


def last_words(log_path: Path) -> str:
    """The last line of a log, for an error message."""
    lines = log_path.read_text(errors="replace").strip().splitlines()
    return lines[-1] if lines else "it said nothing"


def stop(process: subprocess.Popen[bytes]) -> None:
    """SIGTERM, then wait; a server that ignores it is killed, and that is an error."""
    if process.poll() is None:
        os.kill(process.pid, signal.SIGTERM)
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        raise ServerFailed(f"a server did not stop within {STOP_SECONDS:.0f} s") from None
    finally:
        if process.stdout is not None:
            process.stdout.close()
