"""What `/proc` says, read from text and from this process."""

from __future__ import annotations

import os

import pytest

from tidelog.bench.machine import busy_warning, parse_cpu_model, parse_meminfo_bytes
from tidelog.bench.proc import (
    cpu_seconds,
    parse_cpu_seconds,
    parse_status_bytes,
    peak_rss_bytes,
    rss_bytes,
)

STAT = "42 (a (b) c) S 1 42 42 0 -1 4194304 100 0 0 0 250 50 7 8 20 0 1 0 1000 1 1 1 1"


def test_cpu_seconds_are_user_and_system_time_whatever_the_process_is_called() -> None:
    assert parse_cpu_seconds(STAT, ticks_per_second=100) == pytest.approx(3.0)


def test_memory_is_read_from_the_named_field() -> None:
    status = "Name:\tx\nVmHWM:\t    2048 kB\nVmRSS:\t    1024 kB\n"
    assert parse_status_bytes(status, "VmRSS") == 1024 * 1024
    assert parse_status_bytes(status, "VmHWM") == 2048 * 1024


def test_a_field_that_is_not_there_is_an_error() -> None:
    with pytest.raises(ValueError, match="VmSwap"):
        parse_status_bytes("Name:\tx\n", "VmSwap")
    with pytest.raises(ValueError, match="MemFree"):
        parse_meminfo_bytes("MemTotal: 1 kB\n", "MemFree")


def test_this_very_process_can_be_read() -> None:
    assert cpu_seconds(os.getpid()) > 0
    assert peak_rss_bytes(os.getpid()) >= rss_bytes(os.getpid()) > 1_000_000


def test_a_process_not_ours_costs_nothing() -> None:
    assert cpu_seconds(0) == 0.0


def test_a_machine_may_not_say_its_model() -> None:
    assert parse_cpu_model("processor\t: 0\nmodel name\t: Fast 3000\n") == "Fast 3000"
    assert parse_cpu_model("processor\t: 0\n") == "unknown"


def test_a_busy_machine_is_said_to_prove_nothing() -> None:
    assert busy_warning(0.3, cores=2) == ""
    assert "busy" in busy_warning(2.0, cores=2)
