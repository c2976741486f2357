"""Work that one request asks for and that takes long, done in slices between other requests.

A node has one loop: what it does in one step, everybody waits for. Five things may be very many:
topics to decide on (`broker/topic_creations.py`), topics to describe where all are asked for
(`broker/topic_descriptions.py`), groups to list (`broker/apis/list_groups.py`), logs to open where
a node has come back or partitions are new (`Replicas.open_deferred`), and directories to delete
(`TopicDirectories.delete_doomed`). Each `Tick` does one slice of a request, of the logs and of the
directories, and asks for the next at once. `docs/decisions/0023-fair-turns.md` names what is still
one step.
"""

from __future__ import annotations

from tidelog.broker.effects import Effect
from tidelog.broker.state import BrokerState
from tidelog.model.clock import Now

LOGS_PER_SLICE = 1
"""Logs to open in one slice: each takes a fifth of a millisecond, or three on a busy disk; after a
crash a few syncs, and more where many segments lie above its flushed mark."""

DIRECTORIES_PER_SLICE = 1
"""Directories to delete in one slice: each takes up to some milliseconds."""

_AT_ONCE = 0.0


class Slices:
    """What this node still has to do."""

    def __init__(self, state: BrokerState) -> None:
        self._state = state
        self.deadline_ms: float | None = None
        """When to call `tick` again: as of the last `look`."""

    def look(self) -> None:
        """After whatever may have brought or ended work of this kind."""
        state = self._state
        replicas = state.replicas
        has_files = replicas.has_deferred or replicas.directories.has_doomed
        is_due = state.long_requests or (has_files and not state.node_is_read_only)
        self.deadline_ms = _AT_ONCE if is_due else None

    def tick(self, now: Now, effects: list[Effect]) -> None:
        """The next slice of each."""
        state = self._state
        if state.long_requests:
            number, wait = state.long_requests[0]
            if wait.is_abandoned or wait.turn(number, now):
                state.long_requests.popleft()
        replicas = state.replicas
        if replicas.has_deferred and not state.node_is_read_only:
            replicas.open_deferred(LOGS_PER_SLICE)
        if replicas.directories.has_doomed and not state.node_is_read_only:
            replicas.directories.delete_doomed(DIRECTORIES_PER_SLICE)

    def settle(self) -> None:
        """At the end of a turn: logs made in it, by a slice or for a request, get their role, and
        directories that have changed are flushed."""
        state = self._state
        state.flushing.touch_directories(state.replicas.directories.take_unsynced())
        state.roles_changed()
        state.replicas.turn_ends()
