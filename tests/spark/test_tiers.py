"""Archive and live tail as one table: no gap, no duplicate, an exact cut in each partition."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.spark.lake_topics import (
    Record,
    admin_of,
    consumed,
    create_topic,
    numbered,
    produce,
    rows_of,
)
from tests.support.node_process import RunningNode

from tidelog.model.ids import TopicPartition
from tidelog.spark.errors import OptionError
from tidelog.spark.jobs.archive import ArchiveOptions, archive
from tidelog.spark.lake.errors import LostRecords, NoLake
from tidelog.spark.tiers import topic as topic_rows

pytestmark = pytest.mark.xdist_group("spark")


class Tiers:
    """A topic of which the first part is archived."""

    def __init__(self, spark: SparkSession, bootstrap: str, name: str, lake: Path) -> None:
        self.spark = spark
        self.bootstrap = bootstrap
        self.name = name
        self.lake = lake
        create_topic(bootstrap, name, partitions=3)

    def archive(self) -> None:
        options = ArchiveOptions(self.name, self.lake, self.bootstrap)
        with archive(self.spark, options) as job:
            job.catch_up()

    def delete_before(self, offsets: dict[int, int]) -> None:
        places = {TopicPartition(self.name, each): offset for each, offset in offsets.items()}
        admin_of(self.bootstrap).delete_records(places)

    def rows(self, tier: str, *, bootstrap: str | None = None) -> list[Record]:
        frame = topic_rows(
            self.spark,
            self.name,
            tier=tier,  # type: ignore[arg-type]
            lake=self.lake,
            bootstrap=bootstrap or self.bootstrap,
            include_headers=True,
        )
        return rows_of(frame)


@pytest.fixture
def tiers(spark: SparkSession, spark_node: RunningNode, topic: str, tmp_path: Path) -> Tiers:
    """In a directory whose name Spark would take for a pattern."""
    return Tiers(spark, spark_node.bootstrap, topic, tmp_path / "a lake {1,2} [x]")


def test_auto_is_the_whole_topic_also_after_retention_has_removed_its_head(tiers: Tiers) -> None:
    produce(tiers.bootstrap, tiers.name, numbered(0, 300))
    tiers.archive()
    produce(tiers.bootstrap, tiers.name, numbered(300, 200))
    whole = consumed(tiers.bootstrap, tiers.name)
    assert len(whole) == 500
    assert tiers.rows("auto") == whole
    admin_of(tiers.bootstrap).add_partitions(tiers.name, total=4)
    tiers.delete_before({0: 100, 1: 40})
    produce(tiers.bootstrap, tiers.name, numbered(500, 40, partitions=4))
    left = consumed(tiers.bootstrap, tiers.name)
    assert len(left) == 400
    assert tiers.rows("auto") == sorted({*whole, *left})
    assert tiers.rows("hot") == left
    assert tiers.rows("cold", bootstrap="127.0.0.1:1") == [r for r in whole if r.offset < 100]


def test_rows_nobody_archived_and_the_log_has_deleted_are_an_error(tiers: Tiers) -> None:
    produce(tiers.bootstrap, tiers.name, numbered(0, 30))
    tiers.archive()
    produce(tiers.bootstrap, tiers.name, numbered(30, 60))
    tiers.delete_before({2: 12})
    with pytest.raises(LostRecords, match="offsets 10 to 11 of partition 2"):
        tiers.rows("auto")


def test_before_the_first_archive_auto_is_the_log(tiers: Tiers) -> None:
    produce(tiers.bootstrap, tiers.name, numbered(0, 30))
    frame = topic_rows(
        tiers.spark, tiers.name, lake=tiers.lake, bootstrap=tiers.bootstrap, columns=["offset"]
    )
    assert frame.columns == ["offset"]
    assert frame.count() == 30
    with pytest.raises(NoLake):
        tiers.rows("cold")


def test_a_wrong_tier_or_column_is_one_line(spark: SparkSession) -> None:
    with pytest.raises(OptionError, match="tier must be auto, hot or cold, not 'warm'"):
        topic_rows(spark, "orders", tier="warm")  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="no column 'size'"):
        topic_rows(spark, "orders", columns=["size"])
    with pytest.raises(OptionError, match="needs the lake"):
        topic_rows(spark, "orders", tier="cold")
