"""Open loop: requests leave at their due times whether or not the last one was answered.

Latency counts from the moment a request was *due*, so a server that stalls is charged for every
request the stall delays, not only for the one it was holding. A server that can't keep up at all
shows it: what its socket does not take waits here, and its waiting counts.
"""

from __future__ import annotations

import ctypes
import select
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


class Pacer:
    """One connection; `due` holds the due times of requests not yet answered, oldest first."""

    def __init__(self, job: PaceJob) -> None:
        self._sock = connect(job.host, job.port)
        self._frames = cycle(read_frames(Path(job.frames_path)))
        self._due: deque[float] = deque()
        self._buffer = bytearray(_BUFFER_BYTES)
        self._have = 0
        self._unsent = bytearray()
        self.answered = 0
        self.first_response = b""

    def send(self, due: float) -> None:
        self._due.append(due)
        self._unsent += next(self._frames)
        self._send_rest()

    def _send_rest(self) -> None:
        try:
            del self._unsent[: self._sock.send(self._unsent)]
        except BlockingIOError:
            return

    def wait(self, until: float) -> list[float]:
        """Answers that arrive before `until`: the latency of each."""
        timeout = max(0.0, until - time.monotonic())
        unsent = [self._sock] if self._unsent else []
        readable, writable, _ = select.select([self._sock], unsent, [], timeout)
        if writable:
            self._send_rest()
        return self._receive() if readable else []

    def _receive(self) -> list[float]:
        count = self._sock.recv_into(memoryview(self._buffer)[self._have :])
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
            latencies.append(now - self._due.popleft())
        self._buffer[: self._have - position] = self._buffer[position : self._have]
        self._have -= position
        self.answered += len(latencies)
        return latencies

    def finish(self) -> list[float]:
        """The latencies of all that is still under way."""
        give_up = time.monotonic() + BACKLOG_SECONDS
        latencies: list[float] = []
        while self._due:
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
