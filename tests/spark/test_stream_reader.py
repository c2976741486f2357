"""What a stream's reader answers Spark, asked directly: a real node, no JVM."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows
from tests.spark.topics import make_topic, numbered, options, produce
from tests.support.command_line import CommandLine
from tests.support.eventually import attempts
from tests.support.node_process import RunningNode

from tidelog.client import Consumer
from tidelog.model.ids import TopicPartition
from tidelog.spark.cluster import Cluster
from tidelog.spark.errors import DataLoss
from tidelog.spark.options import SourceOptions
from tidelog.spark.source import SplitPartition
from tidelog.spark.stream import TidelogStreamReader

pytestmark = pytest.mark.xdist_group("spark")

ALL = ReadAllAvailable()


def reader(node: RunningNode, topic: str, **more: str) -> TidelogStreamReader:
    parsed = SourceOptions.parse(options(node, topic, **more)).for_stream()
    return TidelogStreamReader(parsed, parsed.read_columns)


def next_offsets(document: dict[str, Any], topic: str) -> dict[str, int]:
    found: dict[str, int] = document[topic]["next"]
    return found


def read_between(
    stream: TidelogStreamReader, start: dict[str, Any], end: dict[str, Any]
) -> list[bytes]:
    return [
        value
        for partition in stream.partitions(start, end)
        for batch in stream.read(partition)
        for value in batch.column("value").to_pylist()
    ]


def test_a_stream_begins_at_the_latest_offset_unless_told_otherwise(
    spark_node: RunningNode, topic: str
) -> None:
    make_topic(spark_node, topic, partitions=2)
    produce(spark_node, topic, numbered(5))
    assert next_offsets(reader(spark_node, topic).initialOffset(), topic) == {"0": 5, "1": 0}
    earliest = reader(spark_node, topic, startingOffsets="earliest")
    assert next_offsets(earliest.initialOffset(), topic) == {"0": 0, "1": 0}
    given = json.dumps({topic: {"0": 3, "1": -1}})
    told = reader(spark_node, topic, startingOffsets=given)
    assert next_offsets(told.initialOffset(), topic) == {"0": 3, "1": 0}


def test_limits_hold_and_the_group_follows(
    spark_node: RunningNode, topic: str, tidelog: CommandLine
) -> None:
    make_topic(spark_node, topic)
    produce(spark_node, topic, numbered(25))
    group = f"{topic}-group"
    stream = reader(
        spark_node,
        topic,
        startingOffsets="earliest",
        maxOffsetsPerTrigger="10",
        kafka_group_id=group,
    )
    limit = stream.getDefaultReadLimit()
    assert limit == ReadMaxRows(10)
    position, seen = stream.initialOffset(), []
    while (end := stream.latestOffset(position, limit)) != position:
        seen.append(read_between(stream, position, end))
        position = end
    assert [len(each) for each in seen] == [10, 10, 5]
    assert [value for each in seen for value in each] == numbered(25)
    assert stream.reportLatestOffset() == position
    place = TopicPartition(topic, 0)
    with Cluster(spark_node.bootstrap) as cluster:
        assert cluster.committed(group, [place]) == {place: 25}
    produce(spark_node, topic, numbered(4))
    shown = tidelog("group", "describe", group, "--json", "--bootstrap", spark_node.bootstrap)
    assert shown.code == 0
    assert '"lag": 4' in shown.output
    stream.stop()


def test_too_few_records_wait_for_more(spark_node: RunningNode, topic: str) -> None:
    make_topic(spark_node, topic)
    stream = reader(
        spark_node,
        topic,
        startingOffsets="earliest",
        minOffsetsPerTrigger="10",
        maxTriggerDelay="1d",
    )
    produce(spark_node, topic, numbered(3))
    # The first batch waits for nothing, as with Spark's Kafka source.
    start = stream.latestOffset(stream.initialOffset(), ALL)
    assert next_offsets(start, topic) == {"0": 3}
    produce(spark_node, topic, numbered(9))
    assert stream.latestOffset(start, ALL) is start
    produce(spark_node, topic, numbered(1))
    assert next_offsets(stream.latestOffset(start, ALL), topic) == {"0": 13}
    # A query that ends with what is there must not wait.
    ending = reader(spark_node, topic, minOffsetsPerTrigger="1000", maxTriggerDelay="1d")
    ending.prepareForTriggerAvailableNow()
    produce(spark_node, topic, numbered(50))
    assert next_offsets(ending.latestOffset(start, ALL), topic) == {"0": 13}


def test_an_added_partition_is_read_from_its_beginning(spark_node: RunningNode, topic: str) -> None:
    admin = make_topic(spark_node, topic)
    produce(spark_node, topic, numbered(3))
    stream = reader(spark_node, topic)
    start = stream.initialOffset()
    admin.add_partitions(topic, total=3)
    produce(spark_node, topic, numbered(2, start=3))
    produce(spark_node, topic, numbered(4, start=100), partition=2)
    end = stream.latestOffset(start, ALL)
    assert next_offsets(end, topic) == {"0": 5, "1": 0, "2": 4}
    expected = [*numbered(2, start=3), *numbered(4, start=100)]
    assert read_between(stream, start, end) == expected
    # After a crash another reader is asked for the same batch, and nothing has moved.
    produce(spark_node, topic, numbered(9), partition=2)
    assert read_between(reader(spark_node, topic), start, end) == expected


def test_a_pattern_finds_topics_that_come_later(spark_node: RunningNode, topic: str) -> None:
    make_topic(spark_node, f"{topic}-one")
    given = options(spark_node, topic) | {"subscribePattern": f"{topic}-.*"}
    del given["subscribe"]
    parsed = SourceOptions.parse(given).for_stream()
    stream = TidelogStreamReader(parsed, parsed.read_columns)
    start = stream.initialOffset()
    make_topic(spark_node, f"{topic}-two")
    produce(spark_node, f"{topic}-two", numbered(2))
    end = stream.latestOffset(start, ALL)
    assert read_between(stream, start, end) == numbered(2)


def test_retention_overtaking_a_stream_is_loss_with_the_exact_range(
    spark_node: RunningNode, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    admin = make_topic(spark_node, topic)
    produce(spark_node, topic, numbered(10))
    stream = reader(spark_node, topic, startingOffsets="earliest")
    start = stream.initialOffset()
    end = stream.latestOffset(start, ALL)
    admin.delete_records({TopicPartition(topic, 0): 6})
    with pytest.raises(DataLoss, match=rf"offsets 0 to 5 of {topic}-0: retention or a deletion"):
        stream.partitions(start, end)
    allowed = reader(spark_node, topic, startingOffsets="earliest", failOnDataLoss="false")
    with caplog.at_level(logging.WARNING):
        assert read_between(allowed, start, end) == numbered(4, start=6)
    assert f"offsets 0 to 5 of {topic}-0" in caplog.text


def test_a_topic_created_again_is_loss_and_then_a_new_beginning(
    spark_node: RunningNode, topic: str
) -> None:
    admin = make_topic(spark_node, topic)
    produce(spark_node, topic, numbered(10))
    stream = reader(spark_node, topic)
    start = stream.initialOffset()
    admin.delete_topic(topic)
    with pytest.raises(DataLoss, match=rf"all from offset 10 on of {topic}-0: the topic was del"):
        stream.latestOffset(start, ALL)
    make_topic(spark_node, topic)
    produce(spark_node, topic, numbered(20, start=50))
    with pytest.raises(DataLoss, match="the topic was deleted and created again"):
        stream.latestOffset(start, ALL)
    allowed = reader(spark_node, topic, failOnDataLoss="false")
    end = allowed.latestOffset(start, ALL)
    assert read_between(allowed, start, end) == numbered(20, start=50)


def test_a_planned_batch_of_a_topic_created_again_is_loss(
    spark_node: RunningNode, topic: str
) -> None:
    admin = make_topic(spark_node, topic)
    stream = reader(spark_node, topic)
    start = stream.initialOffset()
    produce(spark_node, topic, numbered(5))
    end = stream.latestOffset(start, ALL)
    admin.delete_topic(topic)
    make_topic(spark_node, topic)
    produce(spark_node, topic, numbered(9))
    words = rf"offsets 0 to 4 of {topic}-0: the topic was deleted and created again"
    with pytest.raises(DataLoss, match=words):
        stream.partitions(start, end)
    allowed = reader(spark_node, topic, failOnDataLoss="false")
    assert allowed.partitions(start, end) == []


def test_splits_of_a_stream_follow_the_limits(spark_node: RunningNode, topic: str) -> None:
    make_topic(spark_node, topic)
    stream = reader(spark_node, topic, maxRecordsPerPartition="4", minPartitions="2")
    start = stream.initialOffset()
    assert stream.partitions(start, start) == []
    produce(spark_node, topic, numbered(10))
    partitions = stream.partitions(start, stream.latestOffset(start, ALL))
    sizes = [each.split.offsets.count for each in partitions if isinstance(each, SplitPartition)]
    assert sizes == [4, 3, 3]


def test_a_group_that_has_members_refuses_and_the_stream_goes_on(
    spark_node: RunningNode, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    make_topic(spark_node, topic)
    produce(spark_node, topic, numbered(1))
    group = f"{topic}-group"
    stream = reader(spark_node, topic, startingOffsets="earliest", kafka_group_id=group)
    with Consumer(topic, group=group, bootstrap=spark_node.bootstrap) as member:
        for _ in attempts("the member's first record"):
            if member.poll(timeout_s=0.1):
                break
        with caplog.at_level(logging.WARNING):
            end = stream.latestOffset(stream.initialOffset(), ALL)
    assert next_offsets(end, topic) == {"0": 1}
    assert "the progress of the stream is not shown" in caplog.text
