"""One node's connections to the others, on the simulated network: the twin of `runtime.peers`.

A channel to a node is one connection, made when something is to be sent; its end ends every call
on it. The links belong to one life of the node and end with it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from tidelog.broker.effects import CallPeer, Channel, HangUp
from tidelog.broker.events import PeerAnswered, PeerFailed
from tidelog.model.ids import CallId, Endpoint, NodeId
from tidelog.sim.network import Connection, Delivery, Network, Server
from tidelog.wire.requests import LENGTH_BYTES

Find = Callable[[Endpoint], tuple[NodeId, Server] | None]
"""The host at an address."""

REFUSED_MS = 0.5
"""How long it takes to learn that nobody is at an address."""


@dataclass(slots=True)
class _Line:
    connection: Connection
    calls: deque[CallId] = field(default_factory=deque)


class PeerLinks:
    """Carries out `CallPeer` and `HangUp` for one life of a node."""

    def __init__(
        self,
        network: Network,
        node_id: NodeId,
        *,
        find: Find,
        on_event: Callable[[PeerAnswered | PeerFailed], None],
    ) -> None:
        self._network = network
        self._node_id = node_id
        self._find = find
        self._on_event = on_event
        self._lines: dict[tuple[Endpoint, Channel], _Line] = {}

    def call(self, effect: CallPeer) -> None:
        key = (effect.endpoint, effect.channel)
        line = self._lines.get(key) or self._connect(key)
        if line is None:
            refused = PeerFailed(effect.call, f"nobody is at {effect.endpoint}")
            self._fail_soon(refused, after_ms=REFUSED_MS)
            return
        line.calls.append(effect.call)
        line.connection.send_request(effect.frame[LENGTH_BYTES:])

    def hang_up(self, effect: HangUp) -> None:
        key = (effect.endpoint, effect.channel)
        line = self._lines.get(key)
        if line is not None:
            line.connection.hang_up()
            self._end(key, line, "given up")

    def strand(self, channel: Channel, until_ms: float) -> list[Connection]:
        """The connections of the channel break, as far as this node sees; what it has sent on them
        is still under way, until then at most. Gives them."""
        stranded = [(key, line) for key, line in self._lines.items() if key[1] == channel]
        for key, line in stranded:
            line.connection.to_node.hold(until_ms)
            line.connection.hang_up()
            self._end(key, line, "connection lost")
        return [line.connection for _, line in stranded]

    def lose_host(self) -> None:
        """The process is gone, and with it its end of every connection."""
        lines, self._lines = self._lines, {}
        for line in lines.values():
            line.calls.clear()
            line.connection.hang_up()

    def _connect(self, key: tuple[Endpoint, Channel]) -> _Line | None:
        found = self._find(key[0])
        if found is None:
            return None
        node_id, server = found
        lines: list[_Line] = []
        connection = self._network.connect(
            server,
            on_frame=lambda delivery: self._received(key, lines[0], delivery),
            on_close=lambda reason: self._end(key, lines[0], reason),
            direction=(self._node_id, node_id),
        )
        lines.append(_Line(connection))
        self._lines[key] = lines[0]
        return lines[0]

    def _received(self, key: tuple[Endpoint, Channel], line: _Line, delivery: Delivery) -> None:
        if self._lines.get(key) is not line:
            return
        memory = bytearray(delivery.frame[LENGTH_BYTES:])
        self._on_event(PeerAnswered(line.calls.popleft(), memoryview(memory)))

    def _end(self, key: tuple[Endpoint, Channel], line: _Line, reason: str) -> None:
        if self._lines.get(key) is line:
            del self._lines[key]
        calls, line.calls = line.calls, deque()
        for call in calls:
            self._fail_soon(PeerFailed(call, reason), after_ms=0.0)

    def _fail_soon(self, failed: PeerFailed, *, after_ms: float) -> None:
        self._network.schedule.after(after_ms, lambda: self._on_event(failed))
