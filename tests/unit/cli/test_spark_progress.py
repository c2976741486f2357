"""Times on the command line, and how a long job reports and ends."""

from __future__ import annotations

import json
import os
import signal
import threading
from datetime import UTC, datetime
from pathlib import Path

import pytest
import typer

from tidelog.cli.spark_progress import (
    FollowReport,
    ending_with_signals,
    hours,
    moment_us,
    seconds,
)
from tidelog.spark.jobs.follower import BatchDone, Moved


def test_durations_have_a_unit() -> None:
    assert seconds("60s", option="--every") == 60
    assert seconds("5m", option="--every") == 300
    assert seconds(None, option="--every") is None
    assert (hours("7d", option="--keep"), hours("90m", option="--keep")) == (168, 2)
    with pytest.raises(typer.BadParameter, match="must be a time as 60s"):
        seconds("60", option="--every")


def test_a_moment_is_a_date_and_never_so_long_ago() -> None:
    moment = datetime(2026, 1, 31, 12, tzinfo=UTC)
    wanted = int(moment.timestamp() * 1_000_000)
    assert moment_us("2026-01-31T12:00+00:00", option="--from") == wanted
    assert moment_us(None, option="--from") is None
    with pytest.raises(typer.BadParameter, match="must be a time as 2026-01-31"):
        moment_us("2h", option="--from")


def test_a_report_for_programs_is_a_line_a_batch_and_one_at_the_end(
    capsys: pytest.CaptureFixture[str],
) -> None:
    report = FollowReport("orders", Path("lake/orders"), verb="archived", as_json=True)
    moved = Moved(rows=5, data_bytes=2_000_000, file_bytes=100, files=2)
    report.on_batch(BatchDone(7, moved, seconds=2.0, lag=9, cuts={1: 5, 0: 3}))
    report.summarize()
    batch, summary = map(json.loads, capsys.readouterr().out.splitlines())
    assert batch == {"batch": 7, "rows": 5, "megabytes_per_second": 1.0, "lag": 9}
    assert (summary["done"], summary["rows"], summary["lag"]) == (True, 5, 9)
    assert summary["next_offsets"] == {"0": 3, "1": 5}


def test_the_first_signal_asks_and_the_second_ends() -> None:
    stop = threading.Event()
    with pytest.raises(KeyboardInterrupt), ending_with_signals(stop):
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop.wait(60)
        os.kill(os.getpid(), signal.SIGTERM)
        threading.Event().wait(60)
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
