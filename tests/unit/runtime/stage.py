"""Connections on real sockets and a real loop, in a test's hand."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tidelog.model.ids import ConnectionId
from tidelog.runtime.connection import SocketConnection
from tidelog.runtime.range_readers import HaveRead
from tidelog.runtime.receive_pool import ReceivePool
from tidelog.runtime.turns import Turns

MB = 1024 * 1024
LARGEST = 4 * MB
WAIT_S = 60.0


def frame_of(text: bytes) -> bytes:
    return len(text).to_bytes(4, "big") + text


class Stage:
    """Connections whose frames are noted in the order in which they are handed over."""

    def __init__(self, *, limit: int) -> None:
        self.loop = asyncio.get_running_loop()
        self.turns = Turns(self.loop, begin=lambda: None, end=lambda: None)
        self.pool = ReceivePool(limit, largest=LARGEST)
        self.handed: list[tuple[int, bytes]] = []
        self.lost: dict[int, str] = {}
        self.connections: list[SocketConnection] = []
        self.defects: list[str] = []
        self.loop.set_exception_handler(lambda _, context: self.defects.append(str(context)))
        self._clients: list[socket.socket] = []

    def connect(
        self,
        on_frame: Callable[[ConnectionId, memoryview], None] | None = None,
        *,
        have_read: HaveRead | None = None,
    ) -> socket.socket:
        client, server = socket.socketpair()
        for sock in (client, server):
            sock.setblocking(False)
        connection = SocketConnection(
            self.turns,
            server,
            ConnectionId(len(self.connections)),
            owner="host",
            max_frame_bytes=LARGEST,
            pool=self.pool,
            on_frame=on_frame or self._on_frame,
            on_lost=self._on_lost,
            have_read=have_read,
        )
        self.connections.append(connection)
        self._clients.append(client)
        connection.start()
        return client

    def close(self) -> None:
        for connection in self.connections:
            connection.abort()
        for client in self._clients:
            client.close()
        self.turns.close()

    def client(self, number: int) -> socket.socket:
        """The other end of a connection."""
        return self._clients[number]

    async def send(self, client: socket.socket, data: bytes) -> None:
        async with asyncio.timeout(WAIT_S):
            await self.loop.sock_sendall(client, data)

    async def turns_until(self, count: int) -> None:
        """Until so many frames were handed over."""
        async with asyncio.timeout(WAIT_S):
            while len(self.handed) < count:
                await asyncio.sleep(0)

    def _on_frame(self, number: ConnectionId, frame: memoryview) -> None:
        self.handed.append((number, bytes(frame[:8])))

    def _on_lost(self, number: ConnectionId, reason: str) -> None:
        self.lost[number] = reason


@contextmanager
def stage(*, limit: int = 64 * MB) -> Iterator[Stage]:
    made = Stage(limit=limit)
    try:
        yield made
        assert not made.defects
    finally:
        made.close()
