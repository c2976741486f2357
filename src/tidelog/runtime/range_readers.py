"""The read threads: ranges of files that are not in memory get there, off the event loop.

A read releases the interpreter while it waits, so the loop goes on serving what is in memory. A
slow disk takes several reads at once better than one after the other, hence a few threads. How many
ranges wait for them is the node's to bound (`broker.reading`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue

from tidelog.broker.effects import ReadRange
from tidelog.broker.events import RangeRead
from tidelog.log.disk import DiskError
from tidelog.runtime.file_disk import OpenFile

READ_THREADS = 4
"""Enough for a spinning disk to choose the order of its seeks. An SSD would take more; but most of
what is read is large, and four reads of a megabyte keep one busy."""


class RangeReaders:
    """Carries out `ReadRange`; `done` is called in a read thread. The threads begin with the first
    range, since many a node never needs them."""

    def __init__(self, done: Callable[[RangeRead], None]) -> None:
        self._done = done
        self._ranges: SimpleQueue[ReadRange | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []

    def read(self, effect: ReadRange) -> None:
        if not self._threads:
            self._start()
        self._ranges.put(effect)

    def stop(self) -> None:
        """End the threads, without waiting for a disk that may never answer."""
        for _ in self._threads:
            self._ranges.put(None)

    def _start(self) -> None:
        for number in range(READ_THREADS):
            name = f"tidelog-read-{number}"
            thread = threading.Thread(target=self._run, name=name, daemon=True)
            self._threads.append(thread)
            thread.start()

    def _run(self) -> None:
        while (effect := self._ranges.get()) is not None:
            self._done(RangeRead(effect.number, _load(effect)))


def _load(effect: ReadRange) -> DiskError | None:
    file = effect.file
    assert isinstance(file, OpenFile)
    try:
        file.load(effect.position, effect.size)
    except DiskError as error:
        return error
    return None
