"""Open loop: requests leave at their due times whether or not the last one was answered.

Latency counts from the moment a request was *due*, so a server that stalls is charged for every
request the stall delays, not only for the one it was holding. A server that can't keep up at all
shows it: what its socket does not take waits here, and its waiting counts.
"""

from __future__ import annotations

import ctypes
import select
import socket
import struct
import time
from collections import deque
from itertools import cycle
from pathlib import Path

from tidelog.bench.figures import Latencies, Outcome
from tidelog.bench.jobs import PaceJob, read_frames
from tidelog.bench.pump import ServerGone, connect
from tidelog.bench.window import Window

_LENGTH = struct.Struct(">i")
_PR_SET_TIMERSLACK = 29
_BUFFER_BYTES = 64 << 10
BACKLOG_SECONDS = 120.0
"""How long to wait for a server that flushes record by record and has fallen seconds behind."""


def sharpen_timers() -> None:
    """Linux rounds a sleeper's wake-up by 50 µs unless asked not to: a third of what we measure."""
    ctypes.CDLL(None).prctl(_PR_SET_TIMERSLACK, 1, 0, 0, 0)


class PacedConnection:
    """One socket; `due` holds the due times of its requests not yet answered, oldest first."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.due: deque[float] = deque()
        self.unsent = bytearray()
        self._buffer = bytearray(_BUFFER_BYTES)
        self._have = 0
        self.first_response = b""

    def send(self, frame: bytes, due: float) -> None:
        self.due.append(due)
        self.unsent += frame
        self.send_rest()

    def send_rest(self) -> None:
        try:
            del self.unsent[: self.sock.send(self.unsent)]
        except BlockingIOError:
            return

    def receive(self) -> list[float]:
        """The latencies of the requests that were answered."""
        count = self.sock.recv_into(memoryview(self._buffer)[self._have :])
        if not count:
            raise ServerGone("the server closed the connection")
        now = time.monotonic()
        self._have += count
        latencies, position = [], 0
        while self._have - position >= 4:
            end = position + 4 + _LENGTH.unpack_from(self._buffer, position)[0]
            if end > self._have:
                break
            self.first_response = self.first_response or bytes(self._buffer[position + 4 : end])
            position = end
            latencies.append(now - self.due.popleft())
        self._buffer[: self._have - position] = self._buffer[position : self._have]
        self._have -= position
        return latencies


class Pacer:
    """All connections of a job, which take their turns in sending."""

    def __init__(self, job: PaceJob) -> None:
        self._connections = [
            PacedConnection(connect(job.host, job.port)) for _ in range(job.connections)
        ]
        self._by_socket = {each.sock: each for each in self._connections}
        self._turns = cycle(self._connections)
        self._frames = cycle(read_frames(Path(job.frames_path)))
        self.answered = 0

    @property
    def first_response(self) -> bytes:
        return self._connections[0].first_response

    def send(self, due: float) -> None:
        next(self._turns).send(next(self._frames), due)

    def wait(self, until: float) -> list[float]:
        """Answers that arrive before `until`: the latency of each."""
        timeout = max(0.0, until - time.monotonic())
        unsent = [each.sock for each in self._connections if each.unsent]
        readable, writable, _ = select.select(list(self._by_socket), unsent, [], timeout)
        for sock in writable:
            self._by_socket[sock].send_rest()
        latencies = [each for sock in readable for each in self._by_socket[sock].receive()]
        self.answered += len(latencies)
        return latencies

    def finish(self) -> list[float]:
        """The latencies of all that is still under way."""
        give_up = time.monotonic() + BACKLOG_SECONDS
        latencies: list[float] = []
        while any(each.due for each in self._connections):
            if time.monotonic() > give_up:
                raise ServerGone(f"no answer for {BACKLOG_SECONDS:.0f} s")
            latencies += self.wait(give_up)
        return latencies


def pace(job: PaceJob) -> Outcome:
    """Latencies of the requests that were due within the window, however late their answers."""
    sharpen_timers()
    pacer = Pacer(job)
    window = Window(seconds=job.seconds, server_pid=job.server_pid)
    interval = 1.0 / job.rate
    next_due = time.monotonic() + interval
    latencies: list[float] = []
    while not window.is_over(pacer.answered):
        if time.monotonic() >= next_due:
            pacer.send(next_due)
            next_due += interval
        latencies += pacer.wait(next_due)
        if not window.has_begun:
            latencies.clear()
    latencies += pacer.finish()
    return window.outcome(
        total_requests=pacer.answered,
        records_per_request=1,
        bytes_per_request=0,
        latencies=Latencies.of_seconds(latencies),
        first_response=pacer.first_response,
    )
