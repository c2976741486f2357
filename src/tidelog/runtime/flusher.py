"""The flush thread: one round at a time, off the event loop.

`fdatasync` releases the interpreter, so the loop goes on appending meanwhile. One wake-up of the
loop per round, not per request: that is what makes flushing before every acknowledgement cheap.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue

from tidelog.broker.effects import StartFlush
from tidelog.broker.events import FlushDone
from tidelog.log.disk import DiskError


class Flusher:
    """Carries out `StartFlush`; `done` is called in the flush thread."""

    def __init__(self, done: Callable[[FlushDone], None]) -> None:
        self._done = done
        self._rounds: SimpleQueue[StartFlush | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="tidelog-flush", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def flush(self, effect: StartFlush) -> None:
        self._rounds.put(effect)

    def stop(self) -> None:
        """Finish the round under way and end the thread."""
        self._rounds.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (effect := self._rounds.get()) is not None:
            self._done(FlushDone(effect.round, _sync(effect)))


def _sync(effect: StartFlush) -> DiskError | None:
    try:
        for target in effect.targets:
            target.sync()
    except DiskError as error:
        return error
    return None
