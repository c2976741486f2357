"""The measuring window of a generator: begins after a warm-up, ends at a deadline.

Sockets grow their buffers and allocators their pools in the first tenths of a second; what
happens then belongs to no figure. The server's CPU seconds are read at the same two moments as
the counters, or a ratio of the two would mean nothing.
"""

from __future__ import annotations

import time

from tidelog.bench.figures import Latencies, Outcome
from tidelog.bench.proc import cpu_seconds

WARM_UP_SECONDS = 0.3


class Window:
    """`is_over(...)` is asked often, with the running totals; it marks begin and end itself."""

    def __init__(self, *, seconds: float, server_pid: int, start_at: float = 0.0) -> None:
        self._server_pid = server_pid
        self._seconds = seconds
        self._begin_at = max(start_at, time.monotonic()) + WARM_UP_SECONDS
        self._end_at = self._begin_at + seconds
        self._begin: tuple[float, int, float, float] | None = None
        self._end: tuple[float, int, float, float] | None = None

    @property
    def has_begun(self) -> bool:
        return self._begin is not None

    def is_over(self, requests: int) -> bool:
        """True from the deadline on. `requests` is how many are answered so far."""
        if self._end is not None:
            return True
        now = time.monotonic()
        if now < self._begin_at:
            return False
        if self._begin is None:
            self._begin = self._mark(now, requests)
        if now < self._end_at:
            return False
        self._end = self._mark(now, requests)
        return True

    def begin_now(self, requests: int) -> None:
        """For work of a known size, which has no use for a warm-up: it begins with the first."""
        self._begin = self._mark(time.monotonic(), requests)

    def end_now(self, requests: int) -> None:
        self._end = self._mark(time.monotonic(), requests)

    def _mark(self, now: float, requests: int) -> tuple[float, int, float, float]:
        return now, requests, cpu_seconds(self._server_pid), time.process_time()

    def outcome(
        self,
        *,
        total_requests: int,
        records_per_request: int,
        bytes_per_request: int,
        latencies: Latencies | None = None,
        first_response: bytes = b"",
    ) -> Outcome:
        """The figures between the two marks."""
        assert self._begin is not None, "asked before the window began"
        assert self._end is not None, "asked before the window ended"
        requests = self._end[1] - self._begin[1]
        return Outcome(
            seconds=self._end[0] - self._begin[0],
            requests=requests,
            records=requests * records_per_request,
            data_bytes=requests * bytes_per_request,
            total_records=total_requests * records_per_request,
            server_cpu_seconds=self._end[2] - self._begin[2],
            generator_cpu_seconds=self._end[3] - self._begin[3],
            latencies=latencies,
            first_response=first_response,
        )
