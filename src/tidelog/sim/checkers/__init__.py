"""Pure functions from what was recorded to what is wrong. The names of the properties (C1, S3, T2)
are those of the project's list of promises; Jepsen's words for the anomalies stand beside them.

`check_history` runs everything that a client's history alone can show; `storage` and `producers`
also look at batches found on a disk. A finding is always a bug: of the node, or of the checker.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from tidelog.sim.checkers import (
    cleaning,
    damage,
    ends,
    groups,
    losses,
    newer_groups,
    order,
    polls,
    producers,
    retention,
    stability,
    uniqueness,
)
from tidelog.sim.checkers.finding import Finding
from tidelog.sim.checkers.view import views
from tidelog.sim.history import Entry

__all__ = ["Finding", "check_history"]

PARTITION_CHECKS = (
    uniqueness.check_inconsistent_offsets,
    uniqueness.check_phantoms,
    uniqueness.check_failed_values_stay_unseen,
    uniqueness.check_duplicates,
    losses.check_lost_writes,
    losses.check_unseen,
    order.check_send_order,
    order.check_real_time_order,
    polls.check_within_polls,
    polls.check_between_polls,
    ends.check_end_offsets,
    ends.check_timestamps,
    ends.check_out_of_range,
    ends.check_offsets_of_errors,
    stability.check_stable_bytes,
    stability.check_log_start,
    damage.check_damage_unserved,
)


HISTORY_CHECKS = (
    groups.check_registers,
    groups.check_generations,
    groups.check_shares,
    groups.check_fences,
    newer_groups.check_epochs,
    newer_groups.check_owners,
    newer_groups.check_stale_commits,
    cleaning.check_cleaning,
    retention.check_retention,
    retention.check_live_offsets,
    retention.check_young_offsets,
)


LONE_CHECKS = (polls.check_recency,)
"""Of one node there is no excuse; a leader just elected may have to learn first how far it may
show its log."""


def check_history(
    entries: Sequence[Entry], *, is_replicated: bool = False
) -> tuple[list[Finding], Counter[str]]:
    """Everything wrong with a history, and figures for the report."""
    findings: list[Finding] = []
    counters: Counter[str] = Counter()
    for view in views(entries):
        for check in PARTITION_CHECKS:
            findings += check(view)
        for check in () if is_replicated else LONE_CHECKS:
            findings += check(view)
        counters["plain duplicates"] += uniqueness.count_plain_duplicates(view)
        counters["worst lag ms"] = max(counters["worst lag ms"], polls.worst_lag_ms(view))
    findings += producers.check_given_ids(entries)
    for check_all in HISTORY_CHECKS:
        findings += check_all(entries)
    return findings, counters
