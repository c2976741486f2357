"""Closed loop of prebuilt requests: the cheapest way to keep a server busy from Python.

HOT PATH: at small requests this loop is as busy as the server it drives. One `send` a request,
one `recv_into` an answer, no parsing beyond the length.
"""

from __future__ import annotations

import select
import socket
import struct
from pathlib import Path

from tidelog.bench.figures import Outcome
from tidelog.bench.jobs import PumpJob, read_frames
from tidelog.bench.window import Window

_LENGTH = struct.Struct(">i")
_BUFFER_BYTES = 64 << 10
DRAIN_SECONDS = 30.0
"""After the window, how long to wait for the answers still under way."""


_UNLIMITED = 1 << 62


class ServerGone(Exception):
    """The server closed the connection or stopped answering."""


def connect(host: str, port: int) -> socket.socket:
    sock = socket.create_connection((host, port), timeout=10)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setblocking(False)
    return sock


def share_of(total: int, parts: int, index: int) -> int:
    """How many of `total` fall to part `index`, where no two parts differ by more than one."""
    return (index + 1) * total // parts - index * total // parts


class PumpConnection:
    """One socket: the frames it sends in turn, and how many answers it waits for."""

    __slots__ = ("_buffer", "_frames", "_have", "_next", "_quota", "_unsent", "first_response",
                 "outstanding", "sock")  # fmt: skip

    def __init__(self, sock: socket.socket, frames: list[bytes], *, first: int, quota: int) -> None:
        self.sock = sock
        self._frames = frames
        self._next = first
        self._quota = quota
        self._unsent: memoryview | None = None
        self._buffer = bytearray(_BUFFER_BYTES)
        self._have = 0
        self.outstanding = 0
        self.first_response = b""

    def send_up_to(self, in_flight: int) -> bool:
        """Send until `in_flight` are under way; false when the socket is full before."""
        try:
            if self._unsent is not None and not self._send_rest(self._unsent):
                return False
            while self.outstanding < in_flight and self._quota:
                self._quota -= 1
                frame = self._frames[self._next]
                self._next = (self._next + 1) % len(self._frames)
                self.outstanding += 1
                sent = self.sock.send(frame)
                if sent < len(frame) and not self._send_rest(memoryview(frame)[sent:]):
                    return False
        except BlockingIOError:
            self._unsent = memoryview(frame)
            return False
        return True

    def _send_rest(self, rest: memoryview) -> bool:
        while rest:
            try:
                rest = rest[self.sock.send(rest) :]
            except BlockingIOError:
                self._unsent = rest
                return False
        self._unsent = None
        return True

    def receive(self) -> int:
        """How many answers the bytes now there complete."""
        buffer, have = self._buffer, self._have
        try:
            count = self.sock.recv_into(memoryview(buffer)[have:] if have else buffer)
        except BlockingIOError:
            return 0
        if not count:
            raise ServerGone("the server closed a connection")
        have += count
        position = answered = 0
        while have - position >= 4:
            end = position + 4 + _LENGTH.unpack_from(buffer, position)[0]
            if end > have:
                break
            if not self.first_response:
                self.first_response = bytes(buffer[position + 4 : end])
            position = end
            answered += 1
        if position < have:
            buffer[: have - position] = buffer[position:have]
        self._have = have - position
        self.outstanding -= answered
        return answered


class Pump:
    """The loop over all connections."""

    def __init__(self, job: PumpJob) -> None:
        self._job = job
        frames = read_frames(Path(job.frames_path))
        self._epoll = select.epoll()
        self._connections: dict[int, PumpConnection] = {}
        for index in range(job.connections):
            sock = connect(job.host, job.port)
            self._connections[sock.fileno()] = PumpConnection(
                sock,
                frames,
                first=index * len(frames) // job.connections,
                quota=share_of(job.requests or _UNLIMITED, job.connections, index),
            )
            self._epoll.register(sock.fileno(), select.EPOLLIN)
        self._answered = 0
        self._writable: set[int] = set()

    def run(self) -> Outcome:
        job = self._job
        window = Window(seconds=job.seconds, server_pid=job.server_pid, start_at=job.start_at)
        for fileno, connection in self._connections.items():
            self._send(fileno, connection, job.in_flight)
        if job.requests:
            window.begin_now(0)
            while self._answered < job.requests:
                self._turn(job.in_flight)
            window.end_now(self._answered)
        while not window.is_over(self._answered):
            self._turn(job.in_flight)
        while any(connection.outstanding for connection in self._connections.values()):
            self._turn(0)
        return window.outcome(
            total_requests=self._answered,
            records_per_request=job.records_per_request,
            bytes_per_request=job.bytes_per_request,
            first_response=next(iter(self._connections.values())).first_response,
        )

    def _turn(self, in_flight: int) -> None:
        ready = self._epoll.poll(DRAIN_SECONDS)
        if not ready:
            raise ServerGone(f"no answer for {DRAIN_SECONDS:.0f} s")
        for fileno, events in ready:
            connection = self._connections[fileno]
            if events & ~select.EPOLLOUT:
                self._answered += connection.receive()
            self._send(fileno, connection, in_flight)

    def _send(self, fileno: int, connection: PumpConnection, in_flight: int) -> None:
        is_done = connection.send_up_to(in_flight)
        if is_done and fileno in self._writable:
            self._writable.discard(fileno)
            self._epoll.modify(fileno, select.EPOLLIN)
        elif not is_done and fileno not in self._writable:
            self._writable.add(fileno)
            self._epoll.modify(fileno, select.EPOLLIN | select.EPOLLOUT)


def pump(job: PumpJob) -> Outcome:
    return Pump(job).run()
