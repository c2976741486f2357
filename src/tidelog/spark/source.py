"""What Spark calls for `format("tidelog")`: schema, readers, writers.

Spark pickles these objects between the driver's Python workers and the executors', so they hold
values only. The work is in modules imported when it begins: this one is imported by every session.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    InputPartition,
)

from tidelog.spark.columns import COLUMNS, SIMPLE_TYPES
from tidelog.spark.errors import OptionError, plainly
from tidelog.spark.options import SourceOptions, connect
from tidelog.spark.planner import OffsetRange, Split, plan_splits

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from tidelog.spark.cluster import Cluster

_PUSH_DOWN_WORKER = "pyspark.sql.worker.data_source_pushdown_filters"


@dataclass
class SplitPartition(InputPartition):
    """A split, as Spark carries it to a task."""

    split: Split


class TidelogSource(DataSource):
    """`format("tidelog")`."""

    @classmethod
    def name(cls) -> str:
        return "tidelog"

    def schema(self) -> str:
        with plainly():
            options = SourceOptions.parse(self.options)
            return ", ".join(f"{name} {COLUMNS[name]}" for name in options.read_columns)

    def reader(self, schema: StructType) -> DataSourceReader:
        with plainly():
            options = SourceOptions.parse(self.options).for_batch()
            columns = columns_of(schema)
        if is_push_down_on():
            from tidelog.spark.pushdown import PushDownReader

            return PushDownReader(options, columns)
        return TidelogReader(options, columns)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from tidelog.spark.stream import TidelogStreamReader

        with plainly():
            options = SourceOptions.parse(self.options).for_stream()
            return TidelogStreamReader(options, columns_of(schema))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from tidelog.spark.sink import TidelogWriter, checked_sink

        with plainly():
            return TidelogWriter(checked_sink(self.options, schema, overwrite=overwrite))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        from tidelog.spark.sink import TidelogStreamWriter, checked_sink

        with plainly():
            return TidelogStreamWriter(checked_sink(self.options, schema, overwrite=overwrite))


class TidelogReader(DataSourceReader):
    """A batch query: its range is fixed when Spark plans it."""

    def __init__(self, options: SourceOptions, columns: tuple[str, ...]) -> None:
        self._options = options
        self._columns = columns

    def partitions(self) -> list[InputPartition]:
        from tidelog.spark.subscription import plan_batch

        options = self._options
        with plainly(), connect(options) as cluster:
            ranges, topic_ids = plan_batch(cluster, options)
            splits = plan_splits(
                self._narrowed(cluster, ranges),
                min_partitions=options.min_partitions,
                max_records_per_partition=options.max_records_per_partition,
                topic_ids=topic_ids,
            )
        return [SplitPartition(split) for split in splits]

    def _narrowed(self, cluster: Cluster, ranges: list[OffsetRange]) -> list[OffsetRange]:
        """For a reader that knows more of what is wanted."""
        return ranges

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return read_partition(self._options, partition, self._columns)


def read_partition(
    options: SourceOptions, partition: InputPartition, columns: tuple[str, ...]
) -> Iterator[Any]:
    """On an executor. Where there is nothing to read Spark asks once all the same, for no split."""
    if not isinstance(partition, SplitPartition):
        return
    from tidelog.spark.reader import read_split

    with plainly():
        yield from read_split(options, partition.split, columns)


def columns_of(schema: StructType) -> tuple[str, ...]:
    """The columns that are wanted: Spark passes `.schema(…)` on, and it is all the pruning there
    is. Their types are not ours to change."""
    for each in schema.fields:
        expected = SIMPLE_TYPES.get(each.name)
        if expected is None:
            raise OptionError(f"a topic has no column {each.name!r}; it has {', '.join(COLUMNS)}")
        if each.dataType.simpleString() != expected:
            raise OptionError(
                f"column {each.name} is {COLUMNS[each.name]}, not {each.dataType.simpleString()}: "
                "cast it after reading"
            )
    return tuple(each.name for each in schema.fields)


def is_push_down_on() -> bool:
    """Spark runs this worker only where `spark.sql.python.filterPushdown.enabled` is on; anywhere
    else a reader that takes filters makes every query fail."""
    main = getattr(sys.modules.get("__main__"), "__spec__", None)
    return _PUSH_DOWN_WORKER in sys.modules or getattr(main, "name", None) == _PUSH_DOWN_WORKER
