"""When logs are cleaned: retention now and then for all, compaction for the dirtiest, in slices;
and between those, when they are scrubbed (`scrubbing.py`).

All of it runs in the node's one loop, so no turn may take long: a retention check looks at some
hundred logs and goes on in the next turn; a compaction works through about a megabyte and lets
requests in between. What a compaction has replaced counts once it is flushed, like everything else.
Ages are judged by `state.clock`: while the wall clock is not believed, nothing has one.
"""

from __future__ import annotations

from tidelog.broker.effects import Effect, Report
from tidelog.broker.scrubbing import Scrubbing
from tidelog.broker.state import BrokerState
from tidelog.log.cleaner import Cleaning
from tidelog.log.disk import DiskError, DiskFull
from tidelog.model.clock import Now
from tidelog.partition.replica import Replica

LOGS_PER_TURN = 200
BYTES_PER_TURN = 1024 * 1024
PAUSE_MS = 5
"""Between two turns of a work under way: at least as long as a turn takes, so that requests get
half of the time at the worst."""


class CleaningSchedule:
    """What is due, and what is under way. `deadline_ms` is when `tick` wants to be called."""

    def __init__(self, state: BrokerState, now: Now) -> None:
        self._state = state
        self._settings = state.config.settings
        self._unchecked: list[Replica] = []
        self._retention_ms = now.monotonic_ms + self._settings.log_retention_check_interval_ms
        self._compaction_ms = now.monotonic_ms + self._settings.log_cleaner_backoff_ms
        self._under_way: tuple[Replica, Cleaning] | None = None
        self._scrubbing = Scrubbing(state, now)
        self.deadline_ms: float | None = self._next_deadline()

    def _next_deadline(self) -> float:
        return min(self._retention_ms, self._compaction_ms, self._scrubbing.deadline_ms)

    def tick(self, now: Now, effects: list[Effect]) -> None:
        """Do what is due."""
        if self.deadline_ms is None or now.monotonic_ms < self.deadline_ms:
            return
        try:
            effects += [Report("warning", text) for text in self._turn(now)]
        except DiskError as error:
            self._state.fail_storage(error)
        self.deadline_ms = self._next_deadline()

    def rest(self) -> None:
        """Nothing is due any more: the disk has failed."""
        self.deadline_ms = None

    def _turn(self, now: Now) -> list[str]:
        """Gives what the operator should know."""
        reports: list[str] = []
        if now.monotonic_ms >= self._retention_ms:
            self._check_retention(now, reports)
        if now.monotonic_ms >= self._compaction_ms:
            self._compact(now, reports)
        if now.monotonic_ms >= self._scrubbing.deadline_ms:
            reports += self._scrubbing.turn(now)
        return reports

    # --- retention ----------------------------------------------------------------------------

    def _check_retention(self, now: Now, reports: list[str]) -> None:
        if not self._unchecked:
            self._unchecked = list(self._state.replicas.by_key.values())
        some, self._unchecked = self._unchecked[:LOGS_PER_TURN], self._unchecked[LOGS_PER_TURN:]
        for leader in some:
            if not leader.is_gone:
                self._retain(leader, now, reports)
        interval_ms = self._settings.log_retention_check_interval_ms
        self._retention_ms = now.monotonic_ms + (PAUSE_MS if self._unchecked else interval_ms)

    def _retain(self, leader: Replica, now: Now, reports: list[str]) -> None:
        """Followers let go of what their leader lets go of."""
        log = leader.log
        clock = self._state.clock
        if not clock.is_held:
            log.producers.expire(now.wall_ms, self._settings.producer_id_expiration_ms)
        if leader.leader is None:
            return
        consumed = None
        if log.settings.is_consumed:
            consumed = self._state.coordinators.consumed_offset(leader.name)
        try:
            removed = log.apply_retention(
                clock.age_ms(now), consumed, limit_offset=leader.high_watermark
            )
        except DiskFull as full:
            reports.append(f"{leader.name}: retention is postponed: {full}")
            return
        if removed:
            self._state.wants_flush(leader)

    # --- compaction ---------------------------------------------------------------------------

    def _compact(self, now: Now, reports: list[str]) -> None:
        if self._under_way is None:
            self._under_way = self._next_cleaning(now)
        if self._under_way is None:
            self._compaction_ms = now.monotonic_ms + self._settings.log_cleaner_backoff_ms
            return
        leader, cleaning = self._under_way
        clock = self._state.clock
        is_over = leader.is_gone or cleaning.step(
            clock.age_ms(now), BYTES_PER_TURN, latest_ms=clock.stamp(now).wall_ms
        )
        if not leader.is_gone:
            self._state.wants_flush(leader)
            reports += [f"{leader.name}: {report}" for report in cleaning.reports]
            cleaning.reports.clear()
        if is_over:
            self._under_way = None
        self._compaction_ms = now.monotonic_ms + PAUSE_MS

    def _next_cleaning(self, now: Now) -> tuple[Replica, Cleaning] | None:
        """The log with the largest dirty share, if one is due."""
        now_ms = self._state.clock.age_ms(now)
        dirtiest: tuple[float, Replica] | None = None
        for leader in self._state.replicas.by_key.values():
            ratio = leader.log.cleanable(now_ms, leader.high_watermark)
            if ratio is not None and (dirtiest is None or ratio > dirtiest[0]):
                dirtiest = (ratio, leader)
        if dirtiest is None:
            return None
        leader = dirtiest[1]
        buffer_bytes = self._settings.log_cleaner_dedupe_buffer_size
        cleaning = Cleaning(
            leader.log, limit_offset=leader.high_watermark, buffer_bytes=buffer_bytes
        )
        return leader, cleaning

    def stop(self) -> None:
        """Give up what is under way, so that the log can be closed. Not after the disk has failed:
        a sync would succeed then, and what the failed one has lost would count as flushed."""
        under_way, self._under_way = self._under_way, None
        if under_way is None or under_way[0].is_gone or self._state.node_is_read_only:
            return
        try:
            under_way[1].abort()
        except DiskFull:
            pass  # the next start finishes it
        except DiskError as error:
            self._state.fail_storage(error)
