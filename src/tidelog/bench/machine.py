"""Facts of the machine that explain a figure to whoever reads it later."""

from __future__ import annotations

import mmap
import os
import platform
import tempfile
import time
from pathlib import Path

from tidelog.bench.figures import median
from tidelog.model.compiled import build

_CONGESTION_CONTROL = Path("/proc/sys/net/ipv4/tcp_congestion_control")
_POPULATE_WRITE = 23
"""`MADV_POPULATE_WRITE`, Linux 5.14; Python has no name for it yet."""

_TOUCH_CHUNK = 64 << 20
_FLUSH_PROBES = 50


def busy_warning(load_average: float, cores: int) -> str:
    """What to say of a machine that others use; nothing where it was ours."""
    if load_average <= cores / 4:
        return ""
    return "the machine was busy before the run: no wall-clock figure or verdict here is conclusive"


def facts(data_dir: Path) -> dict[str, str]:
    """Name and value, as printed below the table."""
    cores, load_average = os.cpu_count() or 1, os.getloadavg()[0]
    warning = busy_warning(load_average, cores)
    meminfo = Path("/proc/meminfo").read_text()
    return {
        **({"warning": warning} if warning else {}),
        "cores": str(cores),
        "cpu": parse_cpu_model(Path("/proc/cpuinfo").read_text()),
        "memory": f"{parse_meminfo_bytes(meminfo, 'MemTotal') / 1e9:.0f} GB",
        "kernel": platform.release(),
        "loopback congestion control": _CONGESTION_CONTROL.read_text().strip(),
        "python": f"{platform.python_version()}, tidelog {build()}",
        "load average at the start": f"{load_average:.2f}",
        "fdatasync of 4 KB, p50": f"{flush_seconds(data_dir) * 1e3:.2f} ms",
    }


def parse_meminfo_bytes(meminfo: str, field: str) -> int:
    """A field of the text of `/proc/meminfo`, in bytes."""
    for line in meminfo.splitlines():
        name, _, value = line.partition(":")
        if name == field:
            return int(value.split()[0]) * 1024
    raise ValueError(f"/proc/meminfo has no {field}")


def parse_cpu_model(cpuinfo: str) -> str:
    """The first core's model, from the text of `/proc/cpuinfo`; some machines do not say."""
    for line in cpuinfo.splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            return value.strip()
    return "unknown"


def flush_seconds(data_dir: Path) -> float:
    """The median of a small append made durable: the floor of every flushed acknowledgement."""
    seconds = []
    with tempfile.TemporaryFile(dir=data_dir) as file:
        for index in range(_FLUSH_PROBES):
            started_at = time.perf_counter()
            os.pwrite(file.fileno(), b"\0" * 4096, index * 4096)
            os.fdatasync(file.fileno())
            seconds.append(time.perf_counter() - started_at)
    return median(seconds)


def touch_memory(size: int) -> float:
    """Use `size` bytes of free memory once, give them back, and say how many seconds it took.

    A virtual machine gets its memory from the host page by page, and a guest that lets free pages
    go pays for them again: writing a gigabyte to fresh page cache has been seen to cost six times
    the CPU of writing it to pages in recent use. That is the host's figure and nobody else's, so
    every run, the reference's too, begins with pages just used.
    """
    available = parse_meminfo_bytes(Path("/proc/meminfo").read_text(), "MemAvailable")
    size = min(size, available // 2)
    started_at = time.monotonic()
    with mmap.mmap(-1, size) as memory:
        try:
            memory.madvise(_POPULATE_WRITE)
        except OSError:
            chunk = bytes(_TOUCH_CHUNK)
            for start in range(0, size, _TOUCH_CHUNK):
                memory[start : start + _TOUCH_CHUNK] = chunk[: size - start]
    return time.monotonic() - started_at
