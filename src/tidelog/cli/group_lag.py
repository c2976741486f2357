"""How far a group is behind: in records, and in seconds since the first it has not read."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from tidelog.client import Admin, Connection, Reader
from tidelog.client.admin import Offsets, Topic
from tidelog.client.group_admin import Group, Member
from tidelog.model.ids import TopicPartition

READ_TIMEOUT_S = 10.0
"""For the first unread records of all partitions together; what has not come stays unknown."""

_SMALL_READS = {"fetch.message.max.bytes": 65_536, "fetch.queue.backoff.ms": 1}
"""Only one record of each partition is wanted: librdkafka would fetch megabytes of the first ones
ahead, and let the others wait for a second whenever it has enough."""


@dataclass(frozen=True, slots=True)
class PartitionLag:
    """One partition. What nobody knows is None: nothing committed, nobody who leads, or the topic
    is gone (`is_gone`)."""

    partition: TopicPartition
    owner: Member | None
    committed: int | None
    span: Offsets | None
    behind_s: float | None = None
    is_gone: bool = False

    @property
    def lag(self) -> int | None:
        if self.committed is None or self.span is None:
            return None
        return lag_within(self.span, self.committed)

    @property
    def is_beyond_end(self) -> bool:
        """The offset is of another log: the topic was created anew, or has lost its end."""
        return (
            self.committed is not None and self.span is not None and self.committed > self.span.end
        )


def lag_within(span: Offsets, committed: int) -> int:
    """Offsets between what is committed and the end; those deleted meanwhile don't count."""
    return max(0, span.end - max(committed, span.start))


def partition_lags(
    admin: Admin, group: Group, committed: Mapping[TopicPartition, int]
) -> list[PartitionLag]:
    """Of each partition that the group has committed or a member owns; lag in records only."""
    owners = {place: member for member in group.members for place in member.partitions}
    places = sorted({**committed, **owners})
    topics = admin.topics() if places else []
    existing = {place for topic in topics for place in topic.topic_partitions}
    spans = known_offsets(admin, topics, places)
    return [
        PartitionLag(
            place,
            owners.get(place),
            committed.get(place),
            spans.get(place),
            is_gone=place not in existing,
        )
        for place in places
    ]


def known_offsets(
    admin: Admin, topics: list[Topic], places: list[TopicPartition]
) -> dict[TopicPartition, Offsets]:
    """Where they begin and end; without those that are gone, or that nobody leads."""
    led = {place for topic in topics for place in topic.led_partitions}
    return admin.offsets(place for place in places if place in led)


def total_lag(lags: list[PartitionLag]) -> int:
    return sum(each.lag or 0 for each in lags)


def most_behind_s(lags: list[PartitionLag]) -> float | None:
    """Of the partition that is furthest behind; None if not one is known."""
    return max((each.behind_s for each in lags if each.behind_s is not None), default=None)


def with_seconds(
    connection: Connection,
    lags: list[PartitionLag],
    *,
    on_read: Callable[[int], None] = lambda _count: None,
) -> list[PartitionLag]:
    """The same with `behind_s`. `on_read` hears of how many partitions it is known."""
    unread = {
        each.partition: max(each.committed, each.span.start)
        for each in lags
        if each.lag and each.committed is not None and each.span is not None
    }
    times = _first_times_ms(connection, unread, on_read=on_read)
    now_ms = time.time_ns() // 1_000_000
    return [
        replace(each, behind_s=_behind_s(each, times.get(each.partition), now_ms=now_ms))
        for each in lags
    ]


def _behind_s(each: PartitionLag, time_ms: int | None, *, now_ms: int) -> float | None:
    """A record without a timestamp, or dated in the future, tells nothing or nothing yet."""
    if each.lag == 0:
        return 0.0
    if time_ms is None or time_ms < 0:
        return None
    return max(0, now_ms - time_ms) / 1000


def _first_times_ms(
    connection: Connection,
    starts: dict[TopicPartition, int],
    *,
    on_read: Callable[[int], None],
) -> dict[TopicPartition, int]:
    """The timestamp of the first record at or after each offset."""
    times: dict[TopicPartition, int] = {}
    if not starts:
        return times
    options = {**connection.options, **_SMALL_READS}
    reader = Reader(replace(connection, options=options), starts=starts)
    deadline = time.monotonic() + READ_TIMEOUT_S
    try:
        while len(times) < len(starts) and time.monotonic() < deadline and not reader.is_at_end:
            for message in reader.poll():
                place = TopicPartition(message.topic, message.partition)
                times.setdefault(place, message.timestamp_ms)
            on_read(len(times))
    finally:
        reader.close()
    return times
