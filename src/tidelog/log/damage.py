"""What is wrong with a log's files: said once to the operator, kept where reads will meet it."""

from __future__ import annotations

from bisect import insort
from dataclasses import dataclass
from operator import attrgetter
from typing import Literal

DamageKind = Literal["quarantined", "cut", "missing"]


@dataclass(frozen=True, slots=True)
class Damage:
    """A range of offsets that cannot be served; empty for bytes that belong to no record.

    `quarantined`: the bytes stay where they are, unread. `cut`: they were an unflushed tail and are
    gone from the log, kept in `evidence` if some of them made sense. `missing`: there are no bytes.
    """

    kind: DamageKind
    path: str
    position: int
    end_position: int
    first_offset: int
    next_offset: int
    reason: str
    evidence: str = ""

    def __str__(self) -> str:
        kept = f"; the bytes are kept in {self.evidence}" if self.evidence else ""
        offsets = f"offsets {self.first_offset} to {self.next_offset - 1}"
        return (
            f"{self.path}: {self.kind} bytes {self.position} to {self.end_position}, "
            f"{offsets if self.has_offsets else 'no offsets'}: {self.reason}{kept}"
        )

    @property
    def has_offsets(self) -> bool:
        return self.next_offset > self.first_offset


class Ranges:
    """A set of byte ranges, merged where they touch; it forgets the oldest beyond `LIMIT`."""

    LIMIT = 256

    def __init__(self) -> None:
        self._ranges: list[tuple[int, int]] = []

    def add(self, start: int, end: int) -> None:
        apart: list[tuple[int, int]] = []
        for low, high in self._ranges:
            if high < start or low > end:
                apart.append((low, high))
            else:
                start, end = min(start, low), max(end, high)
        del apart[: len(apart) + 1 - self.LIMIT]
        insort(apart, (start, end))
        self._ranges = apart

    def covers(self, start: int, end: int) -> bool:
        return start >= end or any(low <= start and end <= high for low, high in self._ranges)

    def cut(self, end: int) -> None:
        """Forget all at and after `end`."""
        self._ranges = [(low, min(high, end)) for low, high in self._ranges if low < end]


class Holes:
    """The damage within one segment, by position."""

    def __init__(self) -> None:
        self._holes: list[Damage] = []

    def __bool__(self) -> bool:
        return bool(self._holes)

    def add(self, hole: Damage) -> None:
        """A hole that reaches into others takes their place."""
        apart = [
            other
            for other in self._holes
            if other.end_position <= hole.position or other.position >= hole.end_position
        ]
        self._holes = sorted([*apart, hole], key=attrgetter("position"))

    def first_from(self, position: int) -> Damage | None:
        """The first hole that ends after `position`."""
        return next((hole for hole in self._holes if hole.end_position > position), None)

    def losses(self) -> list[Damage]:
        """The holes in which offsets were lost. Bytes that nobody wrote there, between two whole
        batches, are a hole without an offset: they cost nothing."""
        return [hole for hole in self._holes if hole.has_offsets]

    def with_offset(self, offset: int) -> Damage | None:
        found = (hole for hole in self._holes if hole.first_offset <= offset < hole.next_offset)
        return next(found, None)

    def cut(self, end: int) -> None:
        self._holes = [hole for hole in self._holes if hole.position < end]
