"""One client's socket: frames in, responses out, never blocking.

HOT PATH. Raw non-blocking sockets in the loop's turns (`turns.py`): a frame is received into one
reused buffer and handed to the node in place; a response leaves with one `sendmsg`, or with
`sendfile` where it is a large range of a file. While a client does not take its responses, no
more of its requests are read: its memory here is bounded by what it already sent.

A range of a file was in memory when its response was made. A client that takes its time may find it
gone: then a piece of it at a time is read in another thread, and only this connection waits.

In one turn of the loop a connection hands over a few of its frames at most (`TURN_FRAMES`,
`TURN_S`); if more have been received, they wait for its next turn, and meanwhile nothing is read
from it.
"""

from __future__ import annotations

import logging
import socket
import struct
from collections import deque
from collections.abc import Callable

from tidelog.broker.effects import Part
from tidelog.log.disk import DiskError, FileSpan, NotInMemory
from tidelog.model.ids import ConnectionId
from tidelog.model.limits import MIN_REQUEST_BYTES
from tidelog.runtime.cached import COPIED_BYTES
from tidelog.runtime.file_disk import OpenFile
from tidelog.runtime.frame_progress import FrameProgress
from tidelog.runtime.range_readers import HaveRead
from tidelog.runtime.receive_pool import FREE_BYTES, ReceivePool
from tidelog.runtime.turns import Turns
from tidelog.wire.errors import DecodeError
from tidelog.wire.frames import KEPT_BYTES, FrameBuffer

log = logging.getLogger("tidelog")

TURN_FRAMES = 32
"""Frames of one connection in a turn of the loop."""

TURN_S = 0.0005
"""After this long no further frame of the connection is begun in the same turn. Many small requests
that came together are still dealt with in one turn; of expensive ones, one."""

SENDFILE_FROM_BYTES = 256 * 1024
"""Below this a `pread` into memory joins the header in one segment and is cheaper."""

_MAX_PARTS = 64
"""Buffers per `sendmsg`; the kernel's own limit is 1024."""

_MAX_READ_BYTES = 512 * 1024
"""File contents in memory per connection: a client that never reads costs no more than this."""


_LOOKED_AHEAD_BYTES = 1024 * 1024
"""Of a large range so much is asked for being in memory, and sent, at a time."""

CLOSING_GRACE_S = 3.0
"""How long a client that is to be sent away may take to read its last responses."""

_RESET_ON_CLOSE = struct.pack("ii", 1, 0)
"""`SO_LINGER` of zero seconds."""

_SHORT_FILE = "a file is shorter than the log believes"


class SocketConnection:
    """A connection of the listener. `on_frame` is called once per request, `on_lost` once."""

    def __init__(
        self,
        turns: Turns,
        sock: socket.socket,
        connection_id: ConnectionId,
        *,
        owner: str,
        max_frame_bytes: int,
        min_frame_bytes: int = MIN_REQUEST_BYTES,
        pool: ReceivePool,
        on_frame: Callable[[ConnectionId, memoryview], None],
        on_lost: Callable[[ConnectionId, str], None],
        have_read: HaveRead | None = None,
    ) -> None:
        """`have_read`: for connections on which ranges of files are sent."""
        self.connection_id = connection_id
        self._turns = turns
        self._loop = turns.loop
        self._socket = sock
        self._fd = sock.fileno()
        self._frames = FrameBuffer(max_frame_bytes, min_frame_bytes)
        self._on_frame = on_frame
        self._on_lost = on_lost
        self._have_read = have_read
        self._output: deque[Part] = deque()
        self._pool = pool
        self._room = pool.room(owner, self._on_room)
        self._progress = FrameProgress()
        self._frames_taken = 0
        self._is_starved = False
        self._is_queued = False
        self._is_paused = False
        self._is_reading = False
        self._is_writing = False
        self._is_held_up = False
        """What is to be sent waits for room in the socket, or for the disk."""
        self._is_closing = False
        self._is_closed = False

    def start(self) -> None:
        self._update_reading()

    # --- in -----------------------------------------------------------------------------------

    def pause(self) -> None:
        self._is_paused = True
        self._update_reading()

    def resume(self) -> None:
        self._is_paused = False
        self._queue_turn()

    def _queue_turn(self) -> None:
        """Deliver in the next turn, after the other connections have had theirs."""
        if not self._is_queued:
            self._is_queued = True
            self._turns.queue(self._deliver)

    def _update_reading(self) -> None:
        wanted = not (
            self._is_paused
            or self._output
            or self._is_starved
            or self._is_closing
            or self._is_closed
        )
        if wanted and not self._is_reading:
            self._turns.watch(self._fd, self._on_readable)
        elif self._is_reading and not wanted:
            self._turns.unwatch(self._fd)
        self._is_reading = wanted

    def _on_readable(self) -> None:
        if self._is_queued:  # it still has frames to hand over
            return
        try:
            count = self._socket.recv_into(self._frames.writable())
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._lose(str(error))
            return
        if count == 0:
            self._lose("the client closed the connection")
            return
        frame = self._frames.received_one(count)
        if frame is None:
            self._frames.received(count)
            self._deliver()
            return
        self._frames_taken += 1
        self._on_frame(self.connection_id, frame)
        if self._room.taken or self._room.borrowed:
            self._ask_for_room()

    def _deliver(self) -> None:
        """Hand over the whole frames that are here, until told to pause or the turn is over."""
        self._is_queued = False
        turn_ends, taken = self._loop.time() + TURN_S, 0
        try:
            while not (self._is_paused or self._output or self._is_closing or self._is_closed):
                frame = self._frames.next_frame()
                if frame is None:
                    self._ask_for_room()
                    break
                self._on_frame(self.connection_id, frame)
                taken += 1
                self._frames_taken += 1
                if self._frames.pending_bytes and (
                    taken >= TURN_FRAMES or self._loop.time() >= turn_ends
                ):
                    self._queue_turn()
                    break
        except DecodeError as error:
            log.info("connection %d closed: %s", self.connection_id, error)
            self._lose(str(error))
            return
        self._update_reading()

    def _ask_for_room(self) -> None:
        """Receiving on may need a larger buffer; a large one is given up when it is empty."""
        frames, room = self._frames, self._room
        if self._is_starved:  # it has asked: a response has left meanwhile, and no byte has come
            return
        if frames.is_at_rest and not (room.taken or room.borrowed):
            return
        if not frames.pending_bytes and (frames.capacity > KEPT_BYTES or room.borrowed):
            frames.release()
        needed = frames.capacity_needed - FREE_BYTES
        if needed > room.held:
            is_first = not self._frames_taken
            self._is_starved = not room.grow(
                needed, frame_bytes=frames.expected_bytes, is_first_frame=is_first
            )
        elif needed < room.held:
            room.shrink(max(0, needed))

    def _on_room(self) -> None:
        self._is_starved = False
        self._update_reading()

    def look_after(self, now_ms: float, *, timeout_ms: float) -> None:
        """Called every now and then: close the connection if the frame under way makes no progress,
        and give up a buffer that is kept for nothing while memory is short."""
        if self._is_closed:
            return
        frames = self._frames
        is_short = self._pool.has_waiting and self._room.held > 0
        waits_for_node = self._is_paused or self._is_starved or self._is_queued
        if waits_for_node or not frames.pending_bytes or (self._output and not is_short):
            self._progress.forget()
            if self._pool.is_short and self._room.held and not frames.pending_bytes:
                frames.release()
                self._room.shrink(0)
            return
        self._progress.look(now_ms, frame=self._frames_taken, received_bytes=frames.pending_bytes)
        if self._progress.is_too_slow(now_ms, timeout_ms=timeout_ms, is_short=is_short):
            reason = (
                f"a request of {frames.expected_bytes} bytes began and did not arrive: "
                f"{frames.pending_bytes} bytes of it came, and no more for too long"
            )
            log.info("connection %d closed: %s", self.connection_id, reason)
            self._lose(reason)

    # --- out ----------------------------------------------------------------------------------

    def send(self, parts: list[Part]) -> None:
        """Queue a response; as much of it as the socket takes leaves at once."""
        if self._is_closed:
            return
        if self._output:
            self._output.extend(parts)
        elif len(parts) == 1 and type(parts[0]) is bytearray:
            self._send_one(parts[0])
        else:
            self._output.extend(parts)
            self._write()

    def _send_one(self, data: bytearray) -> None:
        """As `_write`, for the most frequent kind of response: short, whole, and nothing before
        it."""
        try:
            sent = self._socket.send(data)
        except (BlockingIOError, InterruptedError):
            sent = 0
        except OSError as error:
            self._lose(str(error))
            return
        if sent < len(data):
            self._output.append(memoryview(data)[sent:])
            self._wait_for_room()

    def close_after_output(self) -> None:
        self._is_closing = True
        if self._output:
            self._loop.call_later(CLOSING_GRACE_S, self._lose, "closed by the node, unread")
        else:
            self._lose("closed by the node")

    def _on_writable(self) -> None:
        self._write()

    def _write(self) -> None:
        try:
            while self._output:
                first = self._output[0]
                if isinstance(first, FileSpan) and first.size >= SENDFILE_FROM_BYTES:
                    self._send_file(first)
                else:
                    self._send_bytes()
        except (BlockingIOError, InterruptedError):
            self._wait_for_room()
        except NotInMemory:
            self._wait_for_disk()
        except (OSError, DiskError) as error:
            self._lose(str(error))
        else:
            if self._is_held_up:
                self._go_on()

    def _go_on(self) -> None:
        """All of the output has left, and some of it had to wait."""
        self._is_held_up = False
        self._unwatch_room()
        if self._is_closing:
            self._lose("closed by the node")
        else:
            self._queue_turn()

    def _wait_for_room(self) -> None:
        self._is_held_up = True
        if not self._is_writing:
            self._loop.add_writer(self._fd, self._on_writable)
            self._is_writing = True
        self._update_reading()

    def _unwatch_room(self) -> None:
        if self._is_writing:
            self._loop.remove_writer(self._fd)
            self._is_writing = False

    def _wait_for_disk(self) -> None:
        """The next piece of the output is read elsewhere, and takes its place when it is there."""
        self._is_held_up = True
        self._unwatch_room()
        self._update_reading()
        span = self._output[0]
        assert isinstance(span, FileSpan)
        assert isinstance(span.file, OpenFile)
        assert self._have_read is not None
        size = min(span.size, _MAX_READ_BYTES)
        self._have_read(span.file, span.position, size, self._on_read)

    def _on_read(self, data: bytes | DiskError) -> None:
        if self._is_closed:
            return
        span = self._output.popleft()
        assert isinstance(span, FileSpan)
        if isinstance(data, DiskError) or len(data) != min(span.size, _MAX_READ_BYTES):
            self._lose(str(data) if isinstance(data, DiskError) else _SHORT_FILE)
            return
        left = span.size - len(data)
        if left:
            self._output.appendleft(FileSpan(span.file, span.position + len(data), left))
        self._output.appendleft(data)
        self._write()

    def _send_bytes(self) -> None:
        """As many small parts as there are in a row, in one call."""
        buffers: list[bytes | bytearray | memoryview] = []
        flags = gathered = 0
        output = self._output
        for index in range(min(len(output), _MAX_PARTS)):
            part = output[index]
            if isinstance(part, FileSpan):
                if part.size >= SENDFILE_FROM_BYTES or gathered >= _MAX_READ_BYTES:
                    flags = socket.MSG_MORE
                    break
                try:
                    part = output[index] = self._content(part)
                except NotInMemory:
                    if not buffers:
                        raise
                    break
            gathered += len(part)
            buffers.append(part)
        sent = self._socket.sendmsg(buffers, [], flags)
        while sent:
            first = output[0]
            size = len(first)  # type: ignore[arg-type]
            if sent < size:
                output[0] = memoryview(first)[sent:]  # type: ignore[arg-type]
                raise BlockingIOError
            sent -= size
            output.popleft()
        while output and not isinstance(output[0], FileSpan) and not output[0]:
            output.popleft()

    def _content(self, span: FileSpan) -> bytes:
        """All of it: the length is on its way to the client already."""
        file = span.file
        is_asked = self._is_held_up or span.size <= COPIED_BYTES  # of so little it costs nothing
        if is_asked and self._have_read is not None and isinstance(file, OpenFile):
            data = file.read_now(span.position, span.size)
        else:
            data = span.read()
        if len(data) != span.size:
            raise OSError(_SHORT_FILE)
        return data

    def _send_file(self, span: FileSpan) -> None:
        file, size = span.file, span.size
        assert isinstance(file, OpenFile)
        if self._is_held_up and self._have_read is not None:
            size = min(size, _LOOKED_AHEAD_BYTES)
            file.require_now(span.position, size)
        sent = file.send_to(self._fd, span.position, size)
        if sent == 0:
            raise OSError(_SHORT_FILE)
        if sent == span.size:
            self._output.popleft()
        else:
            self._output[0] = FileSpan(file, span.position + sent, span.size - sent)

    # --- the end ------------------------------------------------------------------------------

    def abort(self, *, reset: bool = False) -> None:
        """Close at once, whatever is queued. With `reset`, what the kernel has of it is lost too,
        and the client is told of an error instead of an end."""
        if reset and not self._is_closed:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
        self._lose("the node is stopping")

    def _lose(self, reason: str) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        self._output.clear()
        self._update_reading()
        self._unwatch_room()
        self._socket.close()
        self._room.close()
        self._on_lost(self.connection_id, reason)
