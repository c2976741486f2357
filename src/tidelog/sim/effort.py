"""What the work of a step costs in virtual time.

Without it a step would take none, however much it reads, writes or syncs: a node that replays a
whole log in one step would look as good as one that works in slices, and no lease would ever be
late because of it. So every access to the disk within a step is charged to the node, which hears
of nothing else meanwhile (`Host`).

The figures are of a slow machine. A simulated log has hundreds of records where a real one has
millions; what a step may do at once, `MAX_EVENT_MS`, bounds its kind rather than its length.
"""

from __future__ import annotations

READ_MS = 0.02
WRITE_MS = 0.02
SYNC_MS = 1.0
READ_MS_PER_KB = 0.02

MAX_EVENT_MS = 80.0
"""For each event of a turn. Most take a hundredth; a request may have 16 logs opened that the disk
had refused before, with some syncs each."""

MAX_OPENING_MS = 160.0
"""The same for a node that opens its logs after it has caught up with its cluster. The recovery of
one log is one step, with two or three syncs for each segment above the flushed mark; and simulated
segments are tiny."""

HELD_BACK_FROM_MS = 0.25
"""So much must have come together before a node is held back: a schedule of tiny pauses would cost
the simulator more than they tell."""


class Effort:
    """What a node has spent on its disk so far."""

    __slots__ = ("spent_ms",)

    def __init__(self) -> None:
        self.spent_ms = 0.0

    def read(self, size: int) -> None:
        self.spent_ms += READ_MS + size / 1024 * READ_MS_PER_KB

    def wrote(self) -> None:
        self.spent_ms += WRITE_MS

    def synced(self) -> None:
        self.spent_ms += SYNC_MS
