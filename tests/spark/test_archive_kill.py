"""kill -9 of drivers and workers, at the worst moments: nothing lost, nothing there twice."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from contextlib import AbstractContextManager
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from tests.spark.lake_topics import Sent, consumed, create_topic, produce
from tests.spark.process_tree import kill_hard, killed_at_end, python_workers, wait_for
from tests.support.node_process import RunningNode

pytestmark = pytest.mark.xdist_group("spark")

TOPIC = "orders"
PARTITIONS = 3
BATCH_RECORDS = 3000


class Killed:
    """A lake, filled by drivers that are killed."""

    def __init__(self, bootstrap: str, directory: Path) -> None:
        self._bootstrap = bootstrap
        self._directory = directory
        self._produced = 0
        self.table = directory / "lake" / TOPIC

    def produce(self, count: int) -> None:
        numbers = range(self._produced, self._produced + count)
        values = (f"{number:012d}".encode() * 60 for number in numbers)
        records = [
            Sent(str(number).encode(), value, number % PARTITIONS)
            for number, value in zip(numbers, values, strict=True)
        ]
        produce(self._bootstrap, TOPIC, records)
        self._produced += count

    def command(self, *more: str) -> list[str]:
        lake = str(self._directory / "lake")
        limits = ["--batch-records", str(BATCH_RECORDS), "--master", "local[2]"]
        archive = ["spark", "archive", TOPIC, "--to", lake, "--bootstrap", self._bootstrap]
        return [sys.executable, "-m", "tidelog", *archive, *limits, *more]

    def driver(self) -> AbstractContextManager[subprocess.Popen[bytes]]:
        return killed_at_end(self.command("--every", "1s"), self._directory / "driver.log")

    def versions(self) -> int:
        return len(list(self.table.glob("_delta_log/*.json")))

    def is_writing(self) -> bool:
        """A task is in the middle of a file."""
        return any(self.table.glob("_tidelog/unfinished/*.parquet"))

    def has_uncommitted(self) -> bool:
        """A task is done with a file that no commit shows yet."""
        on_disk = {path.name for path in self.table.glob("partition=*/*.parquet")}
        return len(on_disk) > self._visible_files()

    def _visible_files(self) -> int:
        return len(DeltaTable(str(self.table)).file_uris())

    def places(self) -> list[tuple[int, int, bytes]]:
        columns = ["partition", "offset", "value"]
        rows = pa.table(DeltaTable(str(self.table)).scan(columns=columns).read_all()).to_pylist()
        return sorted((row["partition"], row["offset"], row["value"]) for row in rows)


def test_nothing_is_lost_or_doubled_when_drivers_and_workers_are_killed(
    node: RunningNode, tmp_path: Path
) -> None:
    create_topic(node.bootstrap, TOPIC, partitions=PARTITIONS)
    killed = Killed(node.bootstrap, tmp_path)
    killed.produce(60_000)
    with killed.driver() as driver:
        wait_for(lambda: killed.versions() > 2, "the first commits")
        wait_for(killed.is_writing, "a task at work")
        workers = python_workers(driver.pid)
        assert workers
        for worker in workers:
            kill_hard(worker)
        seen = killed.versions()
        wait_for(lambda: killed.versions() > seen + 1, "commits after workers were killed")
        assert driver.poll() is None
        wait_for(killed.is_writing, "a task at work")
    killed.produce(20_000)
    with killed.driver():
        seen = killed.versions()
        wait_for(lambda: killed.versions() > seen, "a commit of the second driver")
        wait_for(killed.has_uncommitted, "a file without a commit")
    with killed.driver():
        seen = killed.versions()
        wait_for(lambda: killed.versions() > seen, "a commit of the third driver")
    killed.produce(5_000)
    last = subprocess.run(killed.command("--json"), capture_output=True, check=False)
    assert last.returncode == 0, last.stderr.decode()
    summary = json.loads(last.stdout.splitlines()[-1])
    assert summary["lag"] == 0
    _expect_the_same(killed, node.bootstrap)


def _expect_the_same(killed: Killed, bootstrap: str) -> None:
    wanted = [(each.partition, each.offset, each.value) for each in consumed(bootstrap, TOPIC)]
    found = killed.places()
    twice = [place for place, count in Counter(found).items() if count > 1]
    lost = set(wanted) - set(found)
    assert (len(twice), len(lost)) == (0, 0)
    assert len(wanted) == 85_000
    assert found == sorted(wanted)
