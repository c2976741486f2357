"""Answers leave in the order of their requests, connection by connection.

A request gets a `Slot` when it arrives; the slot is filled when the answer is known, which may be
much later (a long poll, a flush). Filled slots leave from the front of the line only. A connection
with too many open slots is not read from until half of them have left.

A request may also have to wait before it is handled, because a write ahead of it on the same
connection is not answered yet (`requests.py` has the rule). It is *held*: decoded, in its slot, and
the connection is not read from until it was handled, so that one request per connection is held.
"""

from __future__ import annotations

from collections import deque
from typing import Any

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

    __slots__ = ("connection", "header", "is_unfinished_write", "parts")

    def __init__(self, connection: Connection, header: RequestHeader) -> None:
        self.connection = connection
        self.header = header
        self.parts: list[Part] | None = None
        self.is_unfinished_write = False
        """What comes behind it on the connection must see what it did, and it is not done yet."""


class Connection:
    """One client connection: its line of slots."""

    __slots__ = (
        "connection_id",
        "flush_round",
        "held",
        "is_closing",
        "is_from_node",
        "is_muted",
        "is_paused",
        "peer",
        "quiet_since_ms",
        "slots",
        "unfinished_api",
        "unfinished_writes",
        "was_active",
    )

    def __init__(self, connection_id: ConnectionId, peer: str, now_ms: float) -> None:
        self.connection_id = connection_id
        self.peer = peer
        self.slots: deque[Slot] = deque()
        self.held: deque[tuple[Slot, Any]] = deque()
        """Requests not handled yet. More than one only if they were on their way to the node when
        the reading was paused."""
        self.unfinished_writes = 0
        self.unfinished_api = -1
        """What they are, while there are any: all of one kind."""
        self.flush_round = -1
        """The last that it has waited for (`flushing.py`)."""
        self.is_muted = False
        """Nothing is read before the unfinished write is answered."""
        self.is_from_node = False
        """Another node of the cluster asks here."""
        self.is_paused = False
        self.is_closing = False
        self.was_active = False
        """A request was dealt with since somebody last looked for idle ones."""
        self.quiet_since_ms = now_ms


class Connections:
    """All connections of the node."""

    def __init__(self, *, max_in_flight: int) -> None:
        self.by_id: dict[ConnectionId, Connection] = {}
        """All that are open, those included that are about to be closed."""
        self._max_in_flight = max_in_flight
        self.released: list[Connection] = []
        """Their held requests may be handled now."""

    def __len__(self) -> int:
        return len(self.by_id)

    def opened(self, connection_id: ConnectionId, *, peer: str, now_ms: float) -> None:
        self.by_id[connection_id] = Connection(connection_id, peer, now_ms)

    def closed(self, connection_id: ConnectionId) -> list[Slot]:
        """The client is gone. Gives the slots that nobody has to fill any more."""
        connection = self.by_id.pop(connection_id, None)
        if connection is None:
            return []
        connection.is_closing = True
        connection.held.clear()
        return list(connection.slots)

    def take_slot(
        self, connection: Connection, header: RequestHeader, effects: list[Effect]
    ) -> Slot:
        slot = Slot(connection, header)
        slots = connection.slots
        slots.append(slot)
        if len(slots) >= self._max_in_flight and not connection.is_paused:
            self._pause(connection, effects)
        return slot

    def write_waits(self, slot: Slot, effects: list[Effect], *, mutes: bool) -> None:
        """The request changes something and is answered later: what comes behind it waits for the
        answer, unless it is the like. With `mutes` nothing more is read until then."""
        connection = slot.connection
        slot.is_unfinished_write = True
        connection.unfinished_writes += 1
        connection.unfinished_api = slot.header.api_key
        if mutes:
            connection.is_muted = True
            self._pause(connection, effects)

    def hold(self, slot: Slot, request: Any, effects: list[Effect]) -> None:
        """The request is handled when its connection is among the `released`."""
        slot.connection.held.append((slot, request))
        self._pause(slot.connection, effects)

    def resume_reading(self, connection: Connection, effects: list[Effect]) -> None:
        """Unless there is a reason left not to."""
        must_wait = connection.is_muted or connection.held
        if must_wait or len(connection.slots) > self._max_in_flight // 2:
            return
        connection.is_paused = False
        if not connection.is_closing:
            effects.append(ResumeReading(connection.connection_id))

    def withdraw(self, slot: Slot, effects: list[Effect]) -> None:
        """The request gets no answer (acks=0)."""
        slot.connection.slots.remove(slot)
        self._drain(slot.connection, effects)

    def answer(self, slot: Slot, parts: list[Part], effects: list[Effect]) -> None:
        """Fill the slot, and send what may now leave. Most often that is this answer alone."""
        connection = slot.connection
        slots = connection.slots
        slot.parts = parts
        if slot.is_unfinished_write:
            connection.unfinished_writes -= 1
            if connection.unfinished_writes == 0:
                connection.is_muted = False
                if connection.held:
                    self.released.append(connection)
        if len(slots) > 1 or connection.is_paused:
            self._drain(connection, effects)
        else:
            slots.popleft()
            connection.was_active = True
            effects.append(SendResponse(connection.connection_id, parts))

    def close(self, connection: Connection, reason: str, effects: list[Effect]) -> None:
        """No more requests are taken; answers already sent still reach the client."""
        if not connection.is_closing:
            connection.is_closing = True
            effects.append(CloseConnection(connection.connection_id, reason))

    def close_idle(self, now_ms: float, max_idle_ms: float, effects: list[Effect]) -> None:
        """Close those that have been silent for long. Whoever waits for an answer is not, and is
        given the whole time again from the answer: some clients lose an answer that comes together
        with the end of the connection."""
        for connection in list(self.by_id.values()):
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
        if connection.is_paused:
            self.resume_reading(connection, effects)

    def _pause(self, connection: Connection, effects: list[Effect]) -> None:
        if not connection.is_paused:
            connection.is_paused = True
            effects.append(PauseReading(connection.connection_id))

    def validate(self) -> None:
        for connection in self.by_id.values():
            if connection.is_closing:
                continue
            slots = connection.slots
            assert not slots or slots[0].parts is None, "an answered request stands at the front"
            assert len(slots) <= self._max_in_flight or connection.is_paused
            unfinished = [each for each in slots if each.is_unfinished_write and each.parts is None]
            assert len(unfinished) == connection.unfinished_writes, "a write was not counted"
            apis = {slot.header.api_key for slot in unfinished}
            assert apis <= {connection.unfinished_api}, "a write has overtaken another"
            assert not connection.held or connection.is_paused, "what is behind may overtake"

    def describe(self) -> list[dict[str, object]]:
        return [
            {"id": c.connection_id, "peer": c.peer, "waiting": len(c.slots), "paused": c.is_paused}
            for c in self.by_id.values()
        ]
