"""kill -9 of a replay, driver and workers: every record once, in order."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.spark.lake_topics import admin_of, consumed, create_topic, numbered, produce
from tests.spark.process_tree import kill_hard, killed_at_end, python_workers, wait_for
from tests.support.node_process import RunningNode

pytestmark = pytest.mark.xdist_group("spark")

RECORDS = 60_000


DRIVER = """
import sys
from tidelog.spark.jobs.replay import ReplayOptions, replay
from tidelog.spark.sessions import session

replay(session("local[2]"), ReplayOptions("source", "target", sys.argv[1], turn_records=500))
"""


def replayed(bootstrap: str) -> int:
    """How many records the target has by now."""
    admin = admin_of(bootstrap)
    found = [each for each in admin.topics() if each.name == "target"]
    if not found:
        return 0
    return sum(span.records for span in admin.offsets(found[0].topic_partitions).values())


def wait_for_more(bootstrap: str) -> None:
    seen = replayed(bootstrap)
    wait_for(lambda: replayed(bootstrap) > seen, "more records in the target")


def test_a_replay_that_is_killed_goes_on_and_repeats_nothing(
    node: RunningNode, tmp_path: Path
) -> None:
    bootstrap = node.bootstrap
    create_topic(bootstrap, "source", partitions=3)
    produce(bootstrap, "source", numbered(0, RECORDS))
    command, log_path = [sys.executable, "-c", DRIVER, bootstrap], tmp_path / "driver.log"
    with killed_at_end(command, log_path) as process:
        wait_for_more(bootstrap)
        for worker in python_workers(process.pid):
            kill_hard(worker)
        wait_for_more(bootstrap)
    with killed_at_end(command, log_path):
        wait_for_more(bootstrap)
    assert replayed(bootstrap) < RECORDS, "it was killed too late to show anything"
    subprocess.run(command, capture_output=True, check=True)
    wanted = [(r.partition, r.key, r.value) for r in consumed(bootstrap, "source")]
    found = [(r.partition, r.key, r.value) for r in consumed(bootstrap, "target")]
    assert len(found) == RECORDS
    assert found == wanted
