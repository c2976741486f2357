"""The latest value of each key of a topic, kept up to date by merge.

A row is replaced by a newer one of its key and deleted by a newer tombstone. Newer means a higher
offset of the same partition; where a key has come to another partition, because partitions were
added, the later timestamp decides. What a batch changes and the cuts it moves are one commit.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
from deltalake.exceptions import CommitFailedError, DeltaError

from tidelog.spark.lake.schema import HEADERS_TYPE
from tidelog.spark.lake.topic_table import (
    TopicTable,
    create_delta,
    explained,
    need_kind,
    open_delta,
)

LATEST_SCHEMA = pa.schema(
    [
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("timestamp", pa.timestamp("us", tz="UTC")),
        pa.field("headers", HEADERS_TYPE),
    ]
)

_IS_NEWER = (
    "((s.partition = t.partition AND s.offset > t.offset)"
    " OR (s.partition <> t.partition AND s.timestamp >= t.timestamp))"
)
_TAKEN = {name: f"s.{name}" for name in LATEST_SCHEMA.names}


class LatestTable(TopicTable):
    """Open it with `open_latest` or `create_latest`."""

    def merge(self, rows: pa.RecordBatchReader, cuts: Mapping[int, int]) -> None:
        """Apply `rows`, which hold a key once, and move the cuts: all of it, or nothing.

        `LakeInUse` if another driver has moved a cut since this version was read.
        """
        merger = (
            self._table.merge(
                rows,
                "t.key = s.key",
                source_alias="s",
                target_alias="t",
                commit_properties=self.transactions(cuts),
            )
            .when_matched_delete(predicate=f"s.value IS NULL AND {_IS_NEWER}")
            .when_matched_update(updates=_TAKEN, predicate=_IS_NEWER)
            .when_not_matched_insert(updates=_TAKEN, predicate="s.value IS NOT NULL")
        )
        try:
            merger.execute()
            self.refresh()
            if self.cuts(sorted(cuts)) != cuts:
                # A merge that changes no row commits nothing, not even the cuts.
                self.write([], self.transactions(cuts))
        except CommitFailedError as error:
            raise self.was_overtaken(error) from None
        except (DeltaError, OSError) as error:
            raise explained(error, self.path) from None
        self.refresh()

    def compact(self, *, target_bytes: int) -> None:
        """Small files to large ones."""
        try:
            self._table.optimize.compact(target_size=target_bytes)
        except (DeltaError, OSError) as error:
            raise explained(error, self.path) from None
        self.refresh()


def open_latest(path: Path) -> LatestTable:
    """The newest version; `NoLake` if there is none."""
    table = LatestTable(path, open_delta(path, "latest"))
    need_kind(table, "latest")
    return table


def create_latest(path: Path, *, topic: str, topic_id: str) -> LatestTable:
    """An empty one; if there is one, that one."""
    create_delta(path, "latest", LATEST_SCHEMA, topic=topic, topic_id=topic_id)
    return open_latest(path)
