"""The archive of one topic, as its driver sees it: files, and commits that add or join them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake.exceptions import CommitFailedError
from deltalake.transaction import RemoveAction

from tidelog.spark.lake.errors import LakeInUse
from tidelog.spark.lake.files import OffsetFile, from_add_action, in_order
from tidelog.spark.lake.schema import PARTITION, TABLE_SCHEMA
from tidelog.spark.lake.topic_table import (
    TopicTable,
    create_delta,
    need_kind,
    now_ms,
    open_delta,
)

_MAX_COMMIT_ATTEMPTS = 5


class ArchiveTable(TopicTable):
    """Open it with `open_archive` or `create_archive`."""

    def files(self) -> list[OffsetFile]:
        """All that are visible, by partition and offset."""
        rows = pa.table(self._table.get_add_actions(flatten=True)).to_pylist()
        return in_order(map(from_add_action, rows))

    def commit(self, files: Sequence[OffsetFile], cuts: Mapping[int, int]) -> None:
        """Make `files` visible and move the cuts: all of it, or nothing.

        `LakeInUse` if another driver has moved a cut since this version was read.
        """
        at_ms = now_ms()
        adds = [file.add_action(now_ms=at_ms, is_new_data=True) for file in files]
        try:
            self.write(adds, self.transactions(cuts))
        except CommitFailedError as error:
            raise self.was_overtaken(error) from None
        self.refresh()

    def replace(self, old: Sequence[OffsetFile], new: Sequence[OffsetFile]) -> None:
        """The same rows in other files. Archiving may go on meanwhile."""
        at_ms = now_ms()
        actions: list[Any] = [file.add_action(now_ms=at_ms, is_new_data=False) for file in new]
        for file in old:
            values: dict[str, str | None] = {PARTITION: str(file.partition)}
            actions.append(RemoveAction(file.path, False, at_ms, file.size, values))
        for attempt in range(_MAX_COMMIT_ATTEMPTS):
            self.refresh()
            visible = {file.path for file in self.files()}
            if not all(file.path in visible for file in old):
                raise LakeInUse(f"another process has rewritten files of {self.path}")
            try:
                self.write(actions)
            except CommitFailedError:
                if attempt + 1 == _MAX_COMMIT_ATTEMPTS:
                    raise
            else:
                self.refresh()
                return


def open_archive(path: Path) -> ArchiveTable:
    """The newest version; `NoLake` if there is none."""
    table = ArchiveTable(path, open_delta(path, "archive"))
    need_kind(table, "archive")
    return table


def create_archive(path: Path, *, topic: str, topic_id: str) -> ArchiveTable:
    """An empty one; if there is one, that one."""
    create_delta(
        path, "archive", TABLE_SCHEMA, topic=topic, topic_id=topic_id, partition_by=[PARTITION]
    )
    return open_archive(path)
