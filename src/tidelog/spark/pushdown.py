"""Filters that need not be read past: offset, partition, topic, and the lower bound of timestamp.

The first three become the ranges that are read, exactly, and Spark need not look again. A timestamp
from below becomes an offset: everything before the first record of that time is older, whatever the
order of timestamps in the log. Records after it may be older too, so Spark filters them as well;
and a bound from above says nothing about offsets, so it stays with Spark alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
)

from tidelog.spark.cluster import Cluster
from tidelog.spark.options import SourceOptions
from tidelog.spark.planner import OffsetRange
from tidelog.spark.source import TidelogReader

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_NEVER_NULL = ("topic", "partition", "offset", "timestamp", "timestampType")


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the filters leave of a topic. None means all of them."""

    topics: frozenset[str] | None = None
    partitions: frozenset[int] | None = None
    lowest: int = 0
    """The first wanted offset."""
    highest: int | None = None
    """The last one."""
    from_timestamp_ms: int | None = None

    def narrowed(self, ranges: Iterable[OffsetRange]) -> list[OffsetRange]:
        """The part of each range that topic, partition and offset leave."""
        return [
            replace(
                each,
                start=max(each.start, self.lowest),
                end=each.end if self.highest is None else min(each.end, self.highest + 1),
            )
            for each in ranges
            if self.topics is None or each.topic in self.topics
            if self.partitions is None or each.partition in self.partitions
        ]


def push(filters: Iterable[Filter]) -> tuple[Wanted, list[Filter]]:
    """What `filters`, all of which must hold, leave; and those that Spark must still apply."""
    wanted, kept = Wanted(), []
    for each in filters:
        narrower = _narrower(wanted, each)
        if narrower is not None:
            wanted = narrower
        if narrower is None or (_column(each) == "timestamp" and not isinstance(each, IsNotNull)):
            kept.append(each)
    return wanted, kept


def _column(each: Filter) -> str | None:
    path = getattr(each, "attribute", None)
    return path[0] if isinstance(path, tuple) and len(path) == 1 else None


def _narrower(wanted: Wanted, each: Filter) -> Wanted | None:
    """`wanted` with one filter more; None if it is not one that offsets can express."""
    column = _column(each)
    if isinstance(each, IsNotNull):
        return wanted if column in _NEVER_NULL else None
    narrow: dict[str | None, Callable[[Wanted, Filter], Wanted | None]] = {
        "offset": _by_offset,
        "partition": _by_partition,
        "topic": _by_topic,
        "timestamp": _by_timestamp,
    }
    return narrow[column](wanted, each) if column in narrow else None


def _by_offset(wanted: Wanted, each: Filter) -> Wanted | None:
    low = wanted.lowest
    if isinstance(each, In):
        values = [value for value in each.value if isinstance(value, int)]
        is_run = values and sorted(set(values)) == list(range(min(values), max(values) + 1))
        if not is_run:
            return None
        return _bounded(wanted, max(low, min(values)), max(values))
    value: Any = getattr(each, "value", None)
    if not isinstance(value, int):
        return None
    if isinstance(each, EqualTo):
        return _bounded(wanted, max(low, value), value)
    if isinstance(each, GreaterThan | GreaterThanOrEqual):
        return replace(wanted, lowest=max(low, value + isinstance(each, GreaterThan)))
    if isinstance(each, LessThan | LessThanOrEqual):
        return _bounded(wanted, low, value - isinstance(each, LessThan))
    return None


def _bounded(wanted: Wanted, lowest: int, highest: int) -> Wanted:
    nearest = highest if wanted.highest is None else min(wanted.highest, highest)
    return replace(wanted, lowest=lowest, highest=nearest)


def _by_partition(wanted: Wanted, each: Filter) -> Wanted | None:
    values = _values(each, int)
    if values is None:
        return None
    before = wanted.partitions
    return replace(wanted, partitions=values if before is None else before & values)


def _by_topic(wanted: Wanted, each: Filter) -> Wanted | None:
    values = _values(each, str)
    if values is None:
        return None
    return replace(wanted, topics=values if wanted.topics is None else wanted.topics & values)


def _values(each: Filter, kind: type) -> frozenset[Any] | None:
    """The values that the filter allows, where it lists them. A null is never equal."""
    if isinstance(each, EqualTo) and isinstance(each.value, kind):
        return frozenset([each.value])
    if isinstance(each, In) and all(isinstance(value, kind | None) for value in each.value):
        return frozenset(value for value in each.value if value is not None)
    return None


def _by_timestamp(wanted: Wanted, each: Filter) -> Wanted | None:
    if not isinstance(each, EqualTo | GreaterThan | GreaterThanOrEqual):
        return None
    if not isinstance(each.value, datetime) or each.value.tzinfo is None:
        return None
    micros = (each.value - _EPOCH) // _MICROSECOND
    first_ms = micros // 1000 + 1 if isinstance(each, GreaterThan) else -(-micros // 1000)
    before = wanted.from_timestamp_ms
    return replace(wanted, from_timestamp_ms=max(first_ms, 0 if before is None else before))


class PushDownReader(TidelogReader):
    """Reads only what the filters leave. Made only where Spark's push-down is on: elsewhere a
    reader with `pushFilters` makes every query fail."""

    def __init__(self, options: SourceOptions, columns: tuple[str, ...]) -> None:
        super().__init__(options, columns)
        self._wanted = Wanted()

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        self._wanted, kept = push(filters)
        return kept

    def _narrowed(self, cluster: Cluster, ranges: list[OffsetRange]) -> list[OffsetRange]:
        left = [each for each in self._wanted.narrowed(ranges) if each.count > 0]
        earliest_ms = self._wanted.from_timestamp_ms
        if earliest_ms is None or not left:
            return left
        found = cluster.offsets_for_times({each.place: earliest_ms for each in left})
        return [
            replace(each, start=max(each.start, _or_end(found[each.place], each))) for each in left
        ]


def _or_end(offset: int | None, each: OffsetRange) -> int:
    """No record is as young: there is nothing to read."""
    return each.end if offset is None else offset
