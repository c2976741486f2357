"""The read threads: what is not in memory is read off the event loop.

A read releases the interpreter while it waits, so the loop goes on serving what is in memory. A
slow disk takes several reads at once better than one after the other, hence a few threads. How much
waits for them is bounded by others: ranges by the node (`broker.reading`), and each connection has
one piece of its answer read at a time.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Protocol, TypeVar

from tidelog.broker.effects import ReadRange
from tidelog.broker.events import RangeRead
from tidelog.log.disk import DiskError
from tidelog.runtime.file_disk import OpenFile

READ_THREADS = 4
"""Enough for a spinning disk to choose the order of its seeks. An SSD would take more; but most of
what is read is large, and four reads of a megabyte keep one busy."""

T = TypeVar("T")

HaveRead = Callable[[OpenFile, int, int, Callable[[bytes | DiskError], None]], None]
"""Read so many bytes of a file, and hand them, or why not, to the function, in the loop."""


class CallInLoop(Protocol):
    """Has the loop call `function`. For use in other threads."""

    def __call__(self, function: Callable[[T], None], argument: T, /) -> None: ...


class RangeReaders:
    """Carries out `ReadRange`, and reads for connections. The threads begin with the first job,
    since many a node never needs them."""

    def __init__(self, call_in_loop: CallInLoop, on_event: Callable[[RangeRead], None]) -> None:
        self._call_in_loop = call_in_loop
        self._on_event = on_event
        self._jobs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []

    def load(self, effect: ReadRange) -> None:
        """Have the range in the page cache, then let the node know."""
        self._put(lambda: self._call_in_loop(self._on_event, _load(effect)))

    def read(
        self, file: OpenFile, position: int, size: int, done: Callable[[bytes | DiskError], None]
    ) -> None:
        """See `HaveRead`."""
        self._put(lambda: self._call_in_loop(done, _read(file, position, size)))

    def stop(self) -> None:
        """End the threads, without waiting for a disk that may never answer."""
        for _ in self._threads:
            self._jobs.put(None)

    def _put(self, job: Callable[[], None]) -> None:
        if not self._threads:
            self._start()
        self._jobs.put(job)

    def _start(self) -> None:
        for number in range(READ_THREADS):
            name = f"tidelog-read-{number}"
            thread = threading.Thread(target=self._run, name=name, daemon=True)
            self._threads.append(thread)
            thread.start()

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()


def _load(effect: ReadRange) -> RangeRead:
    file = effect.file
    assert isinstance(file, OpenFile)
    try:
        file.load(effect.position, effect.size)
    except DiskError as error:
        return RangeRead(effect.number, error)
    return RangeRead(effect.number)


def _read(file: OpenFile, position: int, size: int) -> bytes | DiskError:
    try:
        return file.read_waiting(position, size)
    except DiskError as error:
        return error
