"""Which segments go by age, by size, or because everybody has read them."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from tests.unit.log.cleaning import settle
from tests.unit.log.logs import a_batch, append, everything, fill, open_log, settings

from tidelog.log.log import Log
from tidelog.log.retention import plan_retention
from tidelog.model.ids import Offset
from tidelog.model.settings import Value
from tidelog.sim.disk import SimDisk

NOW_MS = 1_000_000
HOUR_MS = 3_600_000


@dataclass(frozen=True)
class Piece:
    """A segment, as the planner sees it."""

    end_offset: int
    size: int
    timestamp: int

    def largest_timestamp(self) -> int:
        return self.timestamp


def plan(
    *timestamps: int,
    size: int = 100,
    limit: int = 1 << 40,
    consumed: int | None = None,
    retention_ms: int = -1,
    retention_bytes: int = -1,
    cleanup_policy: str = "delete",
) -> tuple[int, bool]:
    """For segments of ten records each; the last one is active."""
    pieces = [Piece(10 * (number + 1), size, time) for number, time in enumerate(timestamps)]
    config = settings(
        retention_ms=retention_ms, retention_bytes=retention_bytes, cleanup_policy=cleanup_policy
    )
    return plan_retention(
        pieces, config, now_ms=NOW_MS, limit_offset=limit, consumed_offset=consumed
    )


def test_segments_go_when_their_newest_record_is_too_old() -> None:
    assert plan(NOW_MS - 1001, NOW_MS - 1001, NOW_MS - 1000, NOW_MS, retention_ms=1000) == (
        2,
        False,
    )
    assert plan(NOW_MS - 1000, NOW_MS - 5000, NOW_MS, retention_ms=1000) == (0, False), (
        "only from the front"
    )
    assert plan(5, 5, NOW_MS, retention_ms=-1) == (0, False)


def test_an_active_segment_whose_records_are_all_too_old_is_closed_and_goes() -> None:
    assert plan(5, 5, retention_ms=1000) == (2, True)
    assert plan(5, retention_ms=1000) == (1, True)
    assert plan(5, size=0, retention_ms=1000) == (0, False), "an empty one stays"


@pytest.mark.parametrize("wrong", [-1, NOW_MS + HOUR_MS + 1])
def test_a_timestamp_that_can_not_be_does_not_keep_a_segment_for_ever(wrong: int) -> None:
    assert plan(wrong, 5, NOW_MS, retention_ms=1000) == (2, False)
    assert plan(wrong, NOW_MS, NOW_MS, retention_ms=1000) == (0, False)
    assert plan(wrong, wrong, retention_ms=1000) == (0, False), "nobody knows how old they are"


def test_a_timestamp_a_little_ahead_is_believed() -> None:
    assert plan(NOW_MS + 5000, 5, NOW_MS, retention_ms=1000) == (0, False)


def test_the_oldest_segments_go_while_the_log_is_larger_than_asked() -> None:
    times = (NOW_MS,) * 4
    assert plan(*times, retention_bytes=400) == (0, False)
    assert plan(*times, retention_bytes=399) == (0, False), "what stays is not less than asked"
    assert plan(*times, retention_bytes=300) == (1, False)
    assert plan(*times, retention_bytes=0) == (3, False), "never the active one"


def test_age_and_size_work_together() -> None:
    assert plan(5, NOW_MS, NOW_MS, NOW_MS, retention_ms=1000, retention_bytes=200) == (2, False)


def test_a_segment_goes_once_every_group_has_read_it() -> None:
    times = (NOW_MS,) * 4
    assert plan(*times, consumed=19, cleanup_policy="consumed") == (1, False)
    assert plan(*times, consumed=20, cleanup_policy="consumed") == (2, False)
    assert plan(*times, consumed=40, cleanup_policy="consumed") == (3, False), (
        "never the active one"
    )
    assert plan(*times, consumed=None, cleanup_policy="consumed") == (0, False), (
        "no group is registered"
    )
    assert plan(5, 5, 5, consumed=10, retention_ms=1, cleanup_policy="consumed") == (1, False), (
        "age does not count"
    )
    assert plan(*times, consumed=20) == (0, False), "the policy was not asked for"


def test_policies_given_together_each_suffice() -> None:
    times = (5, NOW_MS, NOW_MS, NOW_MS)
    policies = "consumed,delete"
    assert plan(*times, consumed=20, cleanup_policy=policies, retention_ms=1000) == (2, False)


def test_nothing_beyond_the_limit_goes() -> None:
    assert plan(5, 5, 5, 5, limit=25, retention_ms=1000) == (2, False)
    assert plan(5, 5, limit=15, retention_ms=1000) == (1, False)


def test_a_compacted_topic_keeps_its_segments() -> None:
    assert plan(5, 5, NOW_MS, cleanup_policy="compact", retention_ms=1) == (0, False)
    assert plan(5, 5, NOW_MS, cleanup_policy="compact,delete", retention_ms=1) == (2, False)


# --- the log ----------------------------------------------------------------------------------


def a_log(disk: SimDisk, **changes: Value) -> Log:
    log = open_log(disk, config=settings(segment_bytes=600, **changes))
    fill(log, 10)
    settle(log)
    return log


def test_a_log_lets_go_of_old_segments(sim_disk: SimDisk) -> None:
    log = a_log(sim_disk, retention_ms=50)
    count = len(log._bases)
    assert log.apply_retention(1060) == 1
    assert log.apply_retention(1060) == 0, "it is not counted twice"
    settle(log)
    assert len(log._bases) == count - 1
    assert log.log_start_offset == log._bases[0] > 0
    assert everything(log)[0][0] == log.log_start_offset


def test_a_log_that_is_all_old_becomes_empty_and_goes_on(sim_disk: SimDisk) -> None:
    log = a_log(sim_disk, retention_ms=50)
    assert log.apply_retention(NOW_MS) == len(log._bases) - 1
    settle(log)
    assert log.log_start_offset == log.log_end_offset == 20
    assert append(log, a_batch()).base_offset == 20
    log.validate()


def test_unflushed_segments_stay(sim_disk: SimDisk) -> None:
    log = open_log(sim_disk, config=settings(segment_bytes=600, retention_ms=50))
    fill(log, 10)
    assert log.apply_retention(NOW_MS) == 0


def test_consumed_segments_go_from_the_log(sim_disk: SimDisk) -> None:
    log = a_log(sim_disk, cleanup_policy="consumed")
    assert log.apply_retention(NOW_MS) == 0
    second = log._bases[1]
    assert log.apply_retention(NOW_MS, Offset(second + 1)) == 1
    settle(log)
    assert log.log_start_offset == second


def test_an_active_segment_below_the_start_is_closed_and_goes(sim_disk: SimDisk) -> None:
    log = a_log(sim_disk)
    log.advance_start(log.log_end_offset)
    settle(log)
    assert log.size_bytes() > 0
    assert log.apply_retention(NOW_MS) == 1
    settle(log)
    assert log.size_bytes() == 0
    assert log.apply_retention(NOW_MS) == 0


def test_new_settings_count_at_once(sim_disk: SimDisk) -> None:
    log = a_log(sim_disk)
    assert log.apply_retention(NOW_MS) == 0
    log.configure(settings(segment_bytes=600, retention_bytes=0))
    assert log.apply_retention(NOW_MS) == len(log._bases) - 1
