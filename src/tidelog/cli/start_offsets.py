"""From what a user means by a place in a topic to an offset of each partition."""

from __future__ import annotations

import time

import typer

from tidelog.cli.failure import CommandFailed
from tidelog.cli.start_point import StartPoint, parse_start
from tidelog.client import Admin
from tidelog.model.ids import TopicPartition


def start_point(text: str, *, option: str) -> StartPoint:
    """What the user means; a mistake is one of the command line."""
    try:
        return parse_start(text, now_ms=time.time_ns() // 1_000_000)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=option) from None


def start_offsets(
    admin: Admin, topic: str, *, partition: int | None, point: StartPoint
) -> dict[TopicPartition, int]:
    """The offset of `point` in each partition, or `CommandFailed` if there is none."""
    chosen = admin.topic(topic).chosen(partition)
    if point.kind == "time":
        return admin.offsets_at(chosen, point.number)
    spans = admin.offsets(chosen)
    if point.kind == "offset":
        return {each: _within(each, point.number, spans[each]) for each in _single(chosen)}
    return {
        each: span.start if point.kind == "beginning" else span.end for each, span in spans.items()
    }


def _single(chosen: list[TopicPartition]) -> list[TopicPartition]:
    if len(chosen) > 1:
        raise CommandFailed(
            f"topic {chosen[0].topic!r} has {len(chosen)} partitions, each with offsets of its "
            "own: say which with --partition N"
        )
    return chosen


def _within(partition: TopicPartition, offset: int, span: tuple[int, int]) -> int:
    start, end = span
    if not start <= offset <= end:
        raise CommandFailed(
            f"offset {offset} is not in partition {partition.partition} of {partition.topic!r}: "
            f"it begins at {start}, and its next record gets {end}"
        )
    return offset
