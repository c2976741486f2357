"""Topics as streams, through Spark and a real node: every record once, across restarts."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from tests.spark.topics import make_topic, numbered, options, produce, run_on, run_to_end
from tests.support.eventually import eventually
from tests.support.node_process import RunningNode

from tidelog.model.ids import TopicPartition
from tidelog.spark.cluster import Cluster

pytestmark = pytest.mark.xdist_group("spark")


def available_now(
    spark: SparkSession, node: RunningNode, topic: str, directory: Path, **more: str
) -> StreamingQuery:
    """All there is, into Parquet, from where the last one ended."""
    given = options(node, topic, **{"startingOffsets": "earliest", **more})
    writing = (
        spark.readStream.format("tidelog")
        .options(**given)
        .load()
        .select("partition", "offset", "value")
        .writeStream.format("parquet")
        .option("checkpointLocation", str(directory / "checkpoint"))
        .option("path", str(directory / "rows"))
        .trigger(availableNow=True)
    )
    return run_to_end(writing.start)


def written(spark: SparkSession, directory: Path) -> list[bytes]:
    rows = spark.read.parquet(str(directory / "rows")).orderBy("partition", "offset").collect()
    return [bytes(row.value) for row in rows]


def test_available_now_reads_all_in_batches_and_a_restart_goes_on(
    spark: SparkSession, spark_node: RunningNode, topic: str, tmp_path: Path
) -> None:
    admin = make_topic(spark_node, topic)
    produce(spark_node, topic, numbered(25))
    group = f"{topic}-group"
    query = available_now(
        spark, spark_node, topic, tmp_path, maxOffsetsPerTrigger="10", kafka_group_id=group
    )
    sizes = [each.numInputRows for each in query.recentProgress if each.numInputRows]
    assert sizes == [10, 10, 5]
    last = query.recentProgress[-1].sources[0]
    assert f'"{topic}": {{"id": ' in str(last.latestOffset)
    place = TopicPartition(topic, 0)
    with Cluster(spark_node.bootstrap) as cluster:
        assert cluster.committed(group, [place]) == {place: 25}
    admin.add_partitions(topic, total=2)
    produce(spark_node, topic, numbered(5, start=25))
    produce(spark_node, topic, numbered(5, start=30), partition=1)
    available_now(spark, spark_node, topic, tmp_path, kafka_group_id=group)
    assert written(spark, tmp_path) == numbered(35)


def test_loss_stops_a_stream_with_its_cause(
    spark: SparkSession, spark_node: RunningNode, topic: str, tmp_path: Path
) -> None:
    admin = make_topic(spark_node, topic)
    produce(spark_node, topic, numbered(5))
    available_now(spark, spark_node, topic, tmp_path)
    admin.delete_topic(topic)
    make_topic(spark_node, topic)
    produce(spark_node, topic, numbered(3, start=5))
    with pytest.raises(StreamingQueryException) as caught:
        available_now(spark, spark_node, topic, tmp_path)
    assert f"all from offset 5 on of {topic}-0: the topic was deleted and created again" in str(
        caught.value
    )
    assert "Traceback" not in str(caught.value)
    available_now(spark, spark_node, topic, tmp_path, failOnDataLoss="false")
    rows = spark.read.parquet(str(tmp_path / "rows")).collect()
    assert sorted(bytes(row.value) for row in rows) == numbered(8)


def test_a_running_stream_takes_up_new_records_and_partitions(
    spark: SparkSession, spark_node: RunningNode, topic: str, checkpoint: str
) -> None:
    admin = make_topic(spark_node, topic)
    produce(spark_node, topic, numbered(3))
    name = "taken_up"
    writing = (
        spark.readStream.format("tidelog")
        .options(**options(spark_node, topic))
        .load()
        .writeStream.format("memory")
        .queryName(name)
        .option("checkpointLocation", checkpoint)
    )
    query = run_on(writing.start)
    try:
        produce(spark_node, topic, numbered(2, start=3))
        admin.add_partitions(topic, total=2)
        produce(spark_node, topic, numbered(2, start=5), partition=1)
        eventually(lambda: spark.table(name).count() == 4, "four records")
        values = sorted(bytes(row.value) for row in spark.table(name).collect())
        assert values == numbered(4, start=3)
    finally:
        query.stop()
