"""The latest value of each key: what a consumer would remember, whatever the batches were."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.spark.lake_topics import Sent, consumed, create_topic, numbered, produce
from tests.support.node_process import RunningNode

from tidelog.spark.jobs.follower import BatchDone, Listener
from tidelog.spark.jobs.optimize import optimize
from tidelog.spark.jobs.table import TableOptions, latest_values
from tidelog.spark.lake.errors import LakeError
from tidelog.spark.lake.latest_table import open_latest
from tidelog.spark.lake.rows import latest_rows

pytestmark = pytest.mark.xdist_group("spark")


def update(spark: SparkSession, options: TableOptions) -> list[BatchDone]:
    done: list[BatchDone] = []
    with latest_values(spark, options, Listener(on_batch=done.append)) as job:
        job.catch_up()
    return done


def in_table(spark: SparkSession, options: TableOptions) -> dict[bytes, tuple[int, int, bytes]]:
    rows = latest_rows(spark, open_latest(options.table)).collect()
    found = {
        bytes(row["key"]): (row["partition"], row["offset"], bytes(row["value"])) for row in rows
    }
    assert len(found) == len(rows)
    return found


def remembered(options: TableOptions) -> dict[bytes, tuple[int, int, bytes]]:
    found: dict[bytes, tuple[int, int, bytes]] = {}
    for record in consumed(options.bootstrap, options.topic):
        if record.key is None:
            continue
        found.pop(record.key, None)
        if record.value is not None:
            found[record.key] = (record.partition, record.offset, record.value)
    return found


@pytest.fixture
def options(spark_node: RunningNode, topic: str, tmp_path: Path) -> TableOptions:
    create_topic(spark_node.bootstrap, topic, partitions=2)
    return TableOptions(topic, tmp_path / "latest", spark_node.bootstrap, batch_records=150)


def keyed(first: int, count: int) -> list[Sent]:
    """A key stays in its partition, as a partitioner would have it."""
    records = enumerate(numbered(first, count), first)
    return [each._replace(partition=number % 50 % 2) for number, each in records]


def test_the_table_follows_updates_and_tombstones(
    spark: SparkSession, options: TableOptions
) -> None:
    produce(options.bootstrap, options.topic, keyed(0, 400))
    produce(options.bootstrap, options.topic, [Sent(None, b"without a key"), Sent(b"", b"empty")])
    assert len(update(spark, options)) == 3
    first = in_table(spark, options)
    assert first == remembered(options)
    assert len(first) == 51
    deleted = [Sent(b"key-2", None), Sent(b"key-4", None), Sent(b"unknown", None)]
    produce(options.bootstrap, options.topic, [*deleted, Sent(b"key-4", b"back"), *keyed(401, 10)])
    moved = Sent(b"key-6", b"moved", partition=1, timestamp_ms=1_700_000_009_000)
    produce(options.bootstrap, options.topic, [moved])
    update(spark, options)
    assert in_table(spark, options) == remembered(options)
    assert update(spark, options) == []


def test_a_batch_that_changes_no_row_is_still_done_only_once(
    spark: SparkSession, options: TableOptions
) -> None:
    produce(options.bootstrap, options.topic, [Sent(b"a", b"1"), Sent(b"b", b"2")])
    update(spark, options)
    produce(options.bootstrap, options.topic, [Sent(b"nobody", None)])
    (batch,) = update(spark, options)
    assert batch.cuts == {0: 3}
    assert update(spark, options) == []
    optimize(spark, options.table, keep_hours=0)
    assert in_table(spark, options) == remembered(options)


def test_an_archive_is_not_taken_for_a_table(spark: SparkSession, options: TableOptions) -> None:
    from tidelog.spark.lake.archive_table import create_archive

    create_archive(options.table, topic=options.topic, topic_id="")
    with pytest.raises(LakeError, match="is the archive of topic"):
        update(spark, options)
