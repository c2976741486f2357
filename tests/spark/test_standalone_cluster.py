"""The same commands on a real Spark cluster: a master and two workers, each a process of its own.

They come from the pyspark package. Each worker has one core, so that a job of two partitions at
once needs both.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pyarrow as pa
import pyspark
import pytest
from deltalake import DeltaTable
from tests.spark.lake_topics import consumed, create_topic, numbered, produce
from tests.spark.process_tree import wait_for
from tests.support.node_process import RunningNode

from tidelog.client import Admin, Connection, Producer

pytestmark = pytest.mark.xdist_group("spark")

SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"
MASTER = re.compile(r"Starting Spark master at (spark://\S+)")
REGISTERED = "Successfully registered with master"
RECORDS = 3000


class Daemon:
    """A master or a worker; its log is a file."""

    def __init__(self, name: str, *arguments: str, directory: Path) -> None:
        self.log_path = directory / f"{name}.log"
        with self.log_path.open("wb") as log:
            self.process = subprocess.Popen(
                [str(SPARK_CLASS), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=directory,
                env={**os.environ, "SPARK_WORKER_DIR": str(directory / name), **SETTINGS},
            )

    def says(self, pattern: str) -> re.Match[str]:
        """Wait until its log has that."""
        found: list[re.Match[str]] = []

        def is_said() -> bool:
            match = re.search(pattern, self.log_path.read_text(errors="replace"))
            found.extend([match] if match else [])
            return bool(found)

        wait_for(is_said, f"{pattern!r} in {self.log_path.name}")
        return found[0]

    def __enter__(self) -> Daemon:
        return self

    def __exit__(self, *_reason: object) -> None:
        self.process.terminate()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


SETTINGS = {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_DAEMON_MEMORY": "256m"}


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a master that two workers have joined."""
    directory = tmp_path_factory.mktemp("cluster")
    quiet = ("--host", "127.0.0.1", "--webui-port", "0")
    package = "org.apache.spark.deploy"
    with ExitStack() as stack:
        head = stack.enter_context(
            Daemon("master", f"{package}.master.Master", *quiet, "--port", "0", directory=directory)
        )
        address = head.says(MASTER.pattern)[1]
        workers = [
            stack.enter_context(
                Daemon(
                    f"worker-{number}",
                    *(f"{package}.worker.Worker", *quiet, "--cores", "1", "--memory", "700m"),
                    address,
                    directory=directory,
                )
            )
            for number in (1, 2)
        ]
        for worker in workers:
            worker.says(REGISTERED)
        yield address


def test_a_job_given_the_master_runs_on_both_workers(
    master: str, spark_node: RunningNode, topic: str, tmp_path: Path
) -> None:
    connection = Connection(spark_node.bootstrap)
    Admin(connection).create_topic("on_a_cluster", partitions=4)
    with Producer(connection) as producer:
        for number in range(RECORDS):
            producer.send("on_a_cluster", json.dumps({"order": number}), key=str(number))
    query = (
        "select count(*) n, sum(`order`) total, count(distinct `order`) orders from on_a_cluster"
    )
    settings = {
        "spark.executor.memory": "512m",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": tmp_path.as_uri(),
        "spark.eventLog.compress": "false",
        "spark.eventLog.rolling.enabled": "false",
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",
        "spark.scheduler.maxRegisteredResourcesWaitingTime": "120s",
    }
    conf = [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
    done = subprocess.run(
        [
            *(sys.executable, "-m", "tidelog", "spark", "sql", query, "--json"),
            *("--master", master, "--bootstrap", spark_node.bootstrap),
            *conf,
        ],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [
        {"n": RECORDS, "total": sum(range(RECORDS)), "orders": RECORDS}
    ]
    assert executors_that_worked(tmp_path) == {"0", "1"}


def executors_that_worked(directory: Path) -> set[str]:
    """Who ran a task, by Spark's own record of the job."""
    found = set()
    for path in directory.iterdir():
        for line in path.read_text().splitlines():
            event = json.loads(line)
            if event["Event"] == "SparkListenerTaskEnd":
                found.add(event["Task Info"]["Executor ID"])
    return found


def test_the_archive_is_written_by_both_workers(
    master: str, spark_node: RunningNode, topic: str, tmp_path: Path
) -> None:
    events, lake = tmp_path / "events", tmp_path / "lake"
    events.mkdir()
    create_topic(spark_node.bootstrap, topic, partitions=4)
    produce(spark_node.bootstrap, topic, numbered(0, RECORDS, partitions=4))
    settings = {
        "spark.executor.memory": "512m",
        "spark.driver.host": "127.0.0.1",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": events.as_uri(),
        "spark.eventLog.compress": "false",
        "spark.eventLog.rolling.enabled": "false",
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",
        "spark.scheduler.maxRegisteredResourcesWaitingTime": "120s",
    }
    conf = [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
    done = subprocess.run(
        [
            *(sys.executable, "-m", "tidelog", "spark", "archive", topic, "--to", str(lake)),
            *("--master", master, "--bootstrap", spark_node.bootstrap, "--json", *conf),
        ],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    rows = DeltaTable(str(lake / topic)).scan(columns=["partition", "offset"]).read_all()
    found = sorted((row["partition"], row["offset"]) for row in pa.table(rows).to_pylist())
    assert found == [
        (each.partition, each.offset) for each in consumed(spark_node.bootstrap, topic)
    ]
    assert executors_that_worked(events) == {"0", "1"}
