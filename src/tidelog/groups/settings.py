"""The settings that groups obey, under Kafka's names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tidelog.model.group_settings import HEARTBEAT_INTERVAL, SESSION_TIMEOUT

_DAY_MS = 24 * 60 * 60 * 1000

MAX_PENDING_MEMBERS = 10_000
"""Member ids of one group that were given out and not used yet. Beyond it, joiners hear an error
they retry: a flood of half-made joins must not fill the memory."""

SMALL_GROUP = 50
"""Up to this many members a new target assignment costs next to nothing, and is computed whenever
it is due. Beyond, at most once in as many milliseconds as there are members: when a thousand
members start at once, it is not computed a thousand times."""

IMPATIENT_HEARTBEAT_INTERVAL_MS = 500
"""What a member of a small group is asked for while it waits for partitions that others have to
give up first: it should not wait for them longer than they take."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSettings:
    """`group_...` rules the classic protocol, `group_consumer_...` the newer one (KIP-848)."""

    group_min_session_timeout_ms: int = 6_000
    group_max_session_timeout_ms: int = 1_800_000
    group_initial_rebalance_delay_ms: int = 3_000
    group_max_size: int = 2**31 - 1
    offset_metadata_max_bytes: int = 4_096
    offsets_retention_ms: int = 7 * _DAY_MS
    offsets_retention_check_interval_ms: int = 600_000
    group_consumer_session_timeout_ms: int = 45_000
    group_consumer_heartbeat_interval_ms: int = 5_000
    group_consumer_min_session_timeout_ms: int = 45_000
    group_consumer_max_session_timeout_ms: int = 60_000
    group_consumer_min_heartbeat_interval_ms: int = 5_000
    group_consumer_max_heartbeat_interval_ms: int = 15_000
    group_consumer_max_size: int = 2**31 - 1
    group_consumer_assignors: tuple[str, ...] = ("uniform", "range")
    group_consumer_migration_policy: str = "bidirectional"

    def session_timeout_ms(self, own: Mapping[str, str]) -> int:
        """Of the members of a consumer group that has these settings of its own."""
        if SESSION_TIMEOUT not in own:
            return self.group_consumer_session_timeout_ms
        least = max(int(own[SESSION_TIMEOUT]), self.group_consumer_min_session_timeout_ms)
        return min(least, self.group_consumer_max_session_timeout_ms)

    def heartbeat_interval_ms(self, own: Mapping[str, str]) -> int:
        if HEARTBEAT_INTERVAL not in own:
            return self.group_consumer_heartbeat_interval_ms
        least = max(int(own[HEARTBEAT_INTERVAL]), self.group_consumer_min_heartbeat_interval_ms)
        return min(least, self.group_consumer_max_heartbeat_interval_ms)

    @property
    def may_upgrade(self) -> bool:
        """May a classic group become one of the newer protocol while it runs?"""
        return self.group_consumer_migration_policy in ("bidirectional", "upgrade")

    @property
    def may_downgrade(self) -> bool:
        return self.group_consumer_migration_policy in ("bidirectional", "downgrade")
