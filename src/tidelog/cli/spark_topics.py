"""The topics a query names, as tables: live, or archive and live tail as one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tidelog.client import Admin, Connection
from tidelog.spark.jobs.query import readable
from tidelog.spark.sampling import sample
from tidelog.spark.schema_guess import guess

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class TopicTables:
    """Finds topics by name, in the cluster and, with a lake, in the archive too."""

    def __init__(self, bootstrap: str, *, lake: Path | None = None, is_raw: bool = False) -> None:
        self._connection = Connection(bootstrap)
        self._lake = lake
        self._is_raw = is_raw

    def find(self, spark: SparkSession, name: str) -> DataFrame | None:
        """The topic's rows; SQL knows no upper and lower case, so neither does this."""
        topics = {topic.name: topic for topic in Admin(self._connection).topics()}
        exact = topics.get(name)
        folded = [each for each in topics.values() if each.name.lower() == name.lower()]
        topic = exact or (folded[0] if len(folded) == 1 else None)
        if topic is None:
            return None
        records = self._records(spark, topic.name)
        if self._is_raw:
            return records
        return readable(
            records, guess(message.value for message in sample(self._connection, topic))
        )

    def _records(self, spark: SparkSession, name: str) -> DataFrame:
        if self._lake is not None:
            from tidelog.spark.tiers import topic

            return topic(
                spark, name, tier="auto", lake=self._lake, bootstrap=self._connection.bootstrap
            )
        reader = spark.read.format("tidelog").option("subscribe", name)
        return reader.option("kafka.bootstrap.servers", self._connection.bootstrap).load()
