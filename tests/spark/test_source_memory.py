"""A task's memory does not grow with the topic."""

from __future__ import annotations

import subprocess
import sys

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

READ = """
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
for split in plan_splits(ranges, topic_ids=ids):
    for batch in read_split(options, split, options.read_columns):
        rows += batch.num_rows
print(rows, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
"""


def peak_mb(node: RunningNode, topic: str, rows: int) -> int:
    command = [sys.executable, "-c", READ, node.bootstrap, topic]
    done = subprocess.run(command, capture_output=True, check=True)
    read, megabytes = done.stdout.split()
    assert int(read) == rows
    return int(megabytes)


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.ZSTD])
def test_ten_times_the_topic_takes_no_more_memory(
    spark_node: RunningNode, topic: str, codec: Compression
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
        peaks[rows] = peak_mb(spark_node, name, rows)
    assert peaks[LARGE] < peaks[SMALL] + 60
