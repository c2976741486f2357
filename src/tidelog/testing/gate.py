"""The gate between sockets and broker: frames that come late, answers that never arrive.

A delayed frame holds up its whole connection, as a slow network would, so requests stay in order.
A lost answer closes the connection in its place: the client can't know whether its request was
carried out, which is the case every producer must be able to live with.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from tidelog.broker.effects import CloseConnection, Effect, SendResponse
from tidelog.broker.events import ConnectionClosed, Event, FrameReceived, Tick
from tidelog.broker.node import Node as BrokerNode
from tidelog.model.clock import Now
from tidelog.model.ids import ConnectionId
from tidelog.testing.faults import Delay, Faults, Loss
from tidelog.wire.errors import DecodeError
from tidelog.wire.requests import RequestHeader, decode_header


class _Line(NamedTuple):
    """The frames a connection has sent since its first delayed one, which goes on at `due_ms`."""

    due_ms: float
    frames: deque[memoryview]


class Gate:
    """A broker's node, seen by the service as one (`runtime.service.Machine`)."""

    def __init__(self, node: BrokerNode, faults: Faults) -> None:
        self.node = node
        self._faults = faults
        self._held: dict[ConnectionId, _Line] = {}
        self._to_lose: dict[ConnectionId, int] = {}
        self._cut: set[ConnectionId] = set()

    def start(self, now: Now) -> list[Effect]:
        return self.node.start(now)

    def next_deadline(self) -> float | None:
        deadlines = [line.due_ms for line in self._held.values()]
        own = self.node.next_deadline()
        if own is not None:
            deadlines.append(own)
        return min(deadlines, default=None)

    def receive(self, now: Now, event: Event) -> list[Effect]:
        effects: list[Effect] = []
        if type(event) is FrameReceived:
            self._on_frame(now, event, effects)
        else:
            if type(event) is ConnectionClosed:
                self._forget(event.connection)
            elif type(event) is Tick:
                self._release(now, effects)
            effects += self.node.receive(now, event)
        return self._without_lost(effects)

    def settle(self, now: Now) -> list[Effect]:
        return self._without_lost(self.node.settle(now))

    # --- late ---------------------------------------------------------------------------------

    def _on_frame(self, now: Now, event: FrameReceived, effects: list[Effect]) -> None:
        line = self._held.get(event.connection)
        if line is not None:
            line.frames.append(_kept(event.frame))
            return
        header = _header(event.frame)
        late = None if header is None else self._faults.strike(Delay, header)
        if late is not None:
            frames = deque([_kept(event.frame)])
            self._held[event.connection] = _Line(now.monotonic_ms + late.delay_ms, frames)
            return
        self._pass(now, event, header, effects)

    def _release(self, now: Now, effects: list[Effect]) -> None:
        due = [each for each, line in self._held.items() if line.due_ms <= now.monotonic_ms]
        for connection in due:
            frames = self._held.pop(connection).frames
            first = frames.popleft()
            self._pass(now, FrameReceived(connection, first), _header(first), effects)
            for frame in frames:
                self._on_frame(now, FrameReceived(connection, frame), effects)

    # --- lost ---------------------------------------------------------------------------------

    def _pass(
        self,
        now: Now,
        event: FrameReceived,
        header: RequestHeader | None,
        effects: list[Effect],
    ) -> None:
        """On to the broker. At most one answer is lost on a connection: it does not survive it."""
        if event.connection in self._cut:
            return
        may_lose = header is not None and event.connection not in self._to_lose
        if header is not None and may_lose and self._faults.strike(Loss, header) is not None:
            self._to_lose[event.connection] = header.correlation_id
        effects += self.node.receive(now, event)

    def _without_lost(self, effects: list[Effect]) -> list[Effect]:
        if not (self._to_lose or self._cut):
            return effects
        kept: list[Effect] = []
        for effect in effects:
            if type(effect) is SendResponse:
                if effect.connection in self._cut:
                    continue
                if self._to_lose.get(effect.connection) == _correlation_id(effect):
                    del self._to_lose[effect.connection]
                    self._cut.add(effect.connection)
                    kept.append(CloseConnection(effect.connection, "its answer is lost, as told"))
                    continue
            kept.append(effect)
        return kept

    def _forget(self, connection: ConnectionId) -> None:
        self._held.pop(connection, None)
        self._to_lose.pop(connection, None)
        self._cut.discard(connection)


def _header(frame: memoryview) -> RequestHeader | None:
    """None of what is no request: that is for the broker to refuse."""
    try:
        return decode_header(frame)[0]
    except DecodeError:
        return None


def _kept(frame: memoryview) -> memoryview:
    """The runtime reuses the memory of a frame after it was received."""
    return memoryview(bytearray(frame))


def _correlation_id(effect: SendResponse) -> int:
    first = effect.parts[0]
    assert isinstance(first, bytes | bytearray | memoryview)
    return int.from_bytes(first[4:8], "big", signed=True)
