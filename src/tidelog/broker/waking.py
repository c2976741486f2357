"""The ends of waits: rows of `Pending` that get their response, and where they get it from.

A row is woken because a partition it waits for has moved, because a coordinator or another node has
answered, or because its time is up. It may say "not yet" to the first; the others end it.
"""

from __future__ import annotations

from typing import Any

from tidelog.broker.connections import Connections
from tidelog.broker.effects import Effect
from tidelog.broker.pending import Postponed, Row
from tidelog.broker.requests import Requests
from tidelog.broker.state import CLOSE, BrokerState
from tidelog.model.clock import Now


class Waking:
    """Who waits, and is to be told."""

    def __init__(self, state: BrokerState, connections: Connections, requests: Requests) -> None:
        self._state = state
        self._connections = connections
        self._requests = requests

    def settle(self, now: Now, effects: list[Effect]) -> None:
        """Whoever waited for what has moved since: once, however much of it has."""
        state = self._state
        while state.advanced:
            leaders, state.advanced = state.advanced, {}
            rows = state.sessions.moved(leaders) if state.sessions.watched else []
            if state.follower_sessions.watched:
                rows += state.follower_sessions.moved(leaders)
            for leader in leaders:
                if leader.is_internal:
                    state.coordinators.advanced(leader)
                rows += state.pending.waiting_for(leader.key)
            for row in dict.fromkeys(rows):
                self.resume(row, now, effects)
        if state.coordinators.completed:
            for number, response in state.coordinators.take_completed():
                self._complete(number, response, effects)
        if state.completed:
            completed, state.completed = state.completed, []
            for number, response in completed:
                self._complete(number, response, effects)

    def resume(
        self, row: Row, now: Now, effects: list[Effect], *, is_expired: bool = False
    ) -> None:
        """Ask the row for its response."""
        pending = self._state.pending
        if not row.is_waiting:
            return
        response = row.wait.resume(now, is_expired=is_expired)
        if response is None:
            assert not is_expired, "an expired request must be answered"
            return
        if type(response) is Postponed:
            pending.postpone(row, response.until_ms)
            return
        pending.remove(row)
        if response is CLOSE:
            self._send_away(row, effects)
        else:
            self._requests.answer(row.slot, response, effects)

    @property
    def deadline_ms(self) -> float | None:
        return self._state.pending.deadline_ms

    def tick(self, now: Now, effects: list[Effect]) -> None:
        """Rows whose time is up."""
        for row in self._state.pending.expired(now.monotonic_ms):
            self.resume(row, now, effects, is_expired=True)

    def _complete(self, number: int, response: Any, effects: list[Effect]) -> None:
        """The answer to a row, from a coordinator or from another node."""
        row = self._state.pending.take(number)
        if row is None:
            return
        if response is CLOSE:
            self._send_away(row, effects)
        else:
            self._requests.answer(row.slot, response, effects)

    def _send_away(self, row: Row, effects: list[Effect]) -> None:
        """A row that is no longer waiting, and for which there is no response."""
        self._connections.close(row.slot.connection, "no answer from another node", effects)
