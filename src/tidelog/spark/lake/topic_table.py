"""A Delta table that follows a topic: which one, and how far, in the Delta log alone.

Every commit says, per partition, which offset comes next (an application transaction). Two drivers
that worked from the same cuts write the same transactions, and Delta lets only the first of them
commit. So the table alone decides what is done; there is no checkpoint beside it that could
disagree.
"""

from __future__ import annotations

import errno
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError

from tidelog.spark.lake.errors import DiskFull, LakeError, LakeInUse, NoLake, OtherTopic

Kind = Literal["archive", "latest"]

_KIND = "tidelog.kind"
_TOPIC = "tidelog.topic"
_TOPIC_ID = "tidelog.topicId"
_QUERY = "tidelog.batch"
_FULL = ("No space left on device", f"os error {errno.ENOSPC}")
_COMMANDS: dict[Kind, str] = {"archive": "tidelog spark archive", "latest": "tidelog spark table"}
_WORDS: dict[Kind, str] = {"archive": "archive", "latest": "table of latest values"}


class TopicTable:
    """One version of the table, until `refresh`."""

    def __init__(self, path: Path, table: DeltaTable) -> None:
        self.path = path
        self._table = table
        configuration = table.metadata().configuration
        if _TOPIC not in configuration:
            raise LakeError(f"{path} is a Delta table, but none that Tidelog made of a topic")
        self.kind: Kind = "latest" if configuration[_KIND] == "latest" else "archive"
        self.topic: str = configuration[_TOPIC]
        self.topic_id: str = configuration[_TOPIC_ID]

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

    def sizes(self) -> list[int]:
        """Bytes of each visible file."""
        return list(pa.table(self._table.get_add_actions())["size_bytes"].to_pylist())

    def paths(self) -> list[str]:
        """Of each visible file, relative to the table."""
        return sorted(pa.table(self._table.get_add_actions())["path"].to_pylist())

    def check_topic(self, topic: str, topic_id: str) -> None:
        """`OtherTopic` unless the lake is of this very topic: names come back, ids do not.
        Brokers of old tell no id; then the name has to do."""
        if topic != self.topic:
            raise OtherTopic(f"{self.path} holds topic {self.topic!r}, not {topic!r}")
        if topic_id and self.topic_id and topic_id != self.topic_id:
            raise OtherTopic(
                f"topic {topic!r} was deleted and created again since {self.path} was begun "
                f"(id {self.topic_id} then, {topic_id} now): archive the new one elsewhere, or "
                "move the old lake away"
            )

    def transactions(self, cuts: Mapping[int, int]) -> CommitProperties:
        """What a commit says beside its files: the batch, and each partition's next offset."""
        moved = [Transaction(_QUERY, self.batch_id + 1)]
        moved += [Transaction(_application(each), cuts[each]) for each in sorted(cuts)]
        return CommitProperties(app_transactions=moved)

    def was_overtaken(self, error: CommitFailedError) -> LakeInUse:
        return LakeInUse(
            f"another driver has written to {self.path}: stop one of the two ({first_line(error)})"
        )

    def vacuum(self, *, keep_hours: int) -> list[str]:
        """Delete what no version of the last `keep_hours` refers to; the paths."""
        try:
            deleted: list[str] = self._table.vacuum(
                keep_hours, dry_run=False, enforce_retention_duration=False, full=True
            )
        except (DeltaError, OSError) as error:
            raise explained(error, self.path) from None
        return deleted

    def write(self, actions: list[Any], properties: CommitProperties | None = None) -> None:
        """One commit of files added and removed. `CommitFailedError` if it lost a race."""
        try:
            self._table.create_write_transaction(
                actions,
                "append",
                self._table.schema(),
                self._table.metadata().partition_columns,
                commit_properties=properties,
            )
        except CommitFailedError:
            raise
        except (DeltaError, OSError) as error:
            raise explained(error, self.path) from None


def open_delta(path: Path, kind: Kind) -> DeltaTable:
    """The newest version; `NoLake` if there is none."""
    try:
        return DeltaTable(str(path))
    except TableNotFoundError:
        raise NoLake(
            f"there is no {_WORDS[kind]} at {path}: make one with `{_COMMANDS[kind]}`"
        ) from None
    except (DeltaError, OSError) as error:
        raise explained(error, path) from None


def create_delta(
    path: Path,
    kind: Kind,
    schema: pa.Schema,
    *,
    topic: str,
    topic_id: str,
    partition_by: Sequence[str] = (),
) -> None:
    """An empty one, unless there is one."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        DeltaTable.create(
            str(path),
            schema,
            mode="ignore",
            partition_by=list(partition_by),
            name=topic,
            configuration={_KIND: kind, _TOPIC: topic, _TOPIC_ID: topic_id},
            raise_if_key_not_exists=False,
        )
    except (DeltaError, OSError) as error:
        raise explained(error, path) from None


def need_kind(table: TopicTable, kind: Kind) -> None:
    if table.kind != kind:
        raise LakeError(
            f"{table.path} is the {_WORDS[table.kind]} of topic {table.topic!r}, no {_WORDS[kind]}"
        )


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


def now_ms() -> int:
    return time.time_ns() // 1_000_000
