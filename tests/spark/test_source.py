"""Topics as tables: rows, columns, filters and errors, through Spark and a real node."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import Row
from tests.spark.topics import (
    CODECS,
    FIRST_MS,
    consumed,
    make_topic,
    numbered,
    options,
    produce,
    table,
)
from tests.support.node_process import RunningNode

from tidelog.client import Admin, Message, Producer
from tidelog.model.ids import TopicPartition
from tidelog.spark.arrow_columns import arrow_schema
from tidelog.spark.columns import all_columns

pytestmark = pytest.mark.xdist_group("spark")

ROWS = 300
FIRST = datetime.fromtimestamp(FIRST_MS / 1000, UTC)


@pytest.fixture(scope="module")
def varied(spark_node: RunningNode) -> str:
    """Three partitions, every codec, nulls, empty values and headers; the head of one deleted."""
    topic = "varied"
    admin = make_topic(spark_node, topic, partitions=3)
    for turn, codec in enumerate(CODECS):
        with Producer(spark_node.bootstrap, compression=codec) as producer:
            for index in range(ROWS):
                number = turn * ROWS + index
                producer.send(
                    topic,
                    None if number % 7 == 0 else b"" if number % 11 == 0 else b"v%d" % number * 20,
                    key=None if number % 3 == 0 else b"k%d" % (number % 50),
                    headers=[] if number % 4 else [("codec", codec), ("n", None), ("n", b"\xff")],
                    timestamp_ms=FIRST_MS + number,
                )
    admin.delete_records({TopicPartition(topic, 1): 17})
    return topic


def as_rows(messages: list[Message]) -> list[tuple[object, ...]]:
    return [
        (
            each.key,
            each.value,
            each.topic,
            each.partition,
            each.offset,
            each.timestamp_ms,
            0,
            each.headers or None,
        )
        for each in messages
    ]


def as_told(row: Row) -> tuple[object, ...]:
    headers = row.headers and [(each.key, _bytes(each.value)) for each in row.headers]
    return (
        _bytes(row.key),
        _bytes(row.value),
        row.topic,
        row.partition,
        row.offset,
        row.timestamp_ms,
        row.timestampType,
        headers or None,
    )


def _bytes(value: bytes | bytearray | None) -> bytes | None:
    return None if value is None else bytes(value)


def collected(rows: DataFrame) -> list[tuple[object, ...]]:
    """In milliseconds: Python's own timestamps would be in the machine's time zone."""
    told = rows.withColumn("timestamp_ms", F.unix_millis("timestamp"))
    return [as_told(row) for row in told.orderBy("partition", "offset").collect()]


def test_rows_are_what_a_plain_consumer_reads(
    spark: SparkSession, spark_node: RunningNode, varied: str
) -> None:
    """All codecs, headers, nulls and deleted records, in more splits than partitions."""
    wanted = as_rows(consumed(spark_node, varied))
    assert len(wanted) == len(CODECS) * ROWS - 17
    rows = table(spark, spark_node, varied, includeHeaders="true", minPartitions="7")
    assert rows.rdd.getNumPartitions() == 7
    assert collected(rows) == wanted


def test_the_schema_is_that_of_sparks_kafka_source(
    spark: SparkSession, spark_node: RunningNode, varied: str
) -> None:
    plain = table(spark, spark_node, varied).schema
    assert plain.simpleString() == (
        "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,"
        "timestamp:timestamp,timestampType:int>"
    )
    whole = table(spark, spark_node, varied, includeHeaders="true").schema
    assert whole["headers"].dataType.simpleString() == "array<struct<key:string,value:binary>>"
    ours = arrow_schema(all_columns(include_headers=True))
    assert to_arrow_schema(whole, timezone="UTC").equals(ours)


def test_columns_are_pruned_by_option_and_by_schema(
    spark: SparkSession, spark_node: RunningNode, varied: str
) -> None:
    chosen = table(spark, spark_node, varied, columns="offset,value", maxRecordsPerPartition="100")
    by_schema = (
        spark.read.format("tidelog")
        .schema("offset long, value binary")
        .options(**options(spark_node, varied))
        .load()
    )
    assert chosen.schema == by_schema.schema
    assert chosen.columns == ["offset", "value"]
    assert sorted(chosen.collect(), key=str) == sorted(by_schema.collect(), key=str)


def test_filters_are_pushed_down_and_still_hold(
    spark: SparkSession, spark_node: RunningNode, varied: str
) -> None:
    rows = table(spark, spark_node, varied)
    everything = [tuple(row[:5]) for row in collected_with_time(rows)]
    narrow = rows.where("partition = 2 and offset between 10 and 19")
    assert narrow.rdd.getNumPartitions() == 1
    assert [tuple(row[:5]) for row in collected_with_time(narrow)] == [
        row for row in everything if row[0] == 2 and 10 <= row[1] <= 19
    ]
    cut = FIRST + timedelta(milliseconds=800, microseconds=1)
    late = rows.where((F.col("timestamp") > cut) & (F.col("partition").isin(0, 1)))
    assert late.rdd.getNumPartitions() == 2
    limit_ms = FIRST_MS + 800
    assert [tuple(row[:5]) for row in collected_with_time(late)] == [
        row for row in everything if row[2] > limit_ms and row[0] in (0, 1)
    ]
    nothing = rows.where("partition = 5 or topic = 'other'").where("partition = 5")
    assert nothing.count() == 0


def collected_with_time(rows: DataFrame) -> list[Row]:
    chosen = rows.select(
        "partition", "offset", F.unix_millis("timestamp").alias("ms"), "topic", "value"
    )
    return chosen.orderBy("partition", "offset").collect()


def test_without_push_down_the_same_query_works(
    spark: SparkSession, spark_node: RunningNode, varied: str
) -> None:
    name = "spark.sql.python.filterPushdown.enabled"
    spark.conf.set(name, "false")
    try:
        rows = table(spark, spark_node, varied).where("partition = 2 and offset < 5")
        assert rows.count() == 5
    finally:
        spark.conf.set(name, "true")


def test_timestamps_out_of_order_are_filtered_right(
    spark: SparkSession, spark_node: RunningNode, topic: str
) -> None:
    """An old record after a young one: the time index alone would be wrong about it."""
    make_topic(spark_node, topic)
    times = [5, 1, 9, 2, 8, 3, 7]
    with Producer(spark_node.bootstrap, linger_ms=0) as producer:
        for at in times:
            producer.send(topic, b"%d" % at, timestamp_ms=FIRST_MS + at)
            producer.flush()
    rows = table(spark, spark_node, topic)
    for low, high in ((6, 8), (2, 5)):
        wanted = [b"%d" % at for at in times if low <= at <= high]
        from_, to = (FIRST + timedelta(milliseconds=each) for each in (low, high))
        found = rows.where(F.col("timestamp").between(from_, to)).orderBy("offset")
        assert [bytes(row.value) for row in found.collect()] == wanted


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"maxOffsetPerTrigger": "1"}, "did you mean maxOffsetsPerTrigger?"),
        ({"startingOffsets": "latest"}, "startingOffsets can't be latest in a batch"),
        ({"subscribe": "nothing-here"}, "there is no topic 'nothing-here'"),
    ],
)
def test_a_mistake_is_told_in_one_line_without_a_traceback(
    spark: SparkSession,
    spark_node: RunningNode,
    varied: str,
    more: dict[str, str],
    words: str,
) -> None:
    with pytest.raises(PySparkException) as caught:
        table(spark, spark_node, varied, **more).count()
    assert words in str(caught.value)
    assert "Traceback" not in str(caught.value)


def test_a_schema_that_is_not_the_topics_is_refused(
    spark: SparkSession, spark_node: RunningNode, varied: str
) -> None:
    given = options(spark_node, varied)
    for schema, words in (
        ("value string", "column value is binary, not string: cast it after reading"),
        ("price long", "a topic has no column 'price'"),
    ):
        reader = spark.read.format("tidelog").schema(schema).options(**given)
        with pytest.raises(PySparkException) as caught:
            reader.load().count()
        assert words in str(caught.value)
        assert "Traceback" not in str(caught.value)


def test_loss_while_tasks_run_is_told_in_one_line(
    spark: SparkSession, spark_node: RunningNode, topic: str
) -> None:
    make_topic(spark_node, topic)
    produce(spark_node, topic, numbered(20))
    start = json.dumps({topic: {"0": 3}})
    Admin(spark_node.bootstrap).delete_records({TopicPartition(topic, 0): 11})
    with pytest.raises(PySparkException) as caught:
        table(spark, spark_node, topic, startingOffsets=start).collect()
    assert f"data loss: offsets 3 to 10 of {topic}-0: retention" in str(caught.value)
    rows = table(spark, spark_node, topic, startingOffsets=start, failOnDataLoss="false")
    assert [bytes(row.value) for row in rows.orderBy("offset").collect()] == numbered(9, start=11)
