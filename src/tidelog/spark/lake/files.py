"""One file of an archive: which offsets it covers, and how the Delta log says so.

The range is in the file's name, so whoever reads the Delta log knows it without opening anything,
and it is exact where statistics are not: a range may end in offsets that hold no record
(compaction, markers). A file that another tool rewrote has only statistics; they serve instead.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

from deltalake.transaction import AddAction

from tidelog.spark.lake.schema import PARTITION

_NAME = re.compile(r"(?:.*/)?(\d{20})-(\d{20})-[0-9a-f]+\.parquet")
_MAX_STATED_US = 253_370_764_800_000_000
"""The year 9999: beyond it a time has no text that every reader understands."""


@dataclass(frozen=True, slots=True)
class OffsetFile:
    """A data file of one partition, with the offsets `first` to `next_offset` (not included).

    `path` is relative to the table. Times are microseconds since 1970; None where unknown.
    """

    path: str
    partition: int
    first: int
    next_offset: int
    rows: int
    size: int
    min_time_us: int | None = None
    max_time_us: int | None = None

    def may_hold(self, *, since_us: int | None, until_us: int | None) -> bool:
        """Whether a record of that time (`until_us` not included) can be inside."""
        is_too_old = since_us is not None and _is_less(self.max_time_us, since_us)
        is_too_new = (
            until_us is not None and self.min_time_us is not None and self.min_time_us >= until_us
        )
        return not (is_too_old or is_too_new)

    def add_action(self, *, now_ms: int, is_new_data: bool) -> AddAction:
        return AddAction(
            path=self.path,
            size=self.size,
            partition_values={PARTITION: str(self.partition)},
            modification_time=now_ms,
            data_change=is_new_data,
            stats=json.dumps(self._statistics()),
        )

    def _statistics(self) -> dict[str, Any]:
        low: dict[str, Any] = {"offset": self.first}
        high: dict[str, Any] = {"offset": self.next_offset - 1}
        if _may_be_stated(self.min_time_us) and _may_be_stated(self.max_time_us):
            low["timestamp"] = _time_text(self.min_time_us)
            high["timestamp"] = _time_text(self.max_time_us)
        return {
            "numRecords": self.rows,
            "minValues": low,
            "maxValues": high,
            "nullCount": {"offset": 0, "timestamp": 0},
        }


def file_name(partition: int, first: int, next_offset: int, unique: str) -> str:
    """The path inside the table. `unique` keeps two attempts at the same range apart."""
    return f"{PARTITION}={partition}/{first:020d}-{next_offset:020d}-{unique}.parquet"


def from_add_action(row: Mapping[str, Any]) -> OffsetFile:
    """A row of `DeltaTable.get_add_actions(flatten=True)`."""
    path = str(row["path"])
    named = _NAME.fullmatch(path)
    if named is not None:
        first, next_offset = int(named[1]), int(named[2])
    else:
        first, next_offset = int(row["min.offset"]), int(row["max.offset"]) + 1
    return OffsetFile(
        path=path,
        partition=int(row["partition.partition"]),
        first=first,
        next_offset=next_offset,
        rows=int(row["num_records"]),
        size=int(row["size_bytes"]),
        min_time_us=_microseconds(row.get("min.timestamp")),
        max_time_us=_microseconds(row.get("max.timestamp")),
    )


def in_order(files: Iterable[OffsetFile]) -> list[OffsetFile]:
    """By partition, then by offset."""
    return sorted(files, key=lambda file: (file.partition, file.first, file.next_offset))


def overlaps(files: Sequence[OffsetFile]) -> list[tuple[OffsetFile, OffsetFile]]:
    """Neighbours of one partition that cover the same offset; none in a sound archive."""
    ordered = in_order(files)
    return [
        (one, other)
        for one, other in pairwise(ordered)
        if one.partition == other.partition and other.first < one.next_offset
    ]


def _is_less(value: int | None, bound: int) -> bool:
    return value is not None and value < bound


def _may_be_stated(time_us: int | None) -> bool:
    return time_us is not None and 0 <= time_us < _MAX_STATED_US


def _time_text(time_us: int | None) -> str:
    """Delta's form. Kafka's times are whole milliseconds, so none is lost."""
    moment = datetime.fromtimestamp((time_us or 0) / 1_000_000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _microseconds(moment: datetime | None) -> int | None:
    if moment is None:
        return None
    return round(moment.timestamp() * 1_000_000)
