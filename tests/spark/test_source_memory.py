"""A task's memory does not grow with the topic."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from tests.spark.topics import make_topic
from tests.support.node_process import RunningNode

from tidelog.spark.producing import TopicWriter
from tidelog.spark.sink_options import SinkOptions
from tidelog.wire.compression import Compression

pytestmark = pytest.mark.xdist_group("spark")

RECORD_BYTES = 10_000
SMALL, LARGE = 3_000, 30_000
"""30 MB and 300 MB."""

PLAN = """
import resource, sys
from tidelog.spark.options import SourceOptions, connect
from tidelog.spark.planner import plan_splits
from tidelog.spark.reader import read_split
from tidelog.spark.subscription import plan_batch
given = {"kafka.bootstrap.servers": sys.argv[1], "subscribe": sys.argv[2]}
options = SourceOptions.parse(given).for_batch()
with connect(options) as cluster:
    ranges, ids = plan_batch(cluster, options)
rows = 0
splits = plan_splits(ranges, topic_ids=ids)
"""
READ = """
for split in splits:
    for batch in read_split(options, split, options.read_columns):
        rows += batch.num_rows
"""
ARCHIVE = """
from tidelog.spark.jobs.archive_task import ArchiveTask, source_options
task = ArchiveTask(sys.argv[3], source_options(sys.argv[2], sys.argv[1]), 64 << 20)
for split in splits:
    rows += sum(file["rows"] for file in task(split)["files"])
"""
TELL = """
print(rows, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
"""


def peak_mb(node: RunningNode, topic: str, rows: int, work: str, directory: Path) -> int:
    command = [sys.executable, "-c", PLAN + work + TELL, node.bootstrap, topic, str(directory)]
    done = subprocess.run(command, capture_output=True, check=True)
    read, megabytes = done.stdout.split()
    assert int(read) == rows
    return int(megabytes)


@pytest.mark.parametrize("work", [READ, ARCHIVE], ids=["read", "archive"])
@pytest.mark.parametrize("codec", [Compression.NONE, Compression.ZSTD])
def test_ten_times_the_topic_takes_no_more_memory(
    spark_node: RunningNode, topic: str, tmp_path: Path, codec: Compression, work: str
) -> None:
    """Compressed, the large one comes in a single answer of a few kilobytes."""
    peaks = {}
    for rows in (SMALL, LARGE):
        name = f"{topic}-{rows}"
        make_topic(spark_node, name)
        part = pa.record_batch({"value": [bytes(RECORD_BYTES)] * 1000})
        chosen = SinkOptions(spark_node.bootstrap, topic=name, compression=codec)
        with TopicWriter(chosen) as writer:
            for _ in range(rows // 1000):
                writer.write(part)
        peaks[rows] = peak_mb(spark_node, name, rows, work, tmp_path / name)
    assert peaks[LARGE] < peaks[SMALL] + 60
