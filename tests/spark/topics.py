"""Topics for tests: filled and read back by librdkafka, and read by the source under test."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from tests.support.eventually import attempts, eventually
from tests.support.node_process import RunningNode

from tidelog.client import Admin, Connection, Message, Producer, Reader
from tidelog.spark.options import SourceOptions, connect
from tidelog.spark.planner import Split, plan_splits
from tidelog.spark.reader import read_split
from tidelog.spark.subscription import plan_batch

MOST_STARTS = 30
_NOT_IN_TIME = "Python worker failed to connect back"

FIRST_MS = 1_700_000_000_000
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


def make_topic(node: RunningNode, topic: str, *, partitions: int = 1, **settings: str) -> Admin:
    """Kept for ever unless told otherwise: its records say that they are years old."""
    admin = Admin(node.bootstrap)
    settings = {"retention_ms": "-1", **settings}
    named = {name.replace("_", "."): value for name, value in settings.items()}
    admin.create_topic(topic, partitions=partitions, settings=named)
    return admin


def produce(
    node: RunningNode,
    topic: str,
    values: Iterable[bytes | None],
    *,
    partition: int | None = 0,
    codec: str = "none",
) -> None:
    """One millisecond apart, from `FIRST_MS` on."""
    with Producer(node.bootstrap, compression=codec) as producer:
        for index, value in enumerate(values):
            producer.send(topic, value, partition=partition, timestamp_ms=FIRST_MS + index)


def numbered(count: int, *, start: int = 0) -> list[bytes]:
    return [b"%d" % number for number in range(start, start + count)]


def consumed(node: RunningNode, topic: str) -> list[Message]:
    """Everything that librdkafka reads of the topic, by partition and offset."""
    admin = Admin(node.bootstrap)
    offsets = admin.offsets(admin.topic(topic).topic_partitions)
    starts = {place: each.start for place, each in offsets.items()}
    reader = Reader(Connection(node.bootstrap), starts=starts)
    found: list[Message] = []
    try:
        for _ in attempts(f"the end of {topic}"):
            found += reader.poll(max_records=10_000)
            if reader.is_at_end:
                return sorted(found, key=lambda each: (each.partition, each.offset))
    finally:
        reader.close()
    raise AssertionError("unreachable")


def options(node: RunningNode, topic: str, **more: str) -> dict[str, str]:
    """`_` in a name stands for `.`."""
    named = {name.replace("_", "."): value for name, value in more.items()}
    return {"kafka.bootstrap.servers": node.bootstrap, "subscribe": topic, **named}


def table(spark: SparkSession, node: RunningNode, topic: str, **more: str) -> DataFrame:
    return spark.read.format("tidelog").options(**options(node, topic, **more)).load()


def run_to_end(start: Callable[[], StreamingQuery]) -> StreamingQuery:
    """A query that ends by itself. Spark gives a Python process ten seconds to appear, which on a
    starved machine is not enough, and then fails before anything was read: it is started again."""
    for _ in range(MOST_STARTS):
        query = start()
        try:
            query.awaitTermination()
        except StreamingQueryException as error:
            if _NOT_IN_TIME not in str(error):
                raise
        else:
            return query
    raise AssertionError(f"no Python process appeared in {MOST_STARTS} starts")


def run_on(start: Callable[[], StreamingQuery]) -> StreamingQuery:
    """A query that does not end, after its first look at the topic; started again likewise."""
    for _ in range(MOST_STARTS):
        query = start()
        eventually(lambda q=query: q.lastProgress or not q.isActive, "a first batch")  # type: ignore[misc]
        if query.isActive:
            return query
        assert _NOT_IN_TIME in str(query.exception())
    raise AssertionError(f"no Python process appeared in {MOST_STARTS} starts")


def planned(node: RunningNode, given: dict[str, str]) -> list[Split]:
    """The splits of a batch query, as the driver plans them."""
    parsed = SourceOptions.parse(given).for_batch()
    with connect(parsed) as cluster:
        ranges, ids = plan_batch(cluster, parsed)
    return plan_splits(
        ranges,
        min_partitions=parsed.min_partitions,
        max_records_per_partition=parsed.max_records_per_partition,
        topic_ids=ids,
    )


def rows_of(given: dict[str, str], splits: Iterable[Split]) -> list[dict[str, Any]]:
    """What tasks read of them, one after the other."""
    parsed = SourceOptions.parse(given).for_batch()
    return [
        row
        for split in splits
        for batch in read_split(parsed, split, parsed.read_columns)
        for row in batch.to_pylist()
    ]
