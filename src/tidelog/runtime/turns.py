"""The turns of the loop: all sockets are heard in one callback, not each in its own.

HOT PATH. The sockets that are read from stand behind one descriptor, an `epoll` of their own that
the loop watches. When it is ready, a turn begins: every socket that is readable has its say, then
every connection that has more to hand over from before, and the turn ends. So what a node has to do
once for all of them (read the clock, wake who waits, start a flush, ask for the next deadline) is
done once, and the loop has one callback to run, not one per socket.

Threads are heard in a turn, too (`tell`): a flush that is over is one more thing that is ready, and
shares the end of the turn with the requests beside it.

A turn is bounded: `MOST_READY` sockets at most are looked at, and the kernel has the others first
in the next turn. Between two turns the loop gets to everything else: timers, new connections.
"""

from __future__ import annotations

import os
from asyncio import AbstractEventLoop
from collections import deque
from collections.abc import Callable
from select import EPOLLET, EPOLLIN, epoll

MOST_READY = 64
"""Sockets in a turn. What is spared per request is spared with far fewer; more would only keep the
first of them waiting for their flush."""


class Turns:
    """Whose turn it is. `begin` and `end` frame every turn in which somebody has something."""

    def __init__(
        self,
        loop: AbstractEventLoop,
        *,
        begin: Callable[[], None],
        end: Callable[[], None],
    ) -> None:
        self.loop = loop
        self._begin = begin
        self._end = end
        self._epoll = epoll()
        self._readers: dict[int, Callable[[], None]] = {}
        self._queued: list[Callable[[], None]] = []
        self._told: deque[Callable[[], None]] = deque()
        self._bell = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._readers[self._bell] = self._hear_threads
        # Edge-triggered, so that nobody has to read what was written to it.
        self._epoll.register(self._bell, EPOLLIN | EPOLLET)
        loop.add_reader(self._epoll.fileno(), self._turn)

    def watch(self, fd: int, on_readable: Callable[[], None]) -> None:
        self._readers[fd] = on_readable
        self._epoll.register(fd, EPOLLIN)

    def unwatch(self, fd: int) -> None:
        """Before the descriptor is closed: its number may be another's soon."""
        del self._readers[fd]
        self._epoll.unregister(fd)

    def queue(self, deliver: Callable[[], None]) -> None:
        """Call it in the next turn, after the sockets that are readable then."""
        if not self._queued:
            self.loop.call_soon(self._turn)
        self._queued.append(deliver)

    def tell(self, act: Callable[[], None]) -> None:
        """From any thread: call it in the next turn. Not once `close` may have been called."""
        self._told.append(act)
        os.eventfd_write(self._bell, 1)

    def _hear_threads(self) -> None:
        while self._told:
            self._told.popleft()()

    def close(self) -> None:
        """When no socket is watched any more, and no thread has anything left to tell."""
        self.loop.remove_reader(self._epoll.fileno())
        self._epoll.close()
        os.close(self._bell)

    def _turn(self) -> None:
        if self._epoll.closed:
            return
        ready = self._epoll.poll(0, MOST_READY)
        queued, self._queued = self._queued, []
        if not (ready or queued):
            return
        readers = self._readers
        self._begin()
        for fd, _ in ready:
            on_readable = readers.get(fd)
            if on_readable is not None:  # nobody before it in this turn has closed it
                on_readable()
        for deliver in queued:
            deliver()
        self._end()
