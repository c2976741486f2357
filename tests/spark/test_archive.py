"""Topics to the lake: every record once, and each thing that can be wrong in one sentence."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession
from tests.endtoend.small_disk import mounted_disk
from tests.spark.lake_topics import (
    Sent,
    admin_of,
    consumed,
    create_topic,
    numbered,
    produce,
    rows_of,
)
from tests.spark.process_tree import wait_for
from tests.support.eventually import eventually
from tests.support.node_process import RunningNode, StartNode

from tidelog.client import Connection
from tidelog.client.group_admin import GroupAdmin
from tidelog.spark.errors import UnknownTopic
from tidelog.spark.jobs.archive import ArchiveOptions, archive
from tidelog.spark.jobs.follower import BatchDone, Listener
from tidelog.spark.jobs.optimize import optimize
from tidelog.spark.jobs.tasks import Answer, run_tasks
from tidelog.spark.lake.archive_table import open_archive
from tidelog.spark.lake.errors import DiskFull, LakeInUse, LostRecords, OtherTopic
from tidelog.spark.lake.files import overlaps
from tidelog.spark.lake.rows import archived_rows

pytestmark = pytest.mark.xdist_group("spark")


@dataclass
class Lake:
    """A lake for one topic, and how to fill and read it."""

    spark: SparkSession
    options: ArchiveOptions

    def fill(self) -> list[BatchDone]:
        done: list[BatchDone] = []
        with archive(self.spark, self.options, Listener(on_batch=done.append)) as job:
            job.catch_up()
        return done

    def matches_the_log(self) -> bool:
        found = rows_of(archived_rows(self.spark, open_archive(self.options.table)))
        return found == consumed(self.options.bootstrap, self.options.topic)

    def places(self) -> list[tuple[int, int]]:
        """As another Delta reader sees them."""
        table = DeltaTable(str(self.options.table))
        rows = pa.table(table.scan(columns=["partition", "offset"]).read_all()).to_pylist()
        return sorted((row["partition"], row["offset"]) for row in rows)


@pytest.fixture
def lake(spark: SparkSession, spark_node: RunningNode, topic: str, tmp_path: Path) -> Lake:
    create_topic(spark_node.bootstrap, topic, partitions=3)
    return Lake(spark, ArchiveOptions(topic, tmp_path / "lake", spark_node.bootstrap))


def every_kind_of_record() -> Iterator[Sent]:
    yield Sent(None, None)
    yield Sent(b"", b"")
    yield Sent(b"\x00\xff", b"\xfe" * 1000, partition=1)
    yield Sent(b"k", b"v", partition=2, headers=(("a", b"1"), ("a", None), ("\u00e9", b"")))
    yield from numbered(0, 500)


def test_the_archive_has_what_a_consumer_reads(lake: Lake) -> None:
    options = lake.options
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        produce(options.bootstrap, options.topic, every_kind_of_record(), codec=codec)
    (batch,) = lake.fill()
    assert batch.moved.rows == 5 * 504
    assert batch.lag == 0
    assert lake.matches_the_log()
    committed = GroupAdmin(Connection(options.bootstrap)).committed(
        f"tidelog-archive-{options.topic}"
    )
    assert {place.partition: offset for place, offset in committed.items()} == batch.cuts


def test_each_run_adds_what_is_new_also_of_added_partitions(lake: Lake) -> None:
    options = lake.options
    produce(options.bootstrap, options.topic, numbered(0, 300))
    lake.fill()
    assert lake.fill() == []
    admin_of(options.bootstrap).add_partitions(options.topic, total=4)
    produce(options.bootstrap, options.topic, numbered(300, 400, partitions=4))
    (batch,) = lake.fill()
    assert batch.moved.rows == 400
    assert set(batch.cuts) == {0, 1, 2, 3}
    assert lake.matches_the_log()


def test_many_batches_are_joined_to_few_files_without_losing_a_row(
    lake: Lake, spark: SparkSession
) -> None:
    options = ArchiveOptions(
        lake.options.topic, lake.options.lake, lake.options.bootstrap, batch_records=100
    )
    produce(options.bootstrap, options.topic, numbered(0, 500))
    batches = Lake(spark, options).fill()
    assert [batch.moved.rows for batch in batches] == [100] * 5
    assert [batch.lag for batch in batches] == [400, 300, 200, 100, 0]
    table = open_archive(options.table)
    assert overlaps(table.files()) == []
    done = optimize(spark, options.table, keep_hours=0)
    assert (done.files_before, done.files_after) == (15, 3)
    assert len(list(options.table.glob("partition=*/*.parquet"))) == 3
    assert lake.matches_the_log()
    with archive(spark, options), pytest.raises(LakeInUse):
        optimize(spark, options.table, keep_hours=0)


def test_a_second_driver_is_refused_in_one_line(lake: Lake) -> None:
    with (
        archive(lake.spark, lake.options),
        pytest.raises(LakeInUse, match=r"being written by process \d+ on .*: one driver a lake"),
        archive(lake.spark, lake.options),
    ):
        pass


def test_a_topic_that_is_not_there_makes_no_lake(lake: Lake, tmp_path: Path) -> None:
    options = ArchiveOptions("nowhere", tmp_path / "none", lake.options.bootstrap)
    with pytest.raises(UnknownTopic, match="no topic 'nowhere'"), archive(lake.spark, options):
        pass
    assert not (tmp_path / "none").exists()


def test_a_topic_created_again_is_refused_and_the_lake_kept(lake: Lake) -> None:
    options = lake.options
    produce(options.bootstrap, options.topic, numbered(0, 30))
    lake.fill()
    admin = admin_of(options.bootstrap)
    admin.delete_topic(options.topic)
    eventually(lambda: not _has_topic(options), "the end of the topic")
    create_topic(options.bootstrap, options.topic, partitions=3)
    produce(options.bootstrap, options.topic, numbered(0, 60))
    with pytest.raises(OtherTopic, match="deleted and created again"):
        lake.fill()
    assert len(lake.places()) == 30


def _has_topic(options: ArchiveOptions) -> bool:
    topics = admin_of(options.bootstrap).topics()
    return any(topic.name == options.topic for topic in topics)


def test_records_deleted_before_they_were_archived_are_named(lake: Lake) -> None:
    options = lake.options
    produce(options.bootstrap, options.topic, numbered(0, 30))
    lake.fill()
    produce(options.bootstrap, options.topic, numbered(30, 60))
    admin = admin_of(options.bootstrap)
    places = admin.topic(options.topic).topic_partitions
    admin.delete_records({places[1]: 15})
    with pytest.raises(LostRecords, match="offsets 10 to 14 of partition 1; --on-loss continue"):
        lake.fill()
    going_on = ArchiveOptions(options.topic, options.lake, options.bootstrap, on_loss="continue")
    Lake(lake.spark, going_on).fill()
    lost = [(1, offset) for offset in range(10, 15)]
    everything = [(partition, offset) for partition in range(3) for offset in range(30)]
    assert lake.places() == [place for place in everything if place not in lost]


def test_a_broker_that_was_away_is_waited_for(
    spark: SparkSession, start_node: StartNode, tmp_path: Path, topic: str
) -> None:
    node = start_node(tmp_path / "data")
    create_topic(node.bootstrap, topic, partitions=3)
    produce(node.bootstrap, topic, numbered(0, 300))
    options = ArchiveOptions(topic, tmp_path / "lake", node.bootstrap)
    lake = Lake(spark, options)
    rows: list[int] = []
    with archive(
        spark, options, Listener(on_batch=lambda done: rows.append(done.moved.rows))
    ) as job:
        following = threading.Thread(target=job.follow, args=(0.2,))
        following.start()
        try:
            wait_for(lambda: sum(rows) == 300, "the first records")
            node.kill()
            node.restart()
            produce(node.bootstrap, topic, numbered(300, 300))
            wait_for(lambda: sum(rows) == 600, "the records after the restart")
        finally:
            job.stop.set()
            following.join()
    assert lake.matches_the_log()


def write_to_the_full_device(_item: int) -> Answer:
    with Path("/dev/full").open("wb") as full:
        full.write(bytes(100_000))
    return {}


def test_a_full_disk_shows_nothing_and_the_next_run_completes(lake: Lake, tmp_path: Path) -> None:
    options = lake.options
    with pytest.raises(DiskFull, match="no space left"):
        run_tasks(lake.spark, write_to_the_full_device, [0])
    with mounted_disk(tmp_path / "small") as small:
        if small is None:
            return
        on_it = Lake(lake.spark, ArchiveOptions(options.topic, small.path, options.bootstrap))
        produce(options.bootstrap, options.topic, numbered(0, 30))
        on_it.fill()
        value = bytes(range(256)) * 40
        produce(options.bootstrap, options.topic, [Sent(None, value, n % 3) for n in range(300)])
        small.fill()
        with pytest.raises(DiskFull, match="nothing of this batch is visible"):
            on_it.fill()
        assert len(on_it.places()) == 30
        small.free()
        on_it.fill()
        assert on_it.matches_the_log()
        assert overlaps(open_archive(on_it.options.table).files()) == []
