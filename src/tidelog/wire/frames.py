"""Bytes of a connection to whole frames: a buffer to receive into, and views of what is complete.

HOT PATH: the broker's innermost loop. `recv_into(buffer.writable())`, `received(n)`, then
`next_frame()` until it gives None.

How memory moves:

- A frame is parsed where it was received. When everything received has been handed out, the
  buffer starts again at its beginning, and nothing was ever copied.
- A frame that would run over the buffer's end is moved to the beginning first: once.
- The buffer grows only when it is full, so a peer that claims 100 MB and sends ten bytes costs
  what ten bytes cost. A large one is address space for the whole frame, of which the system makes
  memory as bytes arrive: it grows without being copied, and is returned as soon as it is let go.
- While a large frame is under way the writable part ends where the frame ends. The next frame
  then begins at the beginning, and a stream of large frames is never moved at all.
"""

from __future__ import annotations

import struct
from mmap import MAP_ANONYMOUS, MAP_PRIVATE, mmap

from tidelog.model.limits import MIN_REQUEST_BYTES
from tidelog.wire.errors import DecodeError

INITIAL_BYTES = 16 * 1024
"""What an idle connection costs."""

KEPT_BYTES = 4 * 1024 * 1024
"""A larger buffer is given up as soon as it is empty."""

_LENGTH_BYTES = 4
_LARGE_FRAME_BYTES = 64 * 1024
_STEP_BYTES = 256 * 1024
"""By how much a large buffer grows at most."""

_LEAST_ROOM_BYTES = 4 * 1024
"""With less than this to receive into, it is cheaper to move what little is pending."""

_QUIET_ROUNDS = 64
"""So often in a row a quarter of the buffer must have sufficed before it shrinks."""

_unpack_length = struct.Struct(">i").unpack_from


class FrameBuffer:
    """One connection's receive buffer. Bytes `_start` to `_end` are received and not handed out."""

    __slots__ = (
        "_buffer",
        "_capacity",
        "_end",
        "_expected",
        "_max_frame_bytes",
        "_memory",
        "_min_frame_bytes",
        "_quiet_rounds",
        "_start",
    )

    def __init__(self, max_frame_bytes: int, min_frame_bytes: int = MIN_REQUEST_BYTES) -> None:
        self._max_frame_bytes = max_frame_bytes
        self._min_frame_bytes = min_frame_bytes
        self._start = 0
        self._end = 0
        self._expected = 0
        """Bytes, with prefix, of the incomplete frame at `_start`; 0 while they are not known."""
        self._quiet_rounds = 0
        self._allocate(INITIAL_BYTES)

    def writable(self) -> memoryview:
        """Where to receive into; never empty. Ends the validity of frames handed out before."""
        start, end, expected = self._start, self._end, self._expected
        if start == end:
            if self._capacity == INITIAL_BYTES:
                self._start = self._end = 0
            elif end:
                self._begin_again()
            return self._buffer
        capacity = self._capacity
        if capacity - end < _LEAST_ROOM_BYTES or start + expected > capacity:
            self._make_room()
            start, end = self._start, self._end
        if expected > _LARGE_FRAME_BYTES and end < start + expected:
            return self._buffer[end : start + expected]
        return self._buffer[end:]

    def received(self, size: int) -> None:
        """`size` bytes have been put at the beginning of `writable()`."""
        self._end += size

    def received_one(self, size: int) -> memoryview | None:
        """The same, and the frame at once, if those bytes are one whole frame and all that is here:
        as most requests come. None otherwise, and nothing is done."""
        if self._end or size < _LENGTH_BYTES or self._capacity > _LARGE_FRAME_BYTES:
            return None
        (frame_bytes,) = _unpack_length(self._buffer, 0)
        if frame_bytes + _LENGTH_BYTES != size or frame_bytes < self._min_frame_bytes:
            return None
        if frame_bytes > self._max_frame_bytes:
            return None
        self._start = self._end = size
        return self._buffer[_LENGTH_BYTES:size]

    def next_frame(self) -> memoryview | None:
        """The next whole frame, without its prefix; None until more is received.

        A length that no request can have is a `DecodeError`; the connection is of no use then.
        """
        start = self._start
        available = self._end - start
        if available < _LENGTH_BYTES:
            return None
        (size,) = _unpack_length(self._buffer, start)
        if size > self._max_frame_bytes or size < self._min_frame_bytes:
            raise DecodeError(f"a frame claims {size} bytes; {self._max_frame_bytes} are allowed")
        expected = size + _LENGTH_BYTES
        if expected > available:
            self._expected = expected
            return None
        self._expected = 0
        self._start = stop = start + expected
        return self._buffer[start + _LENGTH_BYTES : stop]

    @property
    def pending_bytes(self) -> int:
        """Received and not yet handed out."""
        return self._end - self._start

    @property
    def is_at_rest(self) -> bool:
        """Nothing is pending, and the buffer is one that any connection may have."""
        return self._start == self._end and self._capacity <= _LARGE_FRAME_BYTES

    @property
    def expected_bytes(self) -> int:
        """Of the frame that is under way, all of it; 0 while there is none or it is not known."""
        return self._expected

    @property
    def capacity(self) -> int:
        """Bytes of memory held."""
        return self._capacity

    @property
    def capacity_needed(self) -> int:
        """Bytes of memory that `writable` will hold: more than `capacity` if it must grow."""
        return self._next_capacity() if self._must_grow() else self._capacity

    def release(self) -> None:
        """Give up a large buffer. Everything has been handed out, and the step it was handed to is
        over."""
        assert self._start == self._end, "bytes that were received would be lost"
        self._start = self._end = 0
        if self._capacity > INITIAL_BYTES:
            self._allocate(INITIAL_BYTES)

    def _must_grow(self) -> bool:
        """The buffer is full with the beginning of one frame, and moving it helps little."""
        start, end, capacity = self._start, self._end, self._capacity
        if end != capacity or start == end:
            return False
        return capacity < _LARGE_FRAME_BYTES or not self._may_move()

    def _may_move(self) -> bool:
        start, expected, capacity = self._start, self._expected, self._capacity
        runs_over = start + expected > capacity >= expected
        return start > 0 and (runs_over or (self._end - start) * 2 <= capacity)

    def _begin_again(self) -> None:
        """Everything has been handed out: the whole buffer is free, and perhaps too large."""
        used, capacity = self._end, self._capacity
        self._start = self._end = 0
        self._quiet_rounds = self._quiet_rounds + 1 if used * 4 <= capacity else 0
        if capacity > KEPT_BYTES or self._quiet_rounds >= _QUIET_ROUNDS:
            self._allocate(INITIAL_BYTES)

    def _make_room(self) -> None:
        """Move what is pending to the beginning, or double the buffer, if either helps."""
        start, end = self._start, self._end
        pending = end - start
        if self._must_grow():
            assert pending <= self._max_frame_bytes + _LENGTH_BYTES, "frames were not taken"
            capacity = self._next_capacity()
            if start + self._expected <= len(self._memory) >= capacity:
                self._buffer, self._capacity = self._memory[:capacity], capacity
                return
            received = self._buffer[start:end]
            self._allocate(capacity)
            self._buffer[:pending] = received
        elif self._may_move():
            self._buffer[:pending] = self._buffer[start:end]
        else:
            return
        self._start, self._end = 0, pending

    def _next_capacity(self) -> int:
        if self._capacity < _LARGE_FRAME_BYTES:
            return _LARGE_FRAME_BYTES
        grown = self._capacity + min(self._capacity, _STEP_BYTES)
        return min(grown, self._expected) if self._expected > self._capacity else grown

    def _allocate(self, capacity: int) -> None:
        if capacity > _LARGE_FRAME_BYTES:
            space = mmap(-1, max(capacity, self._expected), MAP_PRIVATE | MAP_ANONYMOUS)
            self._memory = memoryview(space)
        else:
            self._memory = memoryview(bytearray(capacity))
        self._buffer = self._memory[:capacity]
        self._capacity = capacity
        self._quiet_rounds = 0
