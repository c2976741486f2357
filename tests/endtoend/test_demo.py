"""The demo tells a true story: it adds up what it finds, and ends with 0 only if all is right."""

from __future__ import annotations

import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest
from tests.support.command_line import CommandLine

from tidelog.cli.demo_orders import Sent, first_orders, further_orders


def test_the_log_part_comes_through_a_kill(tidelog: CommandLine) -> None:
    told = tidelog("demo", "log", "--orders", "2000")
    assert told.code == 0
    assert "kill -9" in told.output
    assert "2,000 orders in, the same out: none lost, none twice" in told.output


def test_the_cluster_part_loses_its_leader_and_no_order(tidelog: CommandLine) -> None:
    told = tidelog("demo", "cluster")
    assert told.code == 0, told.errors
    assert "kill -9 of node" in told.output
    assert "0 lost, 0 doubled" in told.output


@pytest.mark.xdist_group("spark")
def test_the_pipeline_part_counts_every_order_once(tmp_path: Path) -> None:
    chart = tmp_path / "chart.png"
    done = subprocess.run(
        [sys.executable, "-m", "tidelog", "demo", "pipeline", "--chart", str(chart)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Every order counted once" in done.stdout
    assert chart.read_bytes().startswith(b"\x89PNG")
    assert [path.name for path in tmp_path.iterdir()] == ["chart.png"]


def test_the_sample_orders_are_the_same_at_every_run() -> None:
    one, other = Sent(), Sent()
    assert first_orders(1000, one) == first_orders(1000, other)
    assert one == other


def test_what_is_expected_of_the_orders_adds_up() -> None:
    sent = Sent()
    records = first_orders(1000, sent)
    assert (len(sent.good), sent.twice, sent.late, sent.broken) == (990, 10, 20, 10)
    assert len(records) == sent.records == 1010
    assert len({order.number for order in sent.good}) == 990
    assert sent.orders_by_city().total() == 990
    closed = sent.closed_minutes(timedelta(hours=1))
    assert 0 < closed.total() < sent.cents_by_city().total()
    assert sent.closed_minutes(timedelta(hours=3)).total() == 0
    further = further_orders(50, sent)
    assert len({order.number for order in sent.good}) == 1040
    assert len(further) == 50
