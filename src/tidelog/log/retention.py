"""Which closed segments a log may drop, oldest first: by age, by size, or because all have read it.

Kafka's rules, with one addition. A segment is as old as its newest record. Where that timestamp
can't be believed (there is none, or it lies further ahead than appends may), the segment is as old
as the next one that can be: it was written before it. So one wrong clock does not keep a log for
ever.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from tidelog.model.settings import TopicSettings
from tidelog.model.topic_settings import UNLIMITED


class Candidate(Protocol):
    """What must be known of a segment."""

    @property
    def end_offset(self) -> int: ...

    @property
    def size(self) -> int: ...

    def largest_timestamp(self) -> int:
        """-1 if no record has one. Asked for only where it matters: it may have to be read."""


class RetentionPlan(NamedTuple):
    """The first `number` segments go; `rolls` says that the last of all, in use, is among them and
    must be closed first."""

    number: int
    rolls: bool


NOTHING = RetentionPlan(0, False)


def plan_retention(
    segments: Sequence[Candidate],
    settings: TopicSettings,
    *,
    now_ms: int,
    limit_offset: int,
    consumed_offset: int | None,
) -> RetentionPlan:
    """`segments` is the whole log, the last being in use; nothing beyond `limit_offset` goes.

    `consumed_offset`: all below it has been read by every registered group; None if there is no
    such group, and then nothing counts as read.
    """
    is_aged = settings.is_deleted and settings.retention_ms != UNLIMITED
    is_sized = settings.is_deleted and settings.retention_bytes != UNLIMITED
    read_up_to = consumed_offset if settings.is_consumed and consumed_offset is not None else -1
    if not (is_aged or is_sized) and read_up_to < 0:
        return NOTHING
    excess = -1
    if is_sized:
        excess = sum(segment.size for segment in segments) - settings.retention_bytes
    count, closed = 0, len(segments) - 1
    for number, segment in enumerate(segments[:closed]):
        excess -= segment.size
        is_doomed = (
            segment.end_offset <= read_up_to
            or (is_sized and excess >= 0)
            or (is_aged and _is_expired(segments, number, settings, now_ms))
        )
        if not is_doomed or segment.end_offset > limit_offset:
            return RetentionPlan(count, False)
        count += 1
    rolls = (
        is_aged
        and segments[closed].size > 0
        and segments[closed].end_offset <= limit_offset
        and _is_expired(segments, closed, settings, now_ms)
    )
    return RetentionPlan(count + rolls, rolls)


def _is_expired(
    segments: Sequence[Candidate], number: int, settings: TopicSettings, now_ms: int
) -> bool:
    latest_credible = now_ms + settings.message_timestamp_after_max_ms
    for segment in segments[number:]:
        timestamp = segment.largest_timestamp()
        if 0 <= timestamp <= latest_credible:
            return now_ms - timestamp > settings.retention_ms
    return False
