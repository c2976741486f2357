"""Where a group is to begin: `--to earliest | latest | OFFSET | a time | +N | -N`, and what that
comes to for each partition. Nothing here asks a broker."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tidelog.cli.start_point import StartPoint, parse_start
from tidelog.client.admin import Offsets
from tidelog.model.ids import TopicPartition

_SHIFT = re.compile(r"[+-]\d{1,18}")
_SYNONYMS = {"earliest": "beginning", "latest": "end"}


@dataclass(frozen=True, slots=True)
class Shift:
    """So many records on from what is committed; back if negative."""

    records: int


ResetPoint = StartPoint | Shift


@dataclass(frozen=True, slots=True)
class Move:
    """What becomes of one partition. `old` is None where nothing was committed; `is_bounded` if
    the log begins later, or ends before, what was asked for."""

    partition: TopicPartition
    old: int | None
    new: int
    is_bounded: bool = False

    @property
    def change(self) -> int | None:
        return None if self.old is None else self.new - self.old


def parse_reset(text: str, *, now_ms: int) -> ResetPoint:
    """What the user means, or `ValueError` with a sentence."""
    if _SHIFT.fullmatch(text):
        return Shift(int(text))
    try:
        return parse_start(_SYNONYMS.get(text, text), now_ms=now_ms)
    except ValueError:
        raise ValueError(
            "must be earliest, latest, an offset, a time as 2030-01-31T12:00:00, so long ago as "
            f"10m or 2h, or +N or -N records: not {text!r}"
        ) from None


def plan_moves(
    point: ResetPoint,
    *,
    spans: Mapping[TopicPartition, Offsets],
    committed: Mapping[TopicPartition, int],
    offset_at: Callable[[TopicPartition], int],
) -> list[Move]:
    """One for each partition of `spans`, in order. `offset_at` is asked if `point` is a time.

    A `ValueError` if a group is to go on from what it has not committed.
    """
    moves = []
    for partition, span in sorted(spans.items()):
        old = committed.get(partition)
        wanted = _wanted(point, partition, span=span, old=old, offset_at=offset_at)
        new = max(span.start, min(wanted, span.end))
        moves.append(Move(partition, old, new, is_bounded=new != wanted))
    return moves


def _wanted(
    point: ResetPoint,
    partition: TopicPartition,
    *,
    span: Offsets,
    old: int | None,
    offset_at: Callable[[TopicPartition], int],
) -> int:
    if isinstance(point, Shift):
        if old is None:
            raise ValueError(
                f"nothing is committed for partition {partition.partition} of "
                f"{partition.topic!r}, so there is nothing to count from: say --to earliest, "
                "latest, an offset or a time"
            )
        return old + point.records
    if point.kind == "offset":
        return point.number
    if point.kind == "time":
        return offset_at(partition)
    return span.start if point.kind == "beginning" else span.end
