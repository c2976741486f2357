"""When the age of a segment's records closes it."""

from __future__ import annotations

from tests.unit.log.logs import a_batch, append, open_log, settings

from tidelog.log.rolling import roll_after_ms
from tidelog.sim.disk import SimDisk


def test_without_jitter_every_segment_closes_at_the_same_age() -> None:
    assert {roll_after_ms(settings(segment_ms=1000), "t", base) for base in range(9)} == {1000}
    compacted = settings(segment_ms=1000, cleanup_policy="compact", max_compaction_lag_ms=600)
    assert roll_after_ms(compacted, "t", 0) == 600


def test_with_jitter_segments_close_at_different_ages_and_replicas_alike() -> None:
    jittered = settings(segment_ms=1000, segment_jitter_ms=300)
    ages = [roll_after_ms(jittered, f"topics/t/{number}", 0) for number in range(50)]
    assert all(700 < age <= 1000 for age in ages)
    assert len(set(ages)) > 25
    assert ages == [roll_after_ms(jittered, f"topics/t/{number}", 0) for number in range(50)]
    wide = settings(segment_ms=1000, segment_jitter_ms=10**9)
    assert all(0 < roll_after_ms(wide, "t", base) <= 1000 for base in range(50))


def test_a_log_closes_its_segments_by_the_jitter_of_each(sim_disk: SimDisk) -> None:
    config = settings(segment_ms=1000, segment_jitter_ms=900)
    log = open_log(sim_disk, config=config)
    for _ in range(3):
        base = log.log_end_offset
        allowed = roll_after_ms(config, log.directory.path, base)
        append(log, a_batch(timestamps=[10]), now_ms=10)
        append(log, a_batch(timestamps=[10 + allowed]), now_ms=10)
        assert log._active.base_offset == base
        log.roll()
    append(log, a_batch(timestamps=[10]), now_ms=10)
    last = log._active.base_offset
    beyond = 10 + roll_after_ms(config, log.directory.path, last) + 1
    append(log, a_batch(timestamps=[beyond]), now_ms=10)
    assert log._active.base_offset == last + 1
