"""Writing to topics: what Spark calls, on the driver to check, on executors to write.

Each task is one idempotent producer (`producing.py`). A task that Spark runs again writes its rows
again, so delivery is at least once; `sink_delivery.py` has what exactly once will take.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from tidelog.spark.columns import COLUMNS
from tidelog.spark.errors import OptionError, plainly
from tidelog.spark.sink_delivery import TRANSACTION_APIS, refusal_of_exactly_once
from tidelog.spark.sink_options import EXACTLY_ONCE, SinkOptions

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_TEXT = ("string", "binary")
_ACCEPTED: dict[str, tuple[str, ...]] = {
    "key": _TEXT,
    "value": _TEXT,
    "topic": ("string",),
    "partition": ("int",),
    "timestamp": ("timestamp",),
    "headers": (COLUMNS["headers"],),
}
_LEFT_ALONE = ("offset", "timestampType")
"""What a topic that was read has as well: records get new ones."""


@dataclass
class TaskWritten(WriterCommitMessage):
    """What one task has stored."""

    records: int
    bytes: int


class TidelogWriter(DataSourceArrowWriter):
    """A batch write."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskWritten:
        return write_task(self._options, iterator)


class TidelogStreamWriter(DataSourceStreamArrowWriter):
    """A stream's write, batch by batch."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskWritten:
        return write_task(self._options, iterator)


def write_task(options: SinkOptions, batches: Iterator[pa.RecordBatch]) -> TaskWritten:
    """On an executor: all rows of a task, stored when it returns."""
    from tidelog.spark.producing import TopicWriter

    with plainly(), TopicWriter(options) as writer:
        written = writer.write_all(batches)
    return TaskWritten(written.records, written.bytes)


def checked_sink(options: Mapping[str, str], schema: StructType, *, overwrite: bool) -> SinkOptions:
    """The options, after all that can be wrong with them or with the columns was looked for."""
    parsed = SinkOptions.parse(options)
    if overwrite:
        raise OptionError("a topic can't be overwritten: write with mode append")
    types = {each.name: each.dataType.simpleString() for each in schema.fields}
    check_columns(types, has_topic=parsed.topic is not None)
    if parsed.delivery_guarantee == EXACTLY_ONCE:
        with parsed.connect() as cluster:
            has_transactions = cluster.serves(TRANSACTION_APIS)
        raise refusal_of_exactly_once(parsed.bootstrap, has_transactions=has_transactions)
    return parsed


def check_columns(types: Mapping[str, str], *, has_topic: bool) -> None:
    """`types` are Spark's names of them, by column."""
    if "value" not in types:
        raise OptionError("a column value is missing: text or bytes, the contents of each record")
    if not has_topic and "topic" not in types:
        raise OptionError("where to? Give the option topic, or a column topic")
    for name, kind in types.items():
        if name in _LEFT_ALONE:
            continue
        if name not in _ACCEPTED:
            raise OptionError(
                f"column {name!r} has no place in a record: there are {', '.join(_ACCEPTED)}; "
                "put it into value, for example with to_json"
            )
        if kind not in _ACCEPTED[name]:
            raise OptionError(f"column {name} must be {' or '.join(_ACCEPTED[name])}, not {kind}")
