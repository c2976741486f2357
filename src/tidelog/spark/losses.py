"""What is lost and why, in the words of `failOnDataLoss`."""

from __future__ import annotations

from collections.abc import Sequence

from tidelog.spark.planner import OffsetRange

RETENTION = "retention or a deletion of records removed them before they were read"
LOG_SHORTER = "the log ends before them: it was truncated, or the topic was created again"
DELETED = "the topic was deleted"
CREATED_AGAIN = "the topic was deleted and created again"
NO_PARTITION = "the partition is not there any more"

_SHOWN = 5


def sentence(gone: Sequence[OffsetRange], cause: str) -> str:
    """The exact ranges, the cause, and what to do about it."""
    named = ", ".join(_words(each) for each in gone[:_SHOWN])
    more = f" and of {len(gone) - _SHOWN} more partitions" if len(gone) > _SHOWN else ""
    return (
        f"data loss: {named}{more}: {cause}. "
        "Set failOnDataLoss to false to go on without them, or start again from a new checkpoint"
    )


def _words(gone: OffsetRange) -> str:
    if gone.count == 0:
        return f"all from offset {gone.start} on of {gone.topic}-{gone.partition}"
    if gone.count == 1:
        return f"offset {gone.start} of {gone.topic}-{gone.partition}"
    return f"offsets {gone.start} to {gone.end - 1} of {gone.topic}-{gone.partition}"
