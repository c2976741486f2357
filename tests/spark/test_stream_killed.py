"""kill -9 of the driver in the middle of a stream: nothing lost, nothing twice."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import IO

import pyarrow.parquet as pq
import pytest
from tests.spark import parquet_stream
from tests.spark.topics import make_topic, numbered, produce
from tests.support.eventually import check_time
from tests.support.node_process import RunningNode

pytestmark = pytest.mark.xdist_group("spark")

ROWS = 1_000
PATIENCE_S = 300.0
_NOT_IN_TIME = "Python worker failed to connect back"


def start_driver(
    node: RunningNode, topic: str, directory: Path, log: int
) -> subprocess.Popen[bytes]:
    """In a process group of its own, so that its Java process dies with it."""
    command = [sys.executable, parquet_stream.__file__, node.bootstrap, topic, str(directory)]
    return subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)


def kill(driver: subprocess.Popen[bytes]) -> None:
    if driver.poll() is None:
        os.killpg(driver.pid, signal.SIGKILL)
    driver.wait()


def committed_batches(directory: Path) -> int:
    return len(list((directory / "checkpoint" / "commits").glob("[0-9]*")))


def run_until(driver: subprocess.Popen[bytes], directory: Path, batches: int) -> None:
    """Or until it ends by itself. A starved machine takes minutes to start Spark."""
    deadline = time.monotonic() + PATIENCE_S
    while committed_batches(directory) < batches and driver.poll() is None:
        check_time(deadline, f"no batch {batches} within {PATIENCE_S:.0f} s")
        time.sleep(0.02)


def visible_rows(directory: Path) -> list[bytes]:
    """Of the files that Spark's own log lists: others are of batches that were never committed."""
    listed: dict[str, None] = {}
    for path in (directory / "rows" / "_spark_metadata").glob("[0-9]*"):
        for line in path.read_text().splitlines()[1:]:
            listed[json.loads(line)["path"].removeprefix("file://")] = None
    tables = [pq.read_table(path, columns=["value"]) for path in listed]
    return [value for table in tables for value in table.column("value").to_pylist()]


def check_starved(log: IO[bytes]) -> None:
    """The one reason for which a driver may end by itself: it is started again."""
    log.seek(0)
    said = log.read().decode(errors="replace")
    assert _NOT_IN_TIME in said, said[-3000:]


def test_a_killed_driver_loses_nothing_and_repeats_nothing(
    spark_node: RunningNode, topic: str, tmp_path: Path
) -> None:
    make_topic(spark_node, topic, partitions=2)
    produce(spark_node, topic, numbered(ROWS), partition=None)
    with tempfile.TemporaryFile() as log:
        for batches in (5, 10**6):
            while committed_batches(tmp_path) < batches:
                driver = start_driver(spark_node, topic, tmp_path, log.fileno())
                try:
                    run_until(driver, tmp_path, batches)
                finally:
                    has_ended = driver.poll() == 0
                    kill(driver)
                if has_ended:
                    break
                if committed_batches(tmp_path) < batches:
                    check_starved(log)
            assert has_ended is (batches == 10**6)
    values = visible_rows(tmp_path)
    assert len(values) == ROWS
    assert sorted(values) == sorted(numbered(ROWS))
