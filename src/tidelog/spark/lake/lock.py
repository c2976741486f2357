"""One driver at a time: a lock that a killed process cannot leave behind.

The kernel holds it for the process (`flock`), so kill -9 frees it. It spares a second driver its
work on the same machine or a file system that shares locks; elsewhere the commit itself refuses
whoever comes second (`archive_table.py`).
"""

from __future__ import annotations

import fcntl
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tidelog.spark.lake.errors import LakeInUse

_SAID_BYTES = 200


@contextmanager
def only_driver(table: Path, *, what: str = "archive") -> Iterator[None]:
    """While the block lasts, nobody else can enter one like it. `LakeInUse` if somebody has."""
    path = table / "_tidelog" / f"{what}.lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = os.pread(descriptor, _SAID_BYTES, 0).decode(errors="replace").strip()
            raise LakeInUse(
                f"{table} is being written by {owner or 'another process'}: "
                "one driver a lake; stop that one first"
            ) from None
        _sign(descriptor)
        yield
    finally:
        os.close(descriptor)


def _sign(descriptor: int) -> None:
    """For the message only: a full disk must not keep out who holds the lock."""
    with suppress(OSError):
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"process {os.getpid()} on {socket.gethostname()}\n".encode(), 0)
