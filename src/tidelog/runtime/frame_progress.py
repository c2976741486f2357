"""Whether the frame that a connection is receiving makes progress.

A frame that has begun holds memory. It must be complete, or longer by `STEP_BYTES`, within the time
that `socket.request.progress.timeout.ms` names; while other frames wait for memory, it must be
longer by at least a byte every `SHORTAGE_MS`. Time during which the node itself does not read from
the connection does not count.
"""

from __future__ import annotations

STEP_BYTES = 1024 * 1024
SHORTAGE_MS = 2000.0
"""How long a frame may hold memory others wait for, and not become longer."""


class FrameProgress:
    """One connection's. `look` is called every now and then with what has been received."""

    __slots__ = ("_frame", "_known_bytes", "_longer_ms", "_step_bytes", "_step_ms")

    def __init__(self) -> None:
        self._frame = -1
        self._step_bytes = self._known_bytes = 0
        self._step_ms = self._longer_ms = 0.0

    def forget(self) -> None:
        """No frame is under way, or the node does not read it: the time starts again."""
        self._frame = -1

    def look(self, now_ms: float, *, frame: int, received_bytes: int) -> None:
        """`frame` counts the connection's frames; `received_bytes` are of the one under way."""
        is_other = frame != self._frame
        self._frame = frame
        if is_other or received_bytes >= self._step_bytes + STEP_BYTES:
            self._step_bytes, self._step_ms = received_bytes, now_ms
        if is_other or received_bytes > self._known_bytes:
            self._longer_ms = now_ms
        self._known_bytes = received_bytes

    def is_too_slow(self, now_ms: float, *, timeout_ms: float, is_short: bool) -> bool:
        """`is_short`: this frame holds memory of the pool, and others wait for some."""
        if self._frame < 0:
            return False
        if is_short and now_ms - self._longer_ms >= SHORTAGE_MS:
            return True
        return now_ms - self._step_ms >= timeout_ms
