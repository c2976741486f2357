"""A disk that can be filled and freed: a file system of its own where one may be mounted, and a
disk that claims to be full everywhere."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import pytest
from tests.endtoend.failing_disk import FailingDisk

_MOUNTED_BYTES = 12 * 1024 * 1024


class SmallDisk(Protocol):
    """`path` is where it can be written to, unless it is full."""

    path: Path

    def fill(self) -> None: ...

    def free(self) -> None: ...


class MountedDisk:
    """12 MB of memory as a file system."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._ballast = path / "ballast"

    def fill(self) -> None:
        """To the last page."""
        descriptor = os.open(self._ballast, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        try:
            for size in (1 << 16, 1 << 12):
                while _can_write(descriptor, bytes(size)):
                    pass
        finally:
            os.close(descriptor)

    def free(self) -> None:
        self._ballast.unlink()


class ClaimedDisk:
    """As large as any, until it says that it is full."""

    def __init__(self, path: Path, disk: FailingDisk) -> None:
        self.path = path
        self._disk = disk

    def fill(self) -> None:
        self._disk.set("full", True)

    def free(self) -> None:
        self._disk.set("full", False)


def _can_write(descriptor: int, data: bytes) -> bool:
    try:
        os.write(descriptor, data)
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        return False
    return True


@contextmanager
def mounted_disk(directory: Path) -> Iterator[MountedDisk | None]:
    """None where nothing may be mounted."""
    directory.mkdir()
    options = f"size={_MOUNTED_BYTES},mode=755"
    mount = ["mount", "-t", "tmpfs", "-o", options, "tidelog-test", str(directory)]
    try:
        is_mounted = subprocess.run(mount, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        is_mounted = False
    try:
        yield MountedDisk(directory) if is_mounted else None
    finally:
        if is_mounted:
            subprocess.run(["umount", "--lazy", str(directory)], check=True)


@contextmanager
def small_disk(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SmallDisk]:
    """`mounted`, or if that can't be, or by choice, `claimed`."""
    with mounted_disk(tmp_path / "mounted") as mounted:
        if mounted is not None and kind == "mounted":
            yield mounted
            return
        failing = FailingDisk(tmp_path / "failing")
        failing.plug_in(monkeypatch)
        path = tmp_path / "claimed"
        path.mkdir()
        yield ClaimedDisk(path, failing)
