"""Memory for large requests on their way in: bounded for all connections together.

A request is taken in only if there is room for the whole of it, so that requests under way always
get finished; others wait, unread, in the kernel and at their clients. Small ones need no leave: the
number of connections bounds them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

LARGE_REQUEST_BYTES = 1024 * 1024


class ReceivePool:
    """`limit` bytes, given out first come, first served."""

    def __init__(self, limit: int) -> None:
        self._free = limit
        self._waiting: deque[tuple[int, Callable[[], bool]]] = deque()

    @property
    def free_bytes(self) -> int:
        return self._free

    def take(self, size: int, on_room: Callable[[], bool]) -> bool:
        """Whether there is room now. If not, `on_room` is called when there is, and says whether it
        is still wanted."""
        if not self._waiting and size <= self._free:
            self._free -= size
            return True
        self._waiting.append((size, on_room))
        return False

    def give_back(self, size: int) -> None:
        self._free += size
        while self._waiting and self._waiting[0][0] <= self._free:
            wanted, on_room = self._waiting.popleft()
            if on_room():
                self._free -= wanted
