"""What a node does once a second, since nobody waits for it: marks, snapshots, idle connections."""

from __future__ import annotations

from tidelog.broker.cluster_member import ClusterMember
from tidelog.broker.connections import Connections
from tidelog.broker.effects import Effect, Report
from tidelog.broker.state import BrokerState
from tidelog.log.disk import DiskError, DiskFull
from tidelog.model.clock import Now
from tidelog.partition.replica import Replica

_INTERVAL_MS = 1000
"""How often flushed marks are written and idle connections looked for."""

_MARKS_PER_TURN = 100
"""Logs that are flushed for their mark alone. Thousands may come to rest at once, and a flush that
somebody waits for would come after all of theirs."""


class Housekeeping:
    """`deadline_ms` is when it is due again."""

    def __init__(
        self,
        state: BrokerState,
        connections: Connections,
        member: ClusterMember | None,
        *,
        now_ms: float,
    ) -> None:
        self._state = state
        self._connections = connections
        self._member = member
        self.deadline_ms = now_ms + _INTERVAL_MS

    def tick(self, now: Now, effects: list[Effect]) -> None:
        if now.monotonic_ms >= self.deadline_ms:
            self.deadline_ms = now.monotonic_ms + _INTERVAL_MS
            self._keep(now, effects)

    def _keep(self, now: Now, effects: list[Effect]) -> None:
        state = self._state
        touched, state.touched = state.touched, {}
        marks_left = _MARKS_PER_TURN
        for leader in touched:
            if not (state.node_is_read_only or leader.is_gone):
                self._checkpoint(leader)
                if leader.log.has_mark_to_sync and marks_left:
                    marks_left -= 1
                    state.flushing.touch(leader)
                elif leader.log.has_mark_to_sync:
                    state.touched[leader] = None
            reports = leader.take_reports()
            if reports:
                state.replicas.stir(leader)  # a leader that finds damage resigns
            effects += [Report("warning", text) for text in reports]
        if not state.node_is_read_only:
            self._checkpoint_journal()
            self._keep_snapshot(now)
            self.keep_reserve(effects)
            state.replicas.open_rest()
            state.roles_changed()
        effects += [Report(level, text) for level, text in state.watch_clock(now)]
        idle_ms = state.config.settings.connections_max_idle_ms
        self._connections.close_idle(now.monotonic_ms, idle_ms, effects)

    def keep_reserve(self, effects: list[Effect]) -> None:
        told = self._state.watch_room()
        if told is not None:
            effects.append(Report("warning", told))

    def _checkpoint_journal(self) -> None:
        try:
            if self._state.journal.checkpoint():
                self._state.flushing.touch_journal()
        except DiskError as error:
            self._state.fail_storage(error)

    def _keep_snapshot(self, now: Now) -> None:
        """Nobody waits for it, so a full disk is no error here."""
        if self._member is None:
            return
        try:
            self._member.journal.keep_snapshot(self._state.image, now)
        except DiskFull:
            pass
        except DiskError as error:
            self._state.fail_storage(error)

    def _checkpoint(self, leader: Replica) -> None:
        try:
            if leader.log.checkpoint():
                self._state.touched[leader] = None
        except DiskError as error:
            self._state.fail_storage(error)
