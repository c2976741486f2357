"""Offsets by timestamp: the index leads to the batch, and only that batch is opened. Where the next
record lies in a log that was compacted, and which offsets can't be read in one that is damaged."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from tidelog.log.segment import Segment
from tidelog.model.ids import NO_TIMESTAMP, LeaderEpoch, Offset
from tidelog.wire.batch import BatchHeader, has_valid_crc
from tidelog.wire.errors import DecodeError
from tidelog.wire.records import Record, decode_records

MAX_OPENED_BYTES = 64 * 1024 * 1024
MAX_OPENED_RECORDS = 100_000
"""A batch that unpacks to more than either is not looked into: its first offset must do."""


class TimestampedOffset(NamedTuple):
    """A record's offset, with the timestamp and the leader epoch it was written with."""

    offset: Offset
    timestamp: int
    leader_epoch: LeaderEpoch


def first_from(
    segments: Sequence[Segment], timestamp_ms: int, log_start_offset: int
) -> TimestampedOffset | None:
    """The first record from `log_start_offset` on whose timestamp is not before `timestamp_ms`."""
    for segment in segments:
        segment.indexes.load_timestamps()
        if segment.indexes.max_timestamp < timestamp_ms:
            continue
        start = segment.indexes.start_towards_timestamp(timestamp_ms)
        for position, header in segment.walk(*start):
            if (
                header.max_timestamp >= timestamp_ms
                and header.last_offset >= log_start_offset
                and header.records_count
            ):
                found = _first_in(segment, position, header, timestamp_ms, log_start_offset)
                if found is not None:
                    return found
    return None


def latest(segments: Sequence[Segment], log_start_offset: int) -> TimestampedOffset | None:
    """The first of the records with the largest timestamp."""
    largest = NO_TIMESTAMP
    for segment in segments:
        if segment.base_offset < log_start_offset:
            largest = max(largest, _largest_from(segment, log_start_offset))
        else:
            largest = max(largest, segment.largest_timestamp())
    if largest == NO_TIMESTAMP:
        return None
    return first_from(segments, largest, log_start_offset)


def past_empty(segment_with: Callable[[int], Segment | None], offset: int, until: int) -> int:
    """The next offset whose batch has records, or is not readable; `until` or later if all below
    that is what compaction has emptied, which is of use to no reader."""
    at = offset
    while at < until:
        segment = segment_with(at)
        if segment is None:
            break
        found = segment.next_record_from(at)
        if found < segment.end_offset:
            return found
        at = found
    return at


def _largest_from(segment: Segment, offset: int) -> int:
    """Of the records from `offset` on, which lies within the segment."""
    largest = NO_TIMESTAMP
    for position, header in segment.indexes.walk_from_offset(offset):
        if header.base_offset < offset:
            batch = memoryview(segment.file.read(position, header.size))
            records = _records_from(batch, header, NO_TIMESTAMP)
            times = [record.timestamp for record in records if record.offset >= offset]
            largest = max(times, default=NO_TIMESTAMP)
        elif header.records_count:
            largest = max(largest, header.max_timestamp)
    return largest


def _first_in(
    segment: Segment, position: int, header: BatchHeader, timestamp_ms: int, low_offset: int
) -> TimestampedOffset | None:
    batch = memoryview(segment.file.read(position, header.size))
    if not has_valid_crc(batch, header):
        return None  # damaged: its timestamps mean nothing, and a reader will be told
    epoch = LeaderEpoch(header.leader_epoch)
    late = _records_from(batch, header, timestamp_ms)
    if not late:
        # It can't be opened, or its header lies. Looking further would let somebody who writes
        # many such batches have all of them opened by one question.
        offset = Offset(max(header.base_offset, low_offset))
        return TimestampedOffset(offset, header.max_timestamp, epoch)
    for record in late:
        if record.offset >= low_offset:
            return TimestampedOffset(Offset(record.offset), record.timestamp, epoch)
    return None


def _records_from(batch: memoryview, header: BatchHeader, timestamp_ms: int) -> list[Record]:
    if header.records_count > MAX_OPENED_RECORDS:
        return []
    try:
        records = decode_records(batch, MAX_OPENED_BYTES, check_crc=False)
    except DecodeError:
        return []
    return [record for record in records if record.timestamp >= timestamp_ms]


def lost_ranges(segments: Sequence[Segment], log_start_offset: int) -> list[tuple[int, int]]:
    """The offsets that can't be read, ascending, each range with the offset behind it: damage in a
    segment's file, and what no file holds any more. Ranges that touch are one. The first may begin
    below the log's start: it is damage that reaches across it."""
    found: list[tuple[int, int]] = []
    end = log_start_offset
    for segment in segments:
        if segment.base_offset > end:
            _add_range(found, end, segment.base_offset)
        for hole in segment.holes.losses() if segment.holes else ():
            if hole.next_offset > log_start_offset:
                _add_range(found, hole.first_offset, hole.next_offset)
        end = max(end, segment.end_offset)
    return found


def _add_range(found: list[tuple[int, int]], first: int, behind: int) -> None:
    if found and first <= found[-1][1]:
        before = found.pop()
        first, behind = before[0], max(before[1], behind)
    found.append((first, behind))
