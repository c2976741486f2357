"""Closed loop of fetches: read as fast as the server sends, look at nothing but the length.

The log was filled with batches of one size, so the length of an answer tells how many batches it
holds and therefore the next offset to ask for.
"""

from __future__ import annotations

import select
import socket
import struct
from pathlib import Path

from tidelog.bench.figures import Outcome
from tidelog.bench.jobs import DrainJob, read_frames
from tidelog.bench.pump import DRAIN_SECONDS, ServerGone, connect
from tidelog.bench.window import Window

_LENGTH = struct.Struct(">i")
_OFFSET = struct.Struct(">q")
_BUFFER_BYTES = 1 << 20


class DrainConnection:
    """One socket with one fetch under way."""

    def __init__(self, sock: socket.socket, job: DrainJob, offset: int) -> None:
        self.sock = sock
        self._job = job
        self._request = bytearray(read_frames(Path(job.frames_path))[0])
        self._offset = offset
        self._size = 0
        self._received = 0
        self._head = b""
        self.first_response = b""

    def ask(self) -> None:
        _OFFSET.pack_into(self._request, self._job.offset_position, self._offset)
        self._size = self._received = 0
        self._head = b""
        if self.sock.send(self._request) < len(self._request):
            raise ServerGone("a fetch of a few bytes did not fit the socket")

    def receive(self, buffer: bytearray) -> int:
        """Batches of the answer, once it is complete; 0 before."""
        try:
            count = self.sock.recv_into(buffer)
        except BlockingIOError:
            return 0
        if not count:
            raise ServerGone("the server closed a connection")
        self._received += count
        if not self._size:
            self._head += bytes(buffer[:count]) if count < 4 else bytes(buffer[:64])
            if len(self._head) < 4:
                return 0
            self._size = 4 + _LENGTH.unpack_from(self._head)[0]
        if self._received < self._size:
            return 0
        if not self.first_response:
            self.first_response = self._head
        batches = self._size // self._job.batch_bytes
        self._offset += batches * self._job.batch_records
        if self._job.end_offset and self._offset >= self._job.end_offset:
            self._offset = 0
        self.ask()
        return batches


def drain(job: DrainJob) -> Outcome:
    """Requests are counted in batches, for a fetch may bring one or many."""
    epoll, buffer = select.epoll(), bytearray(_BUFFER_BYTES)
    connections: dict[int, DrainConnection] = {}
    batches_in_log = job.end_offset // job.batch_records
    for index in range(job.connections):
        sock = connect(job.host, job.port)
        offset = index * batches_in_log // job.connections * job.batch_records
        connections[sock.fileno()] = DrainConnection(sock, job, offset)
        epoll.register(sock.fileno(), select.EPOLLIN)
    window = Window(seconds=job.seconds, server_pid=job.server_pid, start_at=job.start_at)
    for connection in connections.values():
        connection.ask()
    batches = 0
    while not window.is_over(batches):
        ready = epoll.poll(DRAIN_SECONDS)
        if not ready:
            raise ServerGone(f"no answer for {DRAIN_SECONDS:.0f} s")
        for fileno, _ in ready:
            batches += connections[fileno].receive(buffer)
    return window.outcome(
        total_requests=batches,
        records_per_request=job.batch_records,
        bytes_per_request=job.batch_data_bytes,
        first_response=next(iter(connections.values())).first_response,
    )
