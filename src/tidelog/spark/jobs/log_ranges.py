"""Which offsets are still to do, given how far a job is and what the log has. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from tidelog.model.ids import TopicPartition
from tidelog.spark.lake.errors import LostRecords, OtherTopic
from tidelog.spark.planner import OffsetRange

OnLoss = Literal["fail", "continue"]


def log_ranges(
    topic: str,
    done: Mapping[int, int],
    earliest: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    *,
    on_loss: OnLoss = "fail",
) -> list[OffsetRange]:
    """Of each partition in `ends`, what lies between the job's next offset and the end.

    A partition the job has not seen begins where the log does. `LostRecords` if the log begins
    after the job's next offset, unless `on_loss` is "continue"; `OtherTopic` if the log ends
    before it.
    """
    ranges, lost = [], []
    for place in sorted(ends):
        first, end = earliest[place], ends[place]
        start = done.get(place.partition, first)
        if start < first:
            lost.append(f"offsets {start} to {first - 1} of partition {place.partition}")
            start = first
        if start > end:
            raise OtherTopic(
                f"partition {place.partition} of topic {topic!r} ends at offset {end}, before "
                f"{start}, where this job is: it is not the log that was read before"
            )
        ranges.append(OffsetRange(topic, place.partition, start, end))
    if lost and on_loss == "fail":
        raise LostRecords(
            f"topic {topic!r} has deleted records before they were read: {', '.join(lost)}; "
            "--on-loss continue goes on with what is left"
        )
    return ranges
