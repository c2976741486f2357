"""One life of a service: from its start to its stop or its crash, in a thread of its own.

The thread is a daemon and its loop belongs to nobody else, so a test may be synchronous or run on
an event loop itself. Everything asked of the service happens in its thread: `call` takes it there.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, wait
from typing import Any, TypeVar

from tidelog.runtime.service import ServeError, Service, new_event_loop, run_service
from tidelog.testing.node_error import NodeError

Answer = TypeVar("Answer")

PATIENCE_S = 30.0
"""Much longer than anything here takes: a limit to a hang, not an expectation."""


class ServiceThread:
    """Runs what `make_service` makes, until it stops."""

    def __init__(self, make_service: Callable[[asyncio.AbstractEventLoop], Service]) -> None:
        """Returns when clients may connect; raises what the service could not start for."""
        self._loop = new_event_loop()
        self._make_service = make_service
        self._ready: Future[Service] = Future()
        self._pause: threading.Event | None = None
        self._is_to_die = False
        self._thread = threading.Thread(target=self._run, name="tidelog-node", daemon=True)
        self._thread.start()
        self._life = asyncio.run_coroutine_threadsafe(self._live(), self._loop)
        ends: list[Future[Any]] = [self._ready, self._life]
        wait(ends, timeout=PATIENCE_S, return_when=FIRST_COMPLETED)
        if not self._ready.done():
            self._end()

    @property
    def is_running(self) -> bool:
        return not self._life.done()

    @property
    def is_paused(self) -> bool:
        return self._pause is not None

    def call(self, function: Callable[[Service], Answer]) -> Answer:
        """What `function` gives, called in the service's thread."""
        if self._life.done():
            self._raise_what_ended_it()
            raise NodeError("the node is not running: node.restart() starts it again")
        if self._pause is not None:
            raise NodeError("the node is paused and can do nothing: node.resume() first")

        async def run() -> Answer:
            return function(self._ready.result())

        return asyncio.run_coroutine_threadsafe(run(), self._loop).result(PATIENCE_S)

    def stop(self) -> None:
        """Cleanly, as on SIGTERM."""
        self.call(Service.request_stop)
        self._end()

    def kill(self) -> None:
        """As `kill -9`; paused or not."""
        if self._pause is not None:
            self._is_to_die = True
            self.resume()
        elif self.is_running:
            self.call(Service.kill)
        self._end()

    def pause(self) -> None:
        """The thread stands still, as a process does on SIGSTOP: connections stay open, new ones
        wait in the kernel's queue, nothing is answered."""
        service = self.call(lambda service: service)
        stands, end = threading.Event(), threading.Event()

        def stand_still() -> None:
            stands.set()
            end.wait()
            if self._is_to_die:
                service.kill()

        self._loop.call_soon_threadsafe(stand_still)
        stands.wait(PATIENCE_S)
        self._pause = end

    def resume(self) -> None:
        if self._pause is not None:
            pause, self._pause = self._pause, None
            pause.set()

    async def _live(self) -> None:
        service = self._make_service(self._loop)
        await run_service(service, on_ready=lambda: self._ready.set_result(service))

    def _run(self) -> None:
        self._loop.run_forever()
        self._loop.close()

    def _end(self) -> None:
        """Wait for the service, then end the loop and the thread; raises what went wrong."""
        if not self._thread.is_alive():
            return
        try:
            self._raise_what_ended_it()
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()

    def _raise_what_ended_it(self) -> None:
        try:
            self._life.result(PATIENCE_S)
        except ServeError as error:
            raise NodeError(str(error)) from error
