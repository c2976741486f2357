"""What goes wrong with a disk, and how often. All off unless the nemesis turns it on."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from random import Random

from tidelog.log.disk import DiskError


class PowerLost(Exception):
    """The machine is dead in the middle of a call. No node may catch this: it isn't there."""


@dataclass(slots=True)
class DiskFaults:
    """Rates are per call. `counted` says what really happened, for the report.

    `changes_left`, if set, is how many more changes the disk takes before the power fails: so a
    crash falls between any two steps of a recovery, or of a step of the node.
    """

    random: Random
    read_error_rate: float = 0.0
    write_error_rate: float = 0.0
    sync_error_rate: float = 0.0
    capacity_bytes: int | None = None
    changes_left: int | None = None
    counted: Counter[str] = field(default_factory=Counter)

    def heal(self) -> None:
        """From now on the disk works, and has room."""
        self.read_error_rate = self.write_error_rate = self.sync_error_rate = 0.0
        self.capacity_bytes = None
        self.changes_left = None

    def before_change(self) -> None:
        """Called before anything that alters what a crash would leave."""
        if self.changes_left is None:
            return
        self.changes_left -= 1
        if self.changes_left < 0:
            self.changes_left = None
            raise PowerLost

    def before_read(self, path: str) -> None:
        if self._strikes(self.read_error_rate, "read error"):
            raise DiskError(f"{path}: input/output error on read")

    def is_write_failing(self, path: str) -> bool:
        return self._strikes(self.write_error_rate, "write error")

    def is_sync_failing(self, path: str) -> bool:
        return self._strikes(self.sync_error_rate, "fsync error")

    def part_of(self, data: bytes) -> bytes:
        """What a failing write leaves behind: any beginning of it."""
        return data[: self.random.randint(0, len(data))] if data else data

    def note(self, kind: str) -> None:
        self.counted[kind] += 1

    def _strikes(self, rate: float, kind: str) -> bool:
        if rate <= 0.0 or self.random.random() >= rate:
            return False
        self.note(kind)
        return True
