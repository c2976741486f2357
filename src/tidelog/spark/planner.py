"""What a batch reads, and which task reads what: numbers in, numbers out.

PURE: no broker, no Spark, no clock. An offset is the next to be read, so a range is half open:
`start` is read, `end` is not. Whatever the limits, every offset of the ranges lies in exactly one
split, in order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from heapq import heapify, heapreplace

from tidelog.model.ids import TopicPartition


@dataclass(frozen=True, order=True, slots=True)
class OffsetRange:
    """Offsets `start` to `end` of a partition, `end` excluded."""

    topic: str
    partition: int
    start: int
    end: int

    @property
    def place(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    @property
    def count(self) -> int:
        return max(0, self.end - self.start)

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition} [{self.start}, {self.end})"


@dataclass(frozen=True, order=True, slots=True)
class Split:
    """What one task reads. `topic_id` (empty where brokers tell none) makes sure that it is still
    the topic that was planned for."""

    offsets: OffsetRange
    topic_id: str = ""

    @property
    def topic(self) -> str:
        return self.offsets.topic

    @property
    def partition(self) -> int:
        return self.offsets.partition

    @property
    def start(self) -> int:
        return self.offsets.start

    @property
    def end(self) -> int:
        return self.offsets.end


def plan_splits(
    ranges: Iterable[OffsetRange],
    *,
    min_partitions: int | None = None,
    max_records_per_partition: int | None = None,
    topic_ids: Mapping[str, str] | None = None,
) -> list[Split]:
    """One split per range that is not empty, and more where the limits ask for it.

    No split has more than `max_records_per_partition` offsets. There are at least `min_partitions`
    splits if there are as many offsets; the further cuts go where the splits are largest.
    """
    ids = topic_ids or {}
    filled = sorted(each for each in ranges if each.count > 0)
    parts = [_parts_needed(each.count, max_records_per_partition) for each in filled]
    if min_partitions is not None:
        _add_parts(filled, parts, min_partitions)
    return [
        Split(piece, ids.get(piece.topic, ""))
        for each, count in zip(filled, parts, strict=True)
        for piece in _cut(each, count)
    ]


def plan_limited(
    available: Iterable[OffsetRange], *, max_records: int | None
) -> dict[TopicPartition, int]:
    """The end of each range, such that no more than `max_records` offsets are read in all.

    Partitions are read in proportion to what they hold, so that all come to their ends together
    and event time stays level; but each gets at least one record where the limit allows it, so
    that a small partition beside a huge one is not starved. Where the limit is below the number of
    partitions they take turns, by a start that moves with what has been read.
    """
    ranges = sorted(available)
    ends = {each.place: max(each.start, each.end) for each in ranges}
    total = sum(each.count for each in ranges)
    if max_records is None or total <= max_records:
        return ends
    filled = [each for each in ranges if each.count > 0]
    shares = _shares(filled, max_records, total)
    for each, share in zip(filled, shares, strict=True):
        ends[each.place] = each.start + share
    return ends


def is_batch_due(
    available: int, *, min_records: int | None, waited_ms: int, max_delay_ms: int
) -> bool:
    """Whether what is available is worth a batch: enough of it, or waited for long enough."""
    if min_records is None or available >= min_records:
        return True
    return waited_ms >= max_delay_ms


def _shares(filled: list[OffsetRange], max_records: int, total: int) -> list[int]:
    """How many offsets of each: `max_records` in all, which is less than there are."""
    count = len(filled)
    if max_records <= count:
        turn = sum(each.start for each in filled) % count
        return [1 if (index - turn) % count < max_records else 0 for index in range(count)]
    rest, rest_total = max_records - count, total - count
    exact = [(each.count - 1) * rest for each in filled]
    shares = [1 + value // rest_total for value in exact]
    left = max_records - sum(shares)
    by_remainder = sorted(range(count), key=lambda index: (-(exact[index] % rest_total), index))
    for index in by_remainder[:left]:
        shares[index] += 1
    return shares


def _parts_needed(count: int, most: int | None) -> int:
    return 1 if most is None else -(-count // most)


def _add_parts(filled: list[OffsetRange], parts: list[int], wanted: int) -> None:
    """One more part for the range whose parts are largest, until there are enough."""
    missing = min(wanted, sum(each.count for each in filled)) - sum(parts)
    if missing <= 0:
        return
    heap = [(-(each.count / parts[index]), index) for index, each in enumerate(filled)]
    heapify(heap)
    for _ in range(missing):
        _, index = heap[0]
        parts[index] += 1
        heapreplace(heap, (-(filled[index].count / parts[index]), index))


def _cut(whole: OffsetRange, parts: int) -> Iterable[OffsetRange]:
    """Equal pieces, the first of them longer by one where it does not come out even."""
    size, longer = divmod(whole.count, parts)
    start = whole.start
    for index in range(parts):
        end = start + size + (index < longer)
        yield OffsetRange(whole.topic, whole.partition, start, end)
        start = end
