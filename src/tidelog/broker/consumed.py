"""How far all groups have read a partition, for certain: for `cleanup.policy=consumed`.

What the coordinators know is ahead of what is committed. So an offset that they tell today counts
from the moment on at which everything they had written until today is committed, and only as far
as they still say so.
"""

from __future__ import annotations

from collections.abc import Mapping

from tidelog.model.ids import Offset


class ConsumedOffset:
    """Of one partition. `ends` and `watermarks` are those of the offsets topic's partitions."""

    def __init__(self) -> None:
        self._proven: Offset | None = None
        self._claimed: tuple[Offset, Mapping[int, Offset]] | None = None

    def advance(
        self, told: Offset, ends: Mapping[int, Offset], watermarks: Mapping[int, Offset]
    ) -> Offset | None:
        """The coordinators tell `told` now; gives what is certain, None if nothing is yet."""
        if self._claimed is None or not _is_reached(self._claimed[1], watermarks):
            self._claimed = self._claimed or (told, ends)
        else:
            self._proven, self._claimed = self._claimed[0], (told, ends)
        if _is_reached(ends, watermarks):
            self._proven, self._claimed = told, None
        return None if self._proven is None else min(self._proven, told)


def _is_reached(ends: Mapping[int, Offset], watermarks: Mapping[int, Offset]) -> bool:
    return all(watermarks.get(number, -1) >= end for number, end in ends.items())
