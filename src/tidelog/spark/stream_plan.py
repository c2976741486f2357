"""What the next batch of a stream reads, given where it stands and what the cluster has now.

PURE. Three things may have happened since the last batch, besides new records: partitions were
added, topics or partitions vanished, a topic was deleted and created again. The first is taken up
from its beginning; the others are loss, by `failOnDataLoss` an error or a warning.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tidelog.model.ids import TopicPartition
from tidelog.spark import losses
from tidelog.spark.offsets import StreamOffsets
from tidelog.spark.planner import OffsetRange, is_batch_due, plan_limited


@dataclass(frozen=True, slots=True)
class Horizon:
    """What the cluster has at one moment: each partition's first and next offset."""

    first: Mapping[TopicPartition, int]
    last: Mapping[TopicPartition, int]
    topic_ids: Mapping[str, str]

    def capped(self, target: Horizon) -> Horizon:
        """Nothing beyond `target`: for a query that ends with what was there when it began."""
        return Horizon(
            self.first,
            {
                place: min(last, target.last[place])
                for place, last in self.last.items()
                if place in target.last
            },
            self.topic_ids,
        )


@dataclass(frozen=True, slots=True)
class Loss:
    """Records that a stream will not see, and why."""

    gone: tuple[OffsetRange, ...]
    cause: str

    def __str__(self) -> str:
        return losses.sentence(self.gone, self.cause)


@dataclass(frozen=True, slots=True)
class Limits:
    """`waited_ms` since the last batch, `is_eager` where waiting for more makes no sense."""

    max_records: int | None = None
    min_records: int | None = None
    waited_ms: int = 0
    max_delay_ms: int = 0
    is_eager: bool = False


def find_losses(start: StreamOffsets, horizon: Horizon) -> list[Loss]:
    """What lies between `start` and now and can't be read any more, by cause."""
    now = StreamOffsets(horizon.last, horizon.topic_ids)
    deleted, again, vanished, shorter = [], [], [], []
    for place, offset in sorted(start.next.items()):
        gone = OffsetRange(*place, offset, offset)
        if place.topic not in horizon.topic_ids:
            deleted.append(gone)
        elif not start.is_same_topic(now, place.topic):
            again.append(gone)
        elif place not in horizon.last:
            vanished.append(gone)
        elif horizon.last[place] < offset:
            shorter.append(OffsetRange(*place, horizon.last[place], offset))
    by_cause = (
        (deleted, losses.DELETED),
        (again, losses.CREATED_AGAIN),
        (vanished, losses.NO_PARTITION),
        (shorter, losses.LOG_SHORTER),
    )
    return [Loss(tuple(gone), cause) for gone, cause in by_cause if gone]


def plan_end(start: StreamOffsets, horizon: Horizon, limits: Limits) -> StreamOffsets:
    """Where the next batch ends: `start` itself if there is nothing to do, or too little yet."""
    available, new = _available(start, horizon)
    total = sum(each.count for each in available)
    is_due = limits.is_eager or is_batch_due(
        total,
        min_records=limits.min_records,
        waited_ms=limits.waited_ms,
        max_delay_ms=limits.max_delay_ms,
    )
    has_moved = new or start.next.keys() != {each.place for each in available}
    if not is_due or (total == 0 and not has_moved):
        return start
    ends = plan_limited(available, max_records=limits.max_records)
    return StreamOffsets(ends, dict(horizon.topic_ids), new)


def _available(
    start: StreamOffsets, horizon: Horizon
) -> tuple[list[OffsetRange], dict[TopicPartition, int]]:
    """All that could be read, and where the partitions begin that `start` does not know."""
    now = StreamOffsets(horizon.last, horizon.topic_ids)
    ranges: list[OffsetRange] = []
    new: dict[TopicPartition, int] = {}
    for place, last in sorted(horizon.last.items()):
        if place in start.next and start.is_same_topic(now, place.topic):
            # A log that has become shorter was reported as a loss: go on from its end.
            begin = min(start.next[place], last)
        else:
            begin = new[place] = min(horizon.first[place], last)
        ranges.append(OffsetRange(*place, begin, last))
    return ranges, new


def lag(start: StreamOffsets, horizon: Horizon) -> int:
    """Records between where a stream stands and the end of its topics."""
    available: Iterable[OffsetRange] = _available(start, horizon)[0]
    return sum(each.count for each in available)
