"""Connections between clients and hosts: frames in order, late, held, or never.

A connection has two lanes, each first in first out with its own delays. A response leaves the node
when the lane takes it off the host: for a slow reader that is later, and only then are its file
spans read, as a socket would. A reset loses what is on both lanes: a request before it was
processed, or a response after. What had left the host when the power failed still arrives.

Between two nodes a direction can be cut: what is sent that way stays underway until it is mended,
and whoever waits finds out by waiting.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple, Protocol

from tidelog.broker.effects import Part
from tidelog.log.disk import DiskError, FileSpan
from tidelog.model.ids import ConnectionId, NodeId
from tidelog.sim.schedule import Schedule, Timer


@dataclass(slots=True)
class NetworkFaults:
    """How bad the network is. `heal` makes it quick and faithful."""

    delay_ms: tuple[float, float] = (0.05, 1.0)
    spike_rate: float = 0.0
    spike_ms: float = 0.0
    reset_rate: float = 0.0
    hold_rate: float = 0.0
    hold_ms: float = 0.0
    slow_reader_rate: float = 0.0
    slow_reader_ms: float = 0.0
    counted: Counter[str] = field(default_factory=Counter)

    def heal(self) -> None:
        self.delay_ms = (0.05, 0.5)
        self.spike_rate = self.reset_rate = self.hold_rate = self.slow_reader_rate = 0.0


class Server(Protocol):
    """The node's end. Each call is about one incarnation: to another one it means nothing."""

    def connection_opened(self, connection: Connection) -> bool: ...

    def connection_closed(self, connection: Connection) -> None: ...

    def frame_received(self, connection: Connection, frame: bytes) -> None: ...


class Delivery(NamedTuple):
    """A response as it reaches the client, and the moment the node had answered."""

    frame: bytes
    emitted_ms: float
    incarnation: int


_OPEN = "open"
"""The first payload of a connection."""

Direction = tuple[NodeId, NodeId]
"""From one node to another."""


def between(left: list[NodeId], right: list[NodeId]) -> list[Direction]:
    """All of them, both ways."""
    return [pair for a in left for b in right for pair in ((a, b), (b, a))]


@dataclass(slots=True)
class _Departure:
    parts: list[Part]
    emitted_ms: float


class Lane:
    """One direction. `arrive` is called with each payload, in order; None means end of stream."""

    def __init__(
        self,
        network: Network,
        arrive: Callable[[object], None],
        direction: Direction | None = None,
    ) -> None:
        self._network = network
        self._arrive = arrive
        self._direction = direction
        self._queue: deque[tuple[float, object]] = deque()
        self._timer: Timer | None = None
        self._ready_ms = 0.0
        self._held_until_ms = 0.0
        self.is_paused = False

    def push(self, payload: object, *, extra_ms: float = 0.0) -> None:
        schedule = self._network.schedule
        due = schedule.now_ms + extra_ms + self._network.draw_delay_ms()
        self._ready_ms = max(self._ready_ms, due)
        self._queue.append((self._ready_ms, payload))
        self._arm()

    def hold(self, until_ms: float) -> None:
        """Nothing arrives before then."""
        self._held_until_ms = max(self._held_until_ms, until_ms)

    def release(self) -> None:
        self._held_until_ms = 0.0
        self._ready_ms = self._network.schedule.now_ms
        self._queue = deque((min(due, self._ready_ms), payload) for due, payload in self._queue)
        self._disarm()
        self._arm()

    def pause(self, is_paused: bool) -> None:
        self.is_paused = is_paused
        self._arm()

    def mended(self) -> None:
        """The direction may be open again."""
        self._arm()

    def clear(self) -> None:
        self._queue.clear()
        self._disarm()

    def __len__(self) -> int:
        return len(self._queue)

    def _arm(self) -> None:
        if self._timer is not None or not self._queue or self.is_paused or self._is_cut():
            return
        due = max(self._queue[0][0], self._held_until_ms)
        self._timer = self._network.schedule.at(due, self._deliver)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _deliver(self) -> None:
        self._timer = None
        now_ms = self._network.schedule.now_ms
        is_stopped = self.is_paused or self._is_cut() or now_ms < self._held_until_ms
        if self._queue and not is_stopped:
            _, payload = self._queue.popleft()
            self._arrive(payload)
        self._arm()

    def _is_cut(self) -> bool:
        return self._direction is not None and self._direction in self._network.cuts


class Connection:
    """One connection. The client gives two callbacks; the host calls `send` and `close`."""

    def __init__(
        self,
        network: Network,
        server: Server,
        number: int,
        *,
        on_frame: Callable[[Delivery], None],
        on_close: Callable[[str], None],
        direction: Direction | None = None,
    ) -> None:
        back = None if direction is None else (direction[1], direction[0])
        self.id = ConnectionId(number)
        self.incarnation = -1
        self._network = network
        self._server = server
        self._on_frame = on_frame
        self._on_close = on_close
        self.to_node = Lane(network, self._arrive_at_node, direction)
        self._leaving = Lane(network, self._leave_host)
        self.to_client = Lane(network, self._arrive_at_client, back)
        self.is_open = True
        self._is_known_to_node = False
        self.to_node.push(_OPEN)

    # --- the client's side -----------------------------------------------------------------------

    def send_request(self, frame: bytes) -> None:
        if self.is_open:
            self._network.maybe_disturb(self)
            self.to_node.push(frame)

    def hang_up(self) -> None:
        """The client closes: what it has sent still reaches the node, answers no longer matter."""
        if self.is_open:
            self.is_open = False
            self.to_client.clear()
            self._leaving.clear()
            self.to_node.push(None)

    # --- the host's side -------------------------------------------------------------------------

    def send(self, parts: list[Part], *, emitted_ms: float) -> None:
        """A response frame. It leaves at once, or when a slow reader makes room for it."""
        if not self.is_open:
            return
        extra_ms = self._network.draw_slow_reader_ms()
        if extra_ms == 0.0 and not len(self._leaving):
            self._leave_host(_Departure(parts, emitted_ms))
        else:
            self._leaving.push(_Departure(parts, emitted_ms), extra_ms=extra_ms)

    @property
    def has_unsent_responses(self) -> bool:
        return len(self._leaving) > 0

    def close_by_node(self) -> None:
        """Send what is queued, then close; the node hears of it as of any end."""
        self.to_node.clear()
        self._leaving.push(None)
        self._network.schedule.after(0.1, self._tell_node)

    def lose_host(self) -> None:
        """The process is gone: its buffers too, but not what is already on the wire."""
        self._is_known_to_node = False
        self.to_node.clear()
        self._leaving.clear()
        if self.is_open:
            self.to_client.push(None)

    def reset(self) -> None:
        """The connection breaks in both directions."""
        self.to_node.clear()
        self._leaving.clear()
        self.to_client.clear()
        self._tell_client("connection reset", after_ms=self._network.draw_delay_ms())
        self._network.schedule.after(self._network.draw_delay_ms(), self._tell_node)

    # --- arrivals --------------------------------------------------------------------------------

    def _arrive_at_node(self, payload: object) -> None:
        if payload is None:
            self._tell_node()
        elif payload is _OPEN:
            self._is_known_to_node = self._server.connection_opened(self)
            if not self._is_known_to_node:
                self._tell_client("connection refused", after_ms=self._network.draw_delay_ms())
        elif self._is_known_to_node:
            assert isinstance(payload, bytes)
            self._server.frame_received(self, payload)

    def _leave_host(self, payload: object) -> None:
        if payload is None:
            self.to_client.push(None)
            return
        assert isinstance(payload, _Departure)
        try:
            frame = b"".join(
                [part.read() if isinstance(part, FileSpan) else part for part in payload.parts]
            )
        except DiskError:
            self._network.faults.counted["unsendable response"] += 1
            self.reset()
            return
        self.to_client.push(Delivery(frame, payload.emitted_ms, self.incarnation))

    def _arrive_at_client(self, payload: object) -> None:
        if payload is None:
            self._tell_client("connection closed", after_ms=0.0)
        elif self.is_open:
            assert isinstance(payload, Delivery)
            self._on_frame(payload)

    def _tell_node(self) -> None:
        if self._is_known_to_node:
            self._is_known_to_node = False
            self._server.connection_closed(self)

    def _tell_client(self, reason: str, *, after_ms: float) -> None:
        if self.is_open:
            self.is_open = False
            self._network.schedule.after(after_ms, lambda: self._on_close(reason))


class Network:
    """Makes connections and draws their luck."""

    def __init__(self, schedule: Schedule, random: Random) -> None:
        self.schedule = schedule
        self.faults = NetworkFaults()
        self._random = random
        self.cuts: dict[Direction, None] = {}
        self._number = 0
        self._connections: dict[int, Connection] = {}

    def connect(
        self,
        server: Server,
        *,
        on_frame: Callable[[Delivery], None],
        on_close: Callable[[str], None],
        direction: Direction | None = None,
    ) -> Connection:
        """`direction` for a connection between nodes, which can be cut."""
        self._number += 1
        connection = Connection(
            self, server, self._number, on_frame=on_frame, on_close=on_close, direction=direction
        )
        self._connections[connection.id] = connection
        return connection

    def heal(self) -> None:
        """From now on frames travel quickly, also those that were held."""
        self.faults.heal()
        self.mend(list(self.cuts))
        for connection in self.open_connections():
            connection.to_node.release()
            connection.to_client.release()

    def cut(self, directions: list[Direction]) -> None:
        """Nothing gets through that way until it is mended."""
        self.cuts.update(dict.fromkeys(directions))

    def mend(self, directions: list[Direction]) -> None:
        for direction in directions:
            self.cuts.pop(direction, None)
        for connection in self.open_connections():
            connection.to_node.mended()
            connection.to_client.mended()

    def open_connections(self) -> list[Connection]:
        self._connections = {n: c for n, c in self._connections.items() if c.is_open}
        return list(self._connections.values())

    def draw_delay_ms(self) -> float:
        low, high = self.faults.delay_ms
        delay = self._random.uniform(low, high)
        if self._strikes(self.faults.spike_rate, "delay spike"):
            delay += self._random.uniform(0.0, self.faults.spike_ms)
        return delay

    def draw_slow_reader_ms(self) -> float:
        if self._strikes(self.faults.slow_reader_rate, "slow reader"):
            return self._random.uniform(0.0, self.faults.slow_reader_ms)
        return 0.0

    def maybe_disturb(self, connection: Connection) -> None:
        """A reset or a hold at some moment while the request is on its way or being answered."""
        if self._strikes(self.faults.reset_rate, "connection reset"):
            self.schedule.after(self._random.expovariate(0.3), connection.reset)
        if self._strikes(self.faults.hold_rate, "held frames"):
            lane = self._random.choice((connection.to_node, connection.to_client))
            lane.hold(self.schedule.now_ms + self._random.uniform(0.0, self.faults.hold_ms))

    def _strikes(self, rate: float, kind: str) -> bool:
        if rate <= 0.0 or self._random.random() >= rate:
            return False
        self.faults.counted[kind] += 1
        return True
