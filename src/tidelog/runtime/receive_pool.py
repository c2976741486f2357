"""Memory for requests on their way in: bounded for all connections together, and shared fairly.

A connection may hold `FREE_BYTES` without asking; its receive buffer grows beyond that only with
leave of the pool, step by step, as bytes arrive. What was announced and not sent takes nothing.

Who is refused waits, unread, in the kernel and at its client. Four rules decide:

- A frame leaves as many bytes free as it has itself (at most a quarter of the pool): half frames of
  100 MB, however many, always leave room for frames of a few megabytes.
- Connections that have not sent one whole request yet leave half of the pool to those that have.
- One address holds at most three quarters of the pool, by the same two rules.
- Outside the pool there is a reserve as large as the largest frame. It is lent to one connection at
  a time, the one that has waited longest, so that some frame can always be finished.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush

FREE_BYTES = 64 * 1024
"""Of each connection's buffer. The number of connections bounds their sum."""


class Room:
    """What one connection holds of the pool. `on_room` is called when a refused `grow` is granted
    after all."""

    __slots__ = (
        "_pool",
        "borrowed",
        "frame_bytes",
        "is_first_frame",
        "number",
        "on_room",
        "owner",
        "taken",
        "wanted",
    )

    def __init__(self, pool: ReceivePool, owner: str, on_room: Callable[[], None]) -> None:
        self._pool = pool
        self.owner = owner
        self.on_room = on_room
        self.taken = 0
        """Bytes of the pool."""
        self.borrowed = 0
        """Bytes of the reserve."""
        self.wanted = 0
        self.frame_bytes = 0
        self.is_first_frame = False
        self.number = 0
        """Among those who wait; 0 while this one does not."""

    @property
    def held(self) -> int:
        return self.taken + self.borrowed

    def grow(self, size: int, *, frame_bytes: int, is_first_frame: bool = False) -> bool:
        """Hold `size` bytes in all, for a frame of `frame_bytes`, which may be the first of its
        connection. Whether that is granted now; if not, `on_room` is waited for before the next."""
        assert not self.number, "asked for room again before it was granted"
        if size <= self.held:
            return True
        self.wanted, self.frame_bytes = size, frame_bytes
        self.is_first_frame = is_first_frame
        return self._pool.grow(self)

    def shrink(self, size: int) -> None:
        """Hold `size` bytes at most; the reserve is returned first."""
        if size < self.held:
            self._pool.shrink(self, size)

    def close(self) -> None:
        """Hold nothing, and wait for nothing."""
        self._pool.withdraw(self)
        self.shrink(0)


class ReceivePool:
    """`limit` bytes for all; `largest` is the longest frame there may be."""

    def __init__(self, limit: int, *, largest: int) -> None:
        self._size = max(limit - largest, limit // 2)
        self._free = self._size
        self._borrower: Room | None = None
        self._taken_by: dict[str, int] = {}
        self._waiting: dict[int, Room] = {}
        """By number: the longest waiting one first."""
        self._smallest: dict[str, list[tuple[bool, int, int]]] = {}
        """Per owner, a heap: first frames last, by size, by number. Who waits no more is passed
        over."""
        self._next_number = 1

    @property
    def free_bytes(self) -> int:
        return self._free

    @property
    def is_short(self) -> bool:
        """Somebody waits, or soon will: memory that is kept for nothing should be given back."""
        return bool(self._waiting) or self._free < self._size // 2

    @property
    def has_waiting(self) -> bool:
        return bool(self._waiting)

    def room(self, owner: str, on_room: Callable[[], None]) -> Room:
        """For one more connection, of the address `owner`."""
        return Room(self, owner, on_room)

    def grow(self, room: Room) -> bool:
        if self._has_room_for(room):
            self._take(room)
            return True
        if self._borrower in (None, room):
            self._lend(room)
            return True
        room.number = self._next_number
        self._next_number += 1
        self._waiting[room.number] = room
        rank = (room.is_first_frame, room.frame_bytes, room.number)
        heappush(self._smallest.setdefault(room.owner, []), rank)
        return False

    def shrink(self, room: Room, size: int) -> None:
        returned = min(room.borrowed, room.held - size)
        room.borrowed -= returned
        if self._borrower is room and not room.borrowed:
            self._borrower = None
        if size < room.held:
            self._take_more(room, size - room.held)
        self._serve()

    def withdraw(self, room: Room) -> None:
        if room.number:
            del self._waiting[room.number]
            room.number = 0

    def _has_room_for(self, room: Room) -> bool:
        more = room.wanted - room.held
        share = self._size * 3 // 4
        taken = self._taken_by.get(room.owner, 0)
        return _leaves_enough(self._size, self._free - more, room) and _leaves_enough(
            share, share - taken - more, room
        )

    def _take(self, room: Room) -> None:
        self._take_more(room, room.wanted - room.held)

    def _take_more(self, room: Room, size: int) -> None:
        """Fewer, if `size` is negative."""
        room.taken += size
        self._free -= size
        taken = self._taken_by.get(room.owner, 0) + size
        if taken:
            self._taken_by[room.owner] = taken
        else:
            del self._taken_by[room.owner]

    def _lend(self, room: Room) -> None:
        self._borrower = room
        room.borrowed = room.wanted - room.taken

    def _serve(self) -> None:
        """Whoever has room now, per owner the smallest frame first; then the reserve."""
        is_done = not self._waiting
        while not is_done:
            is_done = True
            for owner in list(self._smallest):
                room = self._first_of(owner)
                if room is not None and self._has_room_for(room):
                    self._take(room)
                    self._grant(room)
                    is_done = False
        if self._borrower is None and self._waiting:
            longest = next(iter(self._waiting.values()))
            self._lend(longest)
            self._grant(longest)

    def _first_of(self, owner: str) -> Room | None:
        smallest = self._smallest[owner]
        while smallest:
            room = self._waiting.get(smallest[0][2])
            if room is not None:
                return room
            heappop(smallest)
        del self._smallest[owner]
        return None

    def _grant(self, room: Room) -> None:
        self.withdraw(room)
        room.on_room()


def _leaves_enough(size: int, left: int, room: Room) -> bool:
    """Whether `left` of `size` bytes is what this frame leaves to others."""
    return left >= (size // 2 if room.is_first_frame else min(room.frame_bytes, size // 4))
