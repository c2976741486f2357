"""Back into a topic: the same records in the same order, once, also when it is started twice."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.spark.lake_topics import (
    Record,
    Sent,
    admin_of,
    consumed,
    create_topic,
    numbered,
    produce,
)
from tests.support.node_process import RunningNode

from tidelog.model.ids import TopicPartition
from tidelog.spark.errors import OptionError
from tidelog.spark.jobs.archive import ArchiveOptions, archive
from tidelog.spark.jobs.replay import ReplayOptions, TurnDone, replay
from tidelog.spark.jobs.replay_source import Period
from tidelog.spark.jobs.replay_task import Position, ReplayTask
from tidelog.spark.lake.errors import LakeError, LostRecords

pytestmark = pytest.mark.xdist_group("spark")

START_MS = 1_700_000_000_000


@pytest.fixture
def orders(spark_node: RunningNode, topic: str) -> str:
    """A topic of 300 records, some with headers, one without key and value."""
    create_topic(spark_node.bootstrap, topic, partitions=3)
    with_headers = Sent(b"k", b"v", 1, START_MS + 5, headers=(("a", b"1"), ("a", None)))
    records = [Sent(None, None, 2, START_MS + 9), with_headers, *numbered(0, 298)]
    produce(spark_node.bootstrap, topic, records)
    return topic


def in_order(records: list[Record]) -> list[tuple[object, ...]]:
    """What a replay keeps: all but the offset itself."""
    return [(r.partition, r.key, r.value, r.timestamp_ms, r.headers) for r in sorted(records)]


def test_a_lake_is_replayed_once_however_often_it_is_started(
    spark: SparkSession, spark_node: RunningNode, orders: str, tmp_path: Path
) -> None:
    bootstrap = spark_node.bootstrap
    with archive(spark, ArchiveOptions(orders, tmp_path, bootstrap)) as job:
        job.catch_up()
    options = ReplayOptions(tmp_path / orders, f"{orders}.v2", bootstrap, turn_records=70)
    turns: list[TurnDone] = []
    assert replay(spark, options, on_turn=turns.append) == 300
    assert len(turns) == 2
    assert in_order(consumed(bootstrap, options.topic)) == in_order(consumed(bootstrap, orders))
    assert replay(spark, options) == 0
    produce(bootstrap, orders, numbered(300, 60))
    with archive(spark, ArchiveOptions(orders, tmp_path, bootstrap)) as job:
        job.catch_up()
    assert replay(spark, options) == 60
    assert in_order(consumed(bootstrap, options.topic)) == in_order(consumed(bootstrap, orders))


def test_a_period_of_a_log_goes_on_where_it_was_cut_off(
    spark: SparkSession, spark_node: RunningNode, orders: str
) -> None:
    bootstrap = spark_node.bootstrap
    period = Period((START_MS + 100) * 1000, (START_MS + 200) * 1000)
    options = ReplayOptions(orders, f"{orders}.part", bootstrap, period=period, turn_records=10)

    def cut_off(done: TurnDone) -> None:
        raise InterruptedError

    with pytest.raises(InterruptedError):
        replay(spark, options, on_turn=cut_off)
    assert len(consumed(bootstrap, options.topic)) == 30
    assert replay(spark, options) == 70
    assert replay(spark, options) == 0
    wanted = [
        record
        for record in consumed(bootstrap, orders)
        if START_MS + 100 <= record.timestamp_ms < START_MS + 200
    ]
    assert in_order(consumed(bootstrap, options.topic)) == in_order(wanted)


def test_a_second_writer_of_the_target_is_noticed(
    spark: SparkSession, spark_node: RunningNode, orders: str
) -> None:
    bootstrap = spark_node.bootstrap
    options = ReplayOptions(orders, f"{orders}.shared", bootstrap)
    replay(spark, options)
    produce(bootstrap, options.topic, [Sent(b"x", b"somebody else's")])
    with pytest.raises(LakeError, match="1 records more than were replayed"):
        replay(spark, options)


def test_a_log_that_lost_records_a_replay_has_to_count_is_refused(
    spark: SparkSession, spark_node: RunningNode, orders: str
) -> None:
    bootstrap = spark_node.bootstrap
    options = ReplayOptions(orders, f"{orders}.lost", bootstrap)
    replay(spark, options)
    admin_of(bootstrap).delete_records({TopicPartition(orders, 1): 20})
    with pytest.raises(LostRecords, match="has deleted records since this replay began"):
        replay(spark, options)


def test_what_can_not_be_replayed_is_said_in_one_line(
    spark: SparkSession, spark_node: RunningNode, orders: str
) -> None:
    bootstrap = spark_node.bootstrap
    with pytest.raises(OptionError, match="can't be replayed into itself"):
        replay(spark, ReplayOptions(orders, orders, bootstrap))
    create_topic(bootstrap, f"{orders}.narrow", partitions=2)
    with pytest.raises(OptionError, match="has 2 partitions, the source has 3"):
        replay(spark, ReplayOptions(orders, f"{orders}.narrow", bootstrap))


def test_a_task_that_is_run_again_writes_only_what_is_missing(
    spark_node: RunningNode, orders: str
) -> None:
    """As Spark does when an executor is lost: here without Spark."""
    from tidelog.spark.jobs.replay import _source
    from tidelog.spark.sink_options import SinkOptions

    bootstrap, target = spark_node.bootstrap, f"{orders}.again"
    create_topic(bootstrap, target, partitions=3)
    source, _identity = _source(ReplayOptions(orders, target, bootstrap))
    sink = SinkOptions(bootstrap, topic=target)
    ReplayTask(source, sink, 40)(Position(0, 0))
    answer = ReplayTask(source, sink, 1000)(Position(0, 0))
    assert answer["records"] == answer["count"] - 40
    assert answer["is_end"]
    wanted = [record for record in consumed(bootstrap, orders) if record.partition == 0]
    assert in_order(consumed(bootstrap, target)) == in_order(wanted)
