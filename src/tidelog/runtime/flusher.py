"""The flush thread: one round at a time, off the event loop.

`fdatasync` releases the interpreter, so the loop goes on appending meanwhile. One wake-up of the
loop per round, not per request: that is what makes flushing before every acknowledgement cheap.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue

from tidelog.broker.effects import StartFlush
from tidelog.broker.events import FlushDone
from tidelog.log.disk import DiskError, Syncable

_PARALLEL_FROM = 8
_THREADS = 8


class Flusher:
    """Carries out `StartFlush`; `done` is called in the flush thread."""

    def __init__(self, done: Callable[[FlushDone], None]) -> None:
        self._done = done
        self._rounds: SimpleQueue[StartFlush | None] = SimpleQueue()
        self._pool: ThreadPoolExecutor | None = None
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
            self._done(FlushDone(effect.round, self._sync_all(effect.targets)))
        if self._pool is not None:
            self._pool.shutdown()

    def _sync_all(self, targets: Sequence[Syncable]) -> DiskError | None:
        """Many files are synced side by side: the file system joins what waits together into one
        commit of its journal, so that ten take little longer than one."""
        if len(targets) < _PARALLEL_FROM:
            return _sync(targets)
        if self._pool is None:
            self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="tidelog-sync")
        shares = [targets[number::_THREADS] for number in range(_THREADS)]
        errors = [error for error in self._pool.map(_sync, shares) if error is not None]
        return errors[0] if errors else None


def _sync(targets: Sequence[Syncable]) -> DiskError | None:
    try:
        for target in targets:
            target.sync()
    except DiskError as error:
        return error
    return None
