"""When the age of a segment's records closes it: `segment.ms`, less a jitter per segment.

The jitter is a function of the partition's directory and the segment's base offset: partitions that
were created together close their segments at different times, and every replica of a partition,
also after a restart, at the same.
"""

from __future__ import annotations

from zlib import crc32

from tidelog.model.settings import TopicSettings


def roll_after_ms(settings: TopicSettings, directory: str, base_offset: int) -> int:
    """How much older than its newest record the first record of that segment may become."""
    segment_ms = settings.segment_ms
    if settings.is_compacted:
        segment_ms = min(segment_ms, settings.max_compaction_lag_ms)
    widest = min(settings.segment_jitter_ms, segment_ms)
    if widest == 0:
        return segment_ms
    return segment_ms - crc32(f"{directory}/{base_offset}".encode()) % widest
