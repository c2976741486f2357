"""Opens a lake's table as what it is."""

from __future__ import annotations

from pathlib import Path

from tidelog.spark.lake.archive_table import ArchiveTable
from tidelog.spark.lake.latest_table import LatestTable
from tidelog.spark.lake.topic_table import TopicTable, open_delta


def open_any(path: Path) -> ArchiveTable | LatestTable:
    """An archive or a table of latest values; `NoLake` or `LakeError` if it is neither."""
    delta = open_delta(path, "archive")
    kind = TopicTable(path, delta).kind
    return ArchiveTable(path, delta) if kind == "archive" else LatestTable(path, delta)
