"""A host's clocks: the monotonic one only drifts, the wall clock also jumps."""

from __future__ import annotations

from random import Random

from tidelog.model.clock import Now

EPOCH_MS = 1_700_000_000_000
"""Virtual time zero, as the wall clock tells it."""


class HostClock:
    """From virtual time to what a host believes."""

    def __init__(self, random: Random) -> None:
        self._rate = 1.0 + random.uniform(-0.001, 0.001)
        self._boot_ms = random.uniform(0.0, 1e6)
        self._wall_offset_ms = random.uniform(-1000.0, 1000.0)

    def now(self, virtual_ms: float) -> Now:
        passed_ms = virtual_ms * self._rate
        return Now(self._boot_ms + passed_ms, int(EPOCH_MS + passed_ms + self._wall_offset_ms))

    def virtual_of(self, monotonic_ms: float) -> float:
        """When the host's monotonic clock will show `monotonic_ms`."""
        return (monotonic_ms - self._boot_ms) / self._rate

    def jump(self, offset_ms: float) -> None:
        """Somebody has set the wall clock."""
        self._wall_offset_ms += offset_ms
