"""Requests that can't be answered yet: one table of rows, each waiting for something with a name.

A row waits for partitions (their high watermark to move), for those of a fetch session, which keeps
its own rows (`among`), for a metadata offset to be committed, or
for a reply that a group coordinator will give by the row's number. A row of any kind may wait for
ranges of files besides, which know its number (`reading.py`). Waking a row asks it for its
response; it may say "not yet" and stay. A row has a deadline, except where the coordinator keeps
the time. Rows are plain data: `describe` prints them, and none holds a frame's memory.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable
from heapq import heappop, heappush
from math import inf
from typing import Any, NamedTuple

from tidelog.broker.connections import Slot
from tidelog.model.clock import Now
from tidelog.model.compiled import mypyc_attr
from tidelog.model.ids import Offset, PartitionKey


class Postponed(NamedTuple):
    """Not yet: its time was up, and it is given more, until then."""

    until_ms: float


@mypyc_attr(allow_interpreted_subclasses=True)
class Wait(ABC):
    """What is being waited for, and how it ends."""

    __slots__ = ()

    @abstractmethod
    def resume(self, now: Now, *, is_expired: bool) -> Any | None:
        """The response, or None to go on waiting (not an option once expired: then `Postponed`)."""

    @abstractmethod
    def describe(self) -> str: ...

    def abandoned(self, number: int) -> None:
        """The client of row `number` is gone."""
        return


class Row:
    """One waiting request."""

    __slots__ = ("among", "deadline_ms", "is_waiting", "number", "partitions", "slot", "wait")

    def __init__(
        self,
        number: int,
        slot: Slot,
        wait: Wait,
        *,
        deadline_ms: float,
        partitions: list[PartitionKey],
    ) -> None:
        self.number = number
        self.slot = slot
        self.wait = wait
        self.deadline_ms = deadline_ms
        self.partitions = partitions
        self.among: dict[int, Row] | None = None
        """Others' list that it is in while it waits."""
        self.is_waiting = True


class Pending:
    """The table. Bounded by the connections' in-flight limits: a row belongs to a slot."""

    def __init__(self) -> None:
        self._rows: dict[int, Row] = {}
        self._by_partition: dict[PartitionKey, dict[int, Row]] = {}
        self._by_slot: dict[Slot, Row] = {}
        self._by_offset: deque[tuple[Offset, Row]] = deque()
        self._on_image: dict[int, Row] = {}
        self._deadlines: list[tuple[float, int]] = []
        self._next_number = 0
        self.deadline_ms: float | None = None
        """The earliest, kept because it is asked for after every turn. It may be that of a row that
        is answered already, and so too early, never too late."""

    def __len__(self) -> int:
        return len(self._rows)

    def park_on_partitions(
        self, slot: Slot, wait: Wait, *, partitions: Iterable[PartitionKey], deadline_ms: float
    ) -> Row:
        """Wake the row whenever the watermark of one of `partitions` moves."""
        row = self._add(slot, wait, deadline_ms=deadline_ms, partitions=list(partitions))
        for key in row.partitions:
            self._by_partition.setdefault(key, {})[row.number] = row
        return row

    def watch(self, row: Row, partitions: Iterable[PartitionKey]) -> None:
        """Wake a row that is parked among others' whenever one of `partitions` moves, too."""
        for key in partitions:
            row.partitions.append(key)
            self._by_partition.setdefault(key, {})[row.number] = row

    def park_among(
        self, slot: Slot, wait: Wait, among: dict[int, Row], *, deadline_ms: float
    ) -> Row:
        """Whoever has `among` wakes the row. It is taken out of there when it waits no longer."""
        row = self._add(slot, wait, deadline_ms=deadline_ms, partitions=[])
        row.among = among
        among[row.number] = row
        return row

    def park_on_metadata(
        self, slot: Slot, wait: Wait, *, offset: Offset, deadline_ms: float
    ) -> None:
        """Wake the row once the metadata log is committed past `offset`."""
        row = self._add(slot, wait, deadline_ms=deadline_ms, partitions=[])
        self._by_offset.append((offset, row))

    def park_on_image(self, slot: Slot, wait: Wait, *, deadline_ms: float) -> None:
        """Wake the row whenever the node's image has changed."""
        row = self._add(slot, wait, deadline_ms=deadline_ms, partitions=[])
        self._on_image[row.number] = row

    def waiting_for_image(self) -> list[Row]:
        return list(self._on_image.values())

    def waiting_for_metadata(self) -> list[Row]:
        """Rows that a commit of this node's own decisions would wake."""
        return [row for _, row in self._by_offset if row.number in self._rows]

    def park_on_reads(self, slot: Slot, wait: Wait, *, deadline_ms: float) -> int:
        """Wake the row, whose number is given, once a range that knows it was read."""
        return self._add(slot, wait, deadline_ms=deadline_ms, partitions=[]).number

    def park_on_reply(self, slot: Slot, wait: Wait) -> int:
        """Wait for `take` with the number that is given here."""
        return self._add(slot, wait, deadline_ms=inf, partitions=[]).number

    def take(self, number: int) -> Row | None:
        """The row of that number, which is no longer waiting; None if its client is gone."""
        row = self._rows.get(number)
        if row is not None:
            self.remove(row)
        return row

    def row(self, number: int) -> Row | None:
        """The row of that number, if it is still waiting."""
        return self._rows.get(number)

    def has_number(self, number: int) -> bool:
        """Whether somebody still waits for that row's answer."""
        return number in self._rows

    def waiting_for(self, key: PartitionKey) -> list[Row]:
        if not self._by_partition:
            return []
        rows = self._by_partition.get(key)
        return list(rows.values()) if rows else []

    def committed(self, offset: Offset) -> list[Row]:
        """Rows whose metadata is committed now that everything below `offset` is."""
        rows: list[Row] = []
        while self._by_offset and self._by_offset[0][0] < offset:
            row = self._by_offset.popleft()[1]
            if row.number in self._rows:
                rows.append(row)
        return rows

    def expired(self, now_ms: float) -> list[Row]:
        rows: list[Row] = []
        if self.deadline_ms is None or now_ms < self.deadline_ms:
            return rows
        deadlines = self._deadlines
        while deadlines and (deadlines[0][0] <= now_ms or deadlines[0][1] not in self._rows):
            row = self._rows.get(heappop(deadlines)[1])
            if row is not None:
                rows.append(row)
        self.deadline_ms = deadlines[0][0] if deadlines else None
        return rows

    def postpone(self, row: Row, until_ms: float) -> None:
        """Let a row that has expired wait on."""
        row.deadline_ms = until_ms
        self._expire_at(until_ms, row.number)

    def remove(self, row: Row) -> None:
        if self._rows.pop(row.number, None) is None:
            return
        row.is_waiting = False
        del self._by_slot[row.slot]
        self._on_image.pop(row.number, None)
        if row.among is not None:
            row.among.pop(row.number, None)
        for key in row.partitions:
            rows = self._by_partition.get(key)
            if rows is not None:
                rows.pop(row.number, None)
                if not rows:
                    del self._by_partition[key]
        if len(self._deadlines) > 2 * len(self._rows) + 64:
            live = [(r.deadline_ms, r.number) for r in self._rows.values() if r.deadline_ms != inf]
            self._deadlines = sorted(live)

    def remove_slot(self, slot: Slot) -> None:
        """Nobody waits for the slot's answer any more."""
        row = self._by_slot.get(slot)
        if row is not None:
            self.remove(row)
            row.wait.abandoned(row.number)

    def rows(self) -> list[Row]:
        return list(self._rows.values())

    def describe(self) -> list[str]:
        return [
            f"{row.slot.connection.peer}: {row.wait.describe()} until {row.deadline_ms:.0f} ms"
            for row in self._rows.values()
        ]

    def _add(
        self, slot: Slot, wait: Wait, *, deadline_ms: float, partitions: list[PartitionKey]
    ) -> Row:
        number = self._next_number
        self._next_number += 1
        row = Row(number, slot, wait, deadline_ms=deadline_ms, partitions=partitions)
        self._rows[number] = row
        self._by_slot[slot] = row
        if deadline_ms != inf:
            self._expire_at(deadline_ms, number)
        return row

    def _expire_at(self, deadline_ms: float, number: int) -> None:
        heappush(self._deadlines, (deadline_ms, number))
        if self.deadline_ms is None or deadline_ms < self.deadline_ms:
            self.deadline_ms = deadline_ms
