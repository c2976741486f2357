"""A driver and what it started: the Java process, Python's daemon, the workers. From `/proc`."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.support.eventually import check_time

PATIENCE_S = 300.0
"""Spark takes seconds to start where nothing else runs, and minutes where much does."""


def wait_for(condition: Callable[[], object], what: str) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while not condition():
        check_time(deadline_s, f"{what} did not come within {PATIENCE_S:.0f} s")
        time.sleep(0.002)


@contextmanager
def killed_at_end(command: list[str], log_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A driver that is killed at the end of the block, if not before; all it started is gone then,
    too."""
    with log_path.open("ab") as log:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        yield process
    finally:
        started = descendants(process.pid)
        kill_hard(process.pid)
        process.wait()
        wait_for(lambda: not any(map(is_running, started)), "the end of what it started")


def descendants(pid: int) -> list[int]:
    """All processes below `pid`."""
    children: dict[int, list[int]] = {}
    for directory in Path("/proc").iterdir():
        if directory.name.isdecimal():
            with suppress(OSError, IndexError):
                parent = int((directory / "stat").read_text().rpartition(")")[2].split()[1])
                children.setdefault(parent, []).append(int(directory.name))
    found: list[int] = []
    waiting = [pid]
    while waiting:
        below = children.get(waiting.pop(), [])
        found += below
        waiting += below
    return found


def python_workers(driver: int) -> list[int]:
    """The processes that run tasks: what Python's daemon has forked."""
    daemons = [pid for pid in descendants(driver) if _is_daemon(pid)]
    return [pid for daemon in daemons for pid in descendants(daemon) if _is_daemon(pid)]


def is_running(pid: int) -> bool:
    """Not gone, and not a zombie that nobody has asked for its exit code."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def kill_hard(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def _is_daemon(pid: int) -> bool:
    with suppress(OSError):
        return b"pyspark.daemon" in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False
