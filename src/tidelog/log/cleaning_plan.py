"""What of a log is to be compacted, and which segments become one. Pure: it looks, and says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tidelog.log.segment import Segment
from tidelog.log.segment_indexes import MAX_RELATIVE_OFFSET
from tidelog.model.settings import TopicSettings


class DirtyPart(NamedTuple):
    """The closed segments that a pass looks at; those from `first_dirty` on have not been compacted
    yet. `is_due`: enough of them, or old enough."""

    segments: list[Segment]
    first_dirty: int
    dirty_ratio: float
    is_due: bool


def plan_cleaning(
    segments: Sequence[Segment],
    settings: TopicSettings,
    *,
    first_dirty: int,
    now_ms: int,
    limit_offset: int,
) -> DirtyPart | None:
    """`segments` is the whole log, the last being in use; nothing from `limit_offset` on counts.
    None if nothing is dirty."""
    closed = [segment for segment in segments[:-1] if segment.end_offset <= limit_offset]
    if settings.min_compaction_lag_ms:
        closed = _old_enough(closed, first_dirty, now_ms - settings.min_compaction_lag_ms)
    dirty = [segment for segment in closed if segment.end_offset > first_dirty]
    dirty_bytes = sum(segment.size for segment in dirty)
    if not dirty_bytes:
        return None
    ratio = dirty_bytes / sum(segment.size for segment in closed)
    is_due = ratio > settings.min_cleanable_dirty_ratio or _has_waited(dirty, settings, now_ms)
    return DirtyPart(closed, first_dirty, ratio, is_due)


def _old_enough(closed: list[Segment], first_dirty: int, latest_ms: int) -> list[Segment]:
    for number, segment in enumerate(closed):
        if segment.end_offset > first_dirty and segment.largest_timestamp() > latest_ms:
            return closed[:number]
    return closed


def _has_waited(dirty: Sequence[Segment], settings: TopicSettings, now_ms: int) -> bool:
    """The first batch of a segment is taken for its oldest, as Kafka does."""
    earliest_ms = now_ms - settings.max_compaction_lag_ms
    if earliest_ms <= 0:
        return False
    firsts = [segment.header_at(0) for segment in dirty]
    return any(first is not None and 0 <= first.max_timestamp < earliest_ms for first in firsts)


def plan_groups(
    segments: Sequence[Segment], *, end_offset: int, segment_bytes: int
) -> list[list[Segment]]:
    """The segments that begin below `end_offset`, adjacent ones together as long as they would fit
    into one. A damaged one stands alone."""
    groups: list[list[Segment]] = []
    size = 0
    for segment in segments:
        if segment.base_offset >= end_offset:
            break
        size += segment.size
        if groups and size <= segment_bytes and _may_join(groups[-1], segment):
            groups[-1].append(segment)
        else:
            groups.append([segment])
            size = segment.size
    return groups


def _may_join(group: Sequence[Segment], segment: Segment) -> bool:
    return (
        group[-1].end_offset == segment.base_offset
        and segment.end_offset - group[0].base_offset <= MAX_RELATIVE_OFFSET
        and not (segment.holes or group[-1].holes)
    )
