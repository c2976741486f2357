"""Connections to other nodes: one per node and channel, opened when something is to be sent.

Requests queue while the connection is being made. Whatever ends a connection ends its calls: the
node hears of each as `PeerFailed`, and decides itself whether and when to ask again. An answer
is matched to its call by order, as the protocol promises; the node checks the correlation id.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections import deque
from collections.abc import Callable

from tidelog.broker.effects import CallPeer, Channel, HangUp
from tidelog.broker.events import PeerAnswered, PeerFailed
from tidelog.model.ids import CallId, ConnectionId, Endpoint
from tidelog.runtime.connection import SocketConnection
from tidelog.runtime.receive_pool import ReceivePool
from tidelog.runtime.turns import Turns

log = logging.getLogger("tidelog")

CONNECT_TIMEOUT_S = 3.0
"""A host that drops packets would otherwise be waited for until the kernel gives up."""

_LEAST_RESPONSE_BYTES = 4
"""The correlation id."""

_Key = tuple[Endpoint, Channel]


class _Line:
    """One channel to one node: connecting, then connected, then gone."""

    def __init__(self) -> None:
        self.connection: SocketConnection | None = None
        self.unsent: list[bytes] = []
        self.calls: deque[CallId] = deque()
        self.connecting: asyncio.Task[None] | None = None


class PeerSockets:
    """Carries out `CallPeer` and `HangUp`; `on_event` hears what became of each call."""

    def __init__(
        self,
        turns: Turns,
        *,
        max_frame_bytes: int,
        on_event: Callable[[PeerAnswered | PeerFailed], None],
    ) -> None:
        self._turns = turns
        self._loop = turns.loop
        self._max_frame_bytes = max_frame_bytes
        self._pool = ReceivePool(2 * max_frame_bytes, largest=max_frame_bytes)
        """Not the clients': they can't keep this node from hearing of its cluster."""
        self._on_event = on_event
        self._lines: dict[_Key, _Line] = {}
        self._next_id = 1

    def call(self, effect: CallPeer) -> None:
        key = (effect.endpoint, effect.channel)
        line = self._lines.get(key)
        if line is None:
            line = self._lines[key] = _Line()
            line.connecting = self._loop.create_task(self._connect(key, line))
        line.calls.append(effect.call)
        if line.connection is None:
            line.unsent.append(effect.frame)
        else:
            line.connection.send([effect.frame])

    def hang_up(self, effect: HangUp) -> None:
        self._end((effect.endpoint, effect.channel), "given up")

    def close(self) -> None:
        """Without a word to the node, which is gone."""
        lines, self._lines = self._lines, {}
        for line in lines.values():
            line.calls.clear()
            _disconnect(line)

    async def _connect(self, key: _Key, line: _Line) -> None:
        endpoint = key[0]
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                sock = await _connected_socket(self._loop, endpoint)
        except (OSError, TimeoutError) as error:
            line.connecting = None
            if self._lines.get(key) is line:
                self._end(key, f"can't connect to {endpoint}: {error or 'no answer'}")
            return
        line.connecting = None
        connection = SocketConnection(
            self._turns,
            sock,
            ConnectionId(self._next_id),
            owner=endpoint.host,
            max_frame_bytes=self._max_frame_bytes,
            min_frame_bytes=_LEAST_RESPONSE_BYTES,
            pool=self._pool,
            on_frame=lambda _, frame: self._received(key, line, frame),
            on_lost=lambda _, reason: self._lost(key, line, reason),
        )
        self._next_id += 1
        line.connection = connection
        connection.start()
        unsent, line.unsent = line.unsent, []
        connection.send(list(unsent))

    def _received(self, key: _Key, line: _Line, frame: memoryview) -> None:
        if not line.calls:
            self._end(key, "an answer nobody asked for")
            return
        self._on_event(PeerAnswered(line.calls.popleft(), frame))

    def _lost(self, key: _Key, line: _Line, reason: str) -> None:
        if self._lines.get(key) is line:
            self._end(key, reason)

    def _end(self, key: _Key, reason: str) -> None:
        line = self._lines.pop(key, None)
        if line is None:
            return
        log.debug("channel %s to %s ends: %s", key[1], key[0], reason)
        calls, line.calls = line.calls, deque()
        _disconnect(line)
        for call in calls:
            self._loop.call_soon(self._on_event, PeerFailed(call, reason))


def _disconnect(line: _Line) -> None:
    if line.connecting is not None:
        line.connecting.cancel()
    if line.connection is not None:
        line.connection.abort()


async def _connected_socket(loop: asyncio.AbstractEventLoop, endpoint: Endpoint) -> socket.socket:
    """The first of the host's addresses that answers."""
    found = await loop.getaddrinfo(endpoint.host, endpoint.port, type=socket.SOCK_STREAM)
    trouble: OSError = OSError("the host has no address")
    for family, kind, protocol, _, address in found:
        sock = socket.socket(family, kind, protocol)
        try:
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await loop.sock_connect(sock, address)
        except OSError as error:
            sock.close()
            trouble = error
        except BaseException:
            sock.close()
            raise
        else:
            return sock
    raise trouble
