"""What `/proc` says of a process: CPU seconds and memory."""

from __future__ import annotations

import os
from pathlib import Path

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")

_UTIME_AFTER_NAME = 11
"""`utime` is field 14 of `stat`; the name, field 2, may hold spaces, so fields are counted from its
closing bracket: field 3 is the first."""


def parse_cpu_seconds(stat: str, ticks_per_second: int) -> float:
    """User and system time of all threads, from the text of `/proc/PID/stat`."""
    fields = stat[stat.rindex(")") + 1 :].split()
    return (int(fields[_UTIME_AFTER_NAME]) + int(fields[_UTIME_AFTER_NAME + 1])) / ticks_per_second


def parse_status_bytes(status: str, field: str) -> int:
    """A memory field (`VmRSS`, `VmHWM`) of the text of `/proc/PID/status`, in bytes."""
    for line in status.splitlines():
        name, _, value = line.partition(":")
        if name == field:
            return int(value.split()[0]) * 1024
    raise ValueError(f"/proc status has no {field}")


def cpu_seconds(pid: int) -> float:
    """CPU seconds that the process has used so far; 0 if `pid` is 0 (a process not ours)."""
    if pid == 0:
        return 0.0
    return parse_cpu_seconds(Path(f"/proc/{pid}/stat").read_text(), TICKS_PER_SECOND)


def rss_bytes(pid: int) -> int:
    return parse_status_bytes(Path(f"/proc/{pid}/status").read_text(), "VmRSS")


def peak_rss_bytes(pid: int) -> int:
    return parse_status_bytes(Path(f"/proc/{pid}/status").read_text(), "VmHWM")
