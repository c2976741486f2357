"""The Delta table of one topic, as its driver sees it: cuts, files, commits.

Every commit says, per partition, which offset comes next (an application transaction). Two drivers
that worked from the same cuts write the same transactions, and Delta lets only the first of them
commit. So the table alone decides what is archived; there is no checkpoint beside it that could
disagree.
"""

from __future__ import annotations

import errno
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.transaction import RemoveAction

from tidelog.spark.lake.errors import DiskFull, LakeError, LakeInUse, NoLake, OtherTopic
from tidelog.spark.lake.files import OffsetFile, from_add_action, in_order
from tidelog.spark.lake.schema import PARTITION, TABLE_SCHEMA

_TOPIC = "tidelog.topic"
_TOPIC_ID = "tidelog.topicId"
_QUERY = "tidelog.archive"
_MAX_COMMIT_ATTEMPTS = 5
_FULL = ("No space left on device", f"os error {errno.ENOSPC}")


class ArchiveTable:
    """One version of the table, until `refresh`. Open it with `open_table` or `create_table`."""

    def __init__(self, path: Path, table: DeltaTable) -> None:
        self.path = path
        self._table = table
        configuration = table.metadata().configuration
        if _TOPIC not in configuration:
            raise LakeError(f"{path} is a Delta table, but no archive of a topic")
        self.topic: str = configuration[_TOPIC]
        self.topic_id: str = configuration[_TOPIC_ID]

    @property
    def version(self) -> int:
        return int(self._table.version())

    def refresh(self) -> None:
        """To the newest version."""
        self._table.update_incremental()

    def cut(self, partition: int) -> int | None:
        """The next offset to archive; None if nothing of the partition was archived yet."""
        found: int | None = self._table.transaction_version(_application(partition))
        return found

    def cuts(self, partitions: Sequence[int]) -> dict[int, int]:
        """Of those partitions that have one."""
        found = {partition: self.cut(partition) for partition in partitions}
        return {partition: cut for partition, cut in found.items() if cut is not None}

    @property
    def batch_id(self) -> int:
        """How many batches were committed."""
        return self._table.transaction_version(_QUERY) or 0

    def files(self) -> list[OffsetFile]:
        """All that are visible, by partition and offset."""
        rows = pa.table(self._table.get_add_actions(flatten=True)).to_pylist()
        return in_order(map(from_add_action, rows))

    def check_topic(self, topic: str, topic_id: str) -> None:
        """`OtherTopic` unless the lake is of this very topic: names come back, ids do not."""
        if topic != self.topic:
            raise OtherTopic(f"{self.path} holds topic {self.topic!r}, not {topic!r}")
        if topic_id != self.topic_id:
            raise OtherTopic(
                f"topic {topic!r} was deleted and created again since {self.path} was begun "
                f"(id {self.topic_id} then, {topic_id} now): archive the new one elsewhere, or "
                "move the old lake away"
            )

    def commit(self, files: Sequence[OffsetFile], cuts: Mapping[int, int]) -> None:
        """Make `files` visible and move the cuts: all of it, or nothing.

        `LakeInUse` if another driver has moved a cut since this version was read.
        """
        batch_id = self.batch_id + 1
        transactions = [Transaction(_QUERY, batch_id)]
        transactions += [Transaction(_application(each), cuts[each]) for each in sorted(cuts)]
        now_ms = _now_ms()
        adds = [file.add_action(now_ms=now_ms, is_new_data=True) for file in files]
        try:
            self._write(adds, app_transactions=transactions)
        except CommitFailedError as error:
            raise LakeInUse(
                f"another driver has written to {self.path}: stop one of the two "
                f"({first_line(error)})"
            ) from None
        self.refresh()

    def replace(self, old: Sequence[OffsetFile], new: Sequence[OffsetFile]) -> None:
        """The same rows in other files. Archiving may go on meanwhile."""
        now_ms = _now_ms()
        actions: list[Any] = [file.add_action(now_ms=now_ms, is_new_data=False) for file in new]
        for file in old:
            values: dict[str, str | None] = {PARTITION: str(file.partition)}
            actions.append(RemoveAction(file.path, False, now_ms, file.size, values))
        for attempt in range(_MAX_COMMIT_ATTEMPTS):
            self.refresh()
            visible = {file.path for file in self.files()}
            if not all(file.path in visible for file in old):
                raise LakeInUse(f"another process has rewritten files of {self.path}")
            try:
                self._write(actions)
            except CommitFailedError:
                if attempt + 1 == _MAX_COMMIT_ATTEMPTS:
                    raise
            else:
                self.refresh()
                return

    def vacuum(self, *, keep_hours: int) -> list[str]:
        """Delete what no version of the last `keep_hours` refers to; the paths."""
        deleted: list[str] = self._table.vacuum(
            keep_hours, dry_run=False, enforce_retention_duration=False, full=True
        )
        return deleted

    def checkpoint(self) -> None:
        self._table.create_checkpoint()

    def _write(self, actions: list[Any], **properties: Any) -> None:
        try:
            self._table.create_write_transaction(
                actions,
                "append",
                TABLE_SCHEMA,
                [PARTITION],
                commit_properties=CommitProperties(**properties),
            )
        except CommitFailedError:
            raise
        except (DeltaError, OSError) as error:
            raise explained(error, self.path) from None


def open_table(path: Path) -> ArchiveTable:
    """The newest version; `NoLake` if there is none."""
    try:
        return ArchiveTable(path, DeltaTable(str(path)))
    except TableNotFoundError:
        raise NoLake(
            f"there is no archive at {path}: make one with `tidelog spark archive`"
        ) from None


def create_table(path: Path, *, topic: str, topic_id: str) -> ArchiveTable:
    """An empty one; if there is one, that one."""
    path.mkdir(parents=True, exist_ok=True)
    try:
        DeltaTable.create(
            str(path),
            TABLE_SCHEMA,
            mode="ignore",
            partition_by=[PARTITION],
            name=topic,
            configuration={_TOPIC: topic, _TOPIC_ID: topic_id},
            raise_if_key_not_exists=False,
        )
    except (DeltaError, OSError) as error:
        raise explained(error, path) from None
    return open_table(path)


def explained(error: Exception, path: Path) -> LakeError:
    """What went wrong, in one line; a full disk by its name."""
    text = first_line(error)
    if getattr(error, "errno", None) == errno.ENOSPC or any(each in str(error) for each in _FULL):
        return disk_full(path)
    return LakeError(f"{path}: {text}")


def disk_full(path: Path) -> DiskFull:
    return DiskFull(
        f"no space left on the disk of {path}: nothing of this batch is visible; "
        "free some and run it again"
    )


def first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def _application(partition: int) -> str:
    return f"tidelog.partition.{partition}"


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
