"""Writing to topics, through Spark and a real node, and with the producer alone."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark import TaskContext, cloudpickle
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceStreamWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import Row, StructType
from tests.spark.topics import (
    CODECS,
    consumed,
    make_topic,
    numbered,
    options,
    produce,
    run_to_end,
)
from tests.support.node_process import RunningNode, StartNode

from tidelog.client import Admin
from tidelog.spark.errors import PipelineError, RefusedByBroker
from tidelog.spark.producing import TopicWriter
from tidelog.spark.sink_options import SinkOptions
from tidelog.wire.compression import Compression

pytestmark = pytest.mark.xdist_group("spark")

HEADERS = "array(named_struct('key', 'h', 'value', cast('x' as binary)))"


def save(rows: DataFrame, node: RunningNode, **more: str) -> None:
    named = {name.replace("_", "."): value for name, value in more.items()}
    given = {"kafka.bootstrap.servers": node.bootstrap, **named}
    rows.write.format("tidelog").options(**given).mode("append").save()


def test_a_table_is_written_as_it_is(
    spark: SparkSession, spark_node: RunningNode, topic: str
) -> None:
    """Topics, partitions, keys, nulls, headers and times, each from its column."""
    names = [f"{topic}-{number}" for number in range(2)]
    for name in names:
        make_topic(spark_node, name, partitions=3)
    rows = spark.range(600).selectExpr(
        f"concat('{topic}-', id % 2) as topic",
        "if(id % 5 = 0, null, concat('k', id)) as key",
        "if(id % 7 = 0, null, cast(concat('v', id) as binary)) as value",
        "if(id % 3 = 0, 2, null) as partition",
        f"if(id % 4 = 0, {HEADERS}, null) as headers",
        "timestamp_millis(1700000000000 + id) as timestamp",
        "id as offset",
    )
    save(rows, spark_node, kafka_compression_type="zstd")
    found = {name: consumed(spark_node, name) for name in names}
    assert [len(each) for each in found.values()] == [300, 300]
    by_time = {each.timestamp_ms - 1_700_000_000_000: each for m in found.values() for each in m}
    assert sorted(by_time) == list(range(600))
    for number, each in by_time.items():
        assert each.topic == names[number % 2]
        assert each.key == (None if number % 5 == 0 else b"k%d" % number)
        assert each.value == (None if number % 7 == 0 else b"v%d" % number)
        assert each.partition == 2 or number % 3
        assert each.headers == ([("h", b"x")] if number % 4 == 0 else [])


def test_a_stream_from_topic_to_topic_keeps_every_record(
    spark: SparkSession, spark_node: RunningNode, topic: str, checkpoint: str
) -> None:
    source, target = f"{topic}-in", f"{topic}-out"
    make_topic(spark_node, source)
    make_topic(spark_node, target, partitions=2)
    for start in (0, 50):
        produce(spark_node, source, numbered(50, start=start))
        given = options(spark_node, source, startingOffsets="earliest", maxOffsetsPerTrigger="20")
        writing = (
            spark.readStream.format("tidelog")
            .options(**given)
            .load()
            .select("value")
            .writeStream.format("tidelog")
            .option("kafka.bootstrap.servers", spark_node.bootstrap)
            .option("topic", target)
            .option("checkpointLocation", checkpoint)
            .trigger(availableNow=True)
        )
        run_to_end(writing.start)
    values = sorted(int(each.value or b"") for each in consumed(spark_node, target))
    assert values == list(range(100))


@pytest.mark.parametrize(
    ("columns", "more", "words"),
    [
        ("'a' as other", {"topic": "t"}, "a column value is missing"),
        ("'a' as value", {}, "where to? Give the option topic, or a column topic"),
        ("id as value", {"topic": "t"}, "column value must be string or binary, not bigint"),
        ("'a' as value, 1 as price", {"topic": "t"}, "column 'price' has no place in a record"),
        ("'a' as value, id as partition", {"topic": "t"}, "column partition must be int"),
        (
            "'a' as value",
            {"topic": "t", "topc": "u"},
            "there is no option topc: did you mean topic",
        ),
        (
            "'a' as value",
            {"topic": "t", "deliveryGuarantee": "exactly-once"},
            "can't be exactly-once: the broker at",
        ),
    ],
)
def test_what_is_wrong_is_told_before_anything_is_written(
    spark: SparkSession,
    spark_node: RunningNode,
    columns: str,
    more: dict[str, str],
    words: str,
) -> None:
    with pytest.raises(PySparkException) as caught:
        save(spark.range(3).selectExpr(*columns.split(", ")), spark_node, **more)
    assert words in str(caught.value)
    assert "Traceback" not in str(caught.value)


def test_a_topic_is_not_overwritten(spark: SparkSession, spark_node: RunningNode) -> None:
    given = {"kafka.bootstrap.servers": spark_node.bootstrap, "topic": "t"}
    rows = spark.range(3).selectExpr("'a' as value")
    with pytest.raises(PySparkException, match="a topic can't be overwritten"):
        rows.write.format("tidelog").options(**given).mode("overwrite").save()


# --- the producer alone -----------------------------------------------------------------------


def batch(start: int, count: int, size: int = 0) -> pa.RecordBatch:
    return pa.record_batch(
        {"value": [b"%d" % n + bytes(size) for n in range(start, start + count)]}
    )


@pytest.mark.parametrize("codec", CODECS)
def test_every_codec_is_read_by_a_plain_consumer(
    spark_node: RunningNode, topic: str, codec: str
) -> None:
    make_topic(spark_node, topic)
    chosen = SinkOptions(spark_node.bootstrap, topic=topic, compression=Compression[codec.upper()])
    with TopicWriter(chosen) as writer:
        written = writer.write_all(batch(start, 500, 50) for start in (0, 500))
    assert written.records == 1000
    values = [each.value for each in consumed(spark_node, topic)]
    assert values == [each + bytes(50) for each in numbered(1000)]


def test_a_node_that_dies_while_written_to_gets_every_record_once_and_in_order(
    start_node: StartNode, tmp_path: Path, topic: str
) -> None:
    """The answer to a stored batch is lost with the node: the batch is sent again, and the
    sequence numbers keep it from being stored twice."""
    node = start_node(tmp_path / "data")
    make_topic(node, topic, partitions=2)
    chosen = SinkOptions(node.bootstrap, topic=topic, max_batch_bytes=20_000)
    with TopicWriter(chosen) as writer:
        for turn in range(6):
            writer.write(batch(turn * 5000, 5000, 1000))
            if turn in (1, 3):
                node.kill()
                node.restart()
    by_partition: dict[int, list[int]] = {0: [], 1: []}
    for each in consumed(node, topic):
        by_partition[each.partition].append(int((each.value or b"").rstrip(b"\0")))
    for numbers in by_partition.values():
        assert numbers == sorted(set(numbers))
    assert sorted(by_partition[0] + by_partition[1]) == list(range(30_000))


def test_a_missing_topic_is_made_where_the_broker_allows_it(
    spark_node: RunningNode, topic: str
) -> None:
    with TopicWriter(SinkOptions(spark_node.bootstrap, topic=topic)) as writer:
        writer.write(batch(0, 3))
    assert [each.value for each in consumed(spark_node, topic)] == numbered(3)


def test_a_record_that_is_too_large_is_refused_in_words(
    spark_node: RunningNode, topic: str
) -> None:
    make_topic(spark_node, topic, max_message_bytes="10000")
    chosen = SinkOptions(spark_node.bootstrap, topic=topic, max_batch_bytes=5000)
    with (
        pytest.raises(RefusedByBroker, match="allows: set kafka"),
        TopicWriter(chosen) as writer,
    ):
        writer.write(batch(0, 1, 20_000))


def test_a_partition_that_is_not_there_is_refused_in_words(
    spark_node: RunningNode, topic: str
) -> None:
    make_topic(spark_node, topic)
    rows = pa.record_batch({"value": [b"v"], "partition": pa.array([3], pa.int32())})
    with (
        pytest.raises(PipelineError, match="has no partition 3: it has 1"),
        TopicWriter(SinkOptions(spark_node.bootstrap, topic=topic)) as writer,
    ):
        writer.write(rows)
    assert Admin(spark_node.bootstrap).topic(topic)


# --- what exactly once will stand on ----------------------------------------------------------


@dataclass
class Noted(WriterCommitMessage):
    """Nothing to say."""


class NotingSink(DataSource):
    """Writes down what a task knows of itself."""

    @classmethod
    def name(cls) -> str:
        return "noting"

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        return NotingWriter(self.options["path"])


class NotingWriter(DataSourceStreamWriter):
    def __init__(self, directory: str) -> None:
        self._directory = directory

    def write(self, iterator: Iterator[Row]) -> Noted:
        context = TaskContext.get()
        assert context is not None
        note = {
            "query": context.getLocalProperty("sql.streaming.queryId"),
            "batch": context.getLocalProperty("streaming.sql.batchId"),
            "partition": context.partitionId(),
            "rows": len(list(iterator)),
        }
        name = f"{note['batch']}-{note['partition']}.json"
        (Path(self._directory) / name).write_text(json.dumps(note))
        return Noted()


def test_a_task_knows_its_query_and_its_batch(
    spark: SparkSession, spark_node: RunningNode, topic: str, tmp_path: Path, checkpoint: str
) -> None:
    """By names that are Spark's own affair: exactly once will need them."""
    by_value = cloudpickle.register_pickle_by_value
    by_value(sys.modules[NotingSink.__module__])  # type: ignore[no-untyped-call]
    spark.dataSource.register(NotingSink)
    make_topic(spark_node, topic)
    produce(spark_node, topic, numbered(4))
    (tmp_path / "notes").mkdir()
    given = options(spark_node, topic, startingOffsets="earliest", maxOffsetsPerTrigger="3")
    writing = (
        spark.readStream.format("tidelog")
        .options(**given)
        .load()
        .select("value")
        .writeStream.format("noting")
        .option("path", str(tmp_path / "notes"))
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
    )
    query = run_to_end(writing.start)
    notes = [json.loads(each.read_text()) for each in sorted((tmp_path / "notes").iterdir())]
    assert [(each["batch"], each["partition"], each["rows"]) for each in notes] == [
        ("0", 0, 3),
        ("1", 0, 1),
    ]
    assert {each["query"] for each in notes} == {query.id}
