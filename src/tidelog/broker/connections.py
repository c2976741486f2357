"""Answers leave in the order of their requests, connection by connection.

A request gets a `Slot` when it arrives; the slot is filled when the answer is known, which may be
much later (a long poll, a flush). Filled slots leave from the front of the line only. A connection
with too many open slots is not read from until half of them have left.
"""

from __future__ import annotations

from collections import deque

from tidelog.broker.effects import (
    CloseConnection,
    Effect,
    Part,
    PauseReading,
    ResumeReading,
    SendResponse,
)
from tidelog.model.ids import ConnectionId
from tidelog.wire.requests import RequestHeader


class Slot:
    """A request's place in the line. `parts` is None until it is answered."""

    __slots__ = ("connection", "header", "parts")

    def __init__(self, connection: Connection, header: RequestHeader) -> None:
        self.connection = connection
        self.header = header
        self.parts: list[Part] | None = None


class Connection:
    """One client connection: its line of slots."""

    __slots__ = (
        "connection_id",
        "is_closing",
        "is_paused",
        "peer",
        "quiet_since_ms",
        "slots",
        "was_active",
    )

    def __init__(self, connection_id: ConnectionId, peer: str, now_ms: float) -> None:
        self.connection_id = connection_id
        self.peer = peer
        self.slots: deque[Slot] = deque()
        self.is_paused = False
        self.is_closing = False
        self.was_active = False
        """A request was dealt with since somebody last looked for idle ones."""
        self.quiet_since_ms = now_ms


class Connections:
    """All connections of the node."""

    def __init__(self, *, max_in_flight: int) -> None:
        self._open: dict[ConnectionId, Connection] = {}
        self._max_in_flight = max_in_flight

    def __len__(self) -> int:
        return len(self._open)

    def opened(self, connection_id: ConnectionId, *, peer: str, now_ms: float) -> None:
        self._open[connection_id] = Connection(connection_id, peer, now_ms)

    def closed(self, connection_id: ConnectionId) -> list[Slot]:
        """The client is gone. Gives the slots that nobody has to fill any more."""
        connection = self._open.pop(connection_id, None)
        if connection is None:
            return []
        connection.is_closing = True
        return list(connection.slots)

    def get(self, connection_id: ConnectionId) -> Connection | None:
        connection = self._open.get(connection_id)
        return None if connection is None or connection.is_closing else connection

    def take_slot(
        self, connection: Connection, header: RequestHeader, effects: list[Effect]
    ) -> Slot:
        slot = Slot(connection, header)
        slots = connection.slots
        slots.append(slot)
        if len(slots) >= self._max_in_flight and not connection.is_paused:
            connection.is_paused = True
            effects.append(PauseReading(connection.connection_id))
        return slot

    def withdraw(self, slot: Slot, effects: list[Effect]) -> None:
        """The request gets no answer (acks=0)."""
        slot.connection.slots.remove(slot)
        self._drain(slot.connection, effects)

    def answer(self, slot: Slot, parts: list[Part], effects: list[Effect]) -> None:
        """Fill the slot, and send what may now leave."""
        slot.parts = parts
        self._drain(slot.connection, effects)

    def close(self, connection: Connection, reason: str, effects: list[Effect]) -> None:
        """No more requests are taken; answers already sent still reach the client."""
        if not connection.is_closing:
            connection.is_closing = True
            effects.append(CloseConnection(connection.connection_id, reason))

    def close_idle(self, now_ms: float, max_idle_ms: float, effects: list[Effect]) -> None:
        """Close those that have been silent for long. Whoever waits for an answer is not, and is
        given the whole time again from the answer: some clients lose an answer that comes together
        with the end of the connection."""
        for connection in list(self._open.values()):
            if connection.slots or connection.was_active:
                connection.was_active = False
                connection.quiet_since_ms = now_ms
            elif now_ms - connection.quiet_since_ms > max_idle_ms:
                self.close(connection, "idle", effects)

    def _drain(self, connection: Connection, effects: list[Effect]) -> None:
        connection.was_active = True
        slots = connection.slots
        while slots and (parts := slots[0].parts) is not None:
            slots.popleft()
            effects.append(SendResponse(connection.connection_id, parts))
        if connection.is_paused and len(slots) <= self._max_in_flight // 2:
            connection.is_paused = False
            if not connection.is_closing:
                effects.append(ResumeReading(connection.connection_id))

    def validate(self) -> None:
        for connection in self._open.values():
            if connection.is_closing:
                continue
            slots = connection.slots
            assert not slots or slots[0].parts is None, "an answered request stands at the front"
            assert len(slots) <= self._max_in_flight or connection.is_paused

    def describe(self) -> list[dict[str, object]]:
        return [
            {"id": c.connection_id, "peer": c.peer, "waiting": len(c.slots), "paused": c.is_paused}
            for c in self._open.values()
        ]
