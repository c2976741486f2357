"""A log is compacted in slices, while it is used, and survives whatever comes between."""

from __future__ import annotations

from random import Random

import pytest
from tests.unit.log.cleaning import (
    BUFFER_BYTES,
    NOW_MS,
    batches_of,
    clean,
    close_segment,
    compacted,
    keyed,
    latest,
    records_of,
    settle,
)
from tests.unit.log.logs import NAME, a_batch, append, flush, open_log, read, settings

from tidelog.log.cleaner import Cleaning
from tidelog.log.compaction import ENTRY_BYTES, is_filler
from tidelog.log.disk import FileSpan
from tidelog.log.log import Log
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import LeaderEpoch, Offset
from tidelog.model.settings import TopicSettings
from tidelog.sim.disk import SimDisk
from tidelog.wire.batch import iter_batches
from tidelog.wire.compression import Compression


def a_log(disk: SimDisk, *, batches: int = 30, config: TopicSettings | None = None) -> Log:
    """Three keys over and over in many closed segments; the active one is empty."""
    log = open_log(disk, config=config or compacted())
    for number in range(batches):
        append(log, keyed([(b"key %d" % (number % 3), b"value %d" % number * 5)]))
    close_segment(log)
    return log


def offsets(log: Log) -> list[int]:
    return [record.offset for record in records_of(log)]


def test_the_latest_record_of_each_key_stays_at_its_offset(sim_disk: SimDisk) -> None:
    log = a_log(sim_disk)
    before = records_of(log)
    clean(log)
    assert offsets(log) == [27, 28, 29]
    assert latest(records_of(log)) == latest(before)
    assert (log.log_start_offset, log.log_end_offset) == (0, 30)
    log.validate()


def test_the_active_segment_is_not_touched(sim_disk: SimDisk) -> None:
    log = a_log(sim_disk)
    append(log, keyed([(b"key 0", b"new"), (b"key 0", b"newer")]))
    settle(log)
    clean(log)
    assert offsets(log) == [27, 28, 29, 30, 31]


def test_nothing_at_or_above_the_limit_is_touched(sim_disk: SimDisk) -> None:
    log = a_log(sim_disk)
    limit = log._bases[2]
    clean(log, limit=limit)
    assert offsets(log) == [limit - 3, limit - 2, limit - 1, *range(limit, 30)]


def test_unflushed_segments_are_not_touched(sim_disk: SimDisk) -> None:
    log = open_log(sim_disk, config=compacted())
    for number in range(30):
        append(log, keyed([(b"key", b"value %d" % number * 5)]))
    assert log.cleanable(NOW_MS, log.log_end_offset) is None


def test_a_read_skips_what_was_emptied(sim_disk: SimDisk) -> None:
    log = a_log(sim_disk)
    clean(log)
    span = read(log, 0)
    assert isinstance(span, FileSpan)
    first, _ = next(iter_batches(memoryview(span.read())))
    assert first.base_offset == 27


def test_a_new_replica_of_a_compacted_log_gets_every_offset(sim_disk: SimDisk) -> None:
    log = a_log(sim_disk)
    clean(log)
    replica = open_log(SimDisk(Random(2)), config=compacted())
    while replica.log_end_offset < log.log_end_offset:
        span = log.read(
            replica.log_end_offset,
            max_bytes=1,
            limit_offset=log.log_end_offset,
            at_least_one=True,
            skips_empty=False,
        )
        assert isinstance(span, FileSpan)
        taken = replica.append_replicated(
            memoryview(span.read()), leader_epoch=LeaderEpoch(0), now_ms=NOW_MS
        )
        assert taken.error is ErrorCode.NONE
    assert offsets(replica) == [27, 28, 29]


def test_a_log_of_nothing_but_emptied_batches_is_served_as_such(sim_disk: SimDisk) -> None:
    """A reader must get on to the end somehow."""
    log = open_log(sim_disk, config=compacted())
    for now_ms in (NOW_MS, NOW_MS + 5000, NOW_MS + 10_000):
        append(log, keyed([(b"a", None)]))
        append(log, keyed([(b"b", None)]))
        close_segment(log)
        clean(log, now_ms=now_ms)
    span = read(log, 0, limit=4)
    assert isinstance(span, FileSpan)
    headers = [header for header, _ in iter_batches(memoryview(span.read()))]
    assert [header.records_count for header in headers] == [0]
    assert headers[-1].next_offset == 4


def test_offsets_have_no_gaps_and_fillers_are_few(sim_disk: SimDisk) -> None:
    log = a_log(sim_disk)
    clean(log)
    headers = [header for header, _ in batches_of(log)]
    due = 0
    for header in headers:
        assert header.base_offset == due
        due = header.next_offset
    assert due == 30
    assert sum(map(is_filler, headers)) <= len(log._bases)


def test_small_segments_are_merged_up_to_the_size_of_one(sim_disk: SimDisk) -> None:
    log = a_log(sim_disk, batches=60)
    clean(log)
    count = len(log._bases)
    assert count > 3
    append(log, keyed([(b"key 9", b"x")]))
    close_segment(log)
    clean(log)
    assert len(log._bases) < count
    assert all(segment.size <= 1024 for segment in log._segments)
    assert len([name for name in sim_disk.list(NAME) if name.endswith(".log")]) == len(log._bases)


def test_what_is_clean_is_known_after_a_restart(sim_disk: SimDisk) -> None:
    log = a_log(sim_disk)
    assert log.cleanable(NOW_MS, log.log_end_offset) == 1.0
    clean(log)
    assert log.cleaned_offset == 30
    assert log.cleanable(NOW_MS, log.log_end_offset) is None
    sim_disk.lose_power()
    log = open_log(sim_disk, config=compacted())
    assert log.cleaned_offset == 30
    assert log.cleanable(NOW_MS, log.log_end_offset) is None


def test_a_damaged_checkpoint_costs_work_and_no_more(sim_disk: SimDisk) -> None:
    log = a_log(sim_disk)
    clean(log)
    rows = records_of(log)
    sim_disk.files()[f"{NAME}/cleaned"].cached[0] ^= 1
    log = open_log(sim_disk, config=compacted())
    assert log.cleaned_offset == 0
    clean(log)
    assert records_of(log) == rows


def test_compaction_goes_through_restarts_with_the_same_result(sim_disk: SimDisk) -> None:
    log = a_log(sim_disk)
    clean(log)
    rows = records_of(log)
    log.close_cleanly()
    for is_clean in (True, False):
        log = open_log(sim_disk, clean=is_clean, config=compacted())
        assert records_of(log) == rows
        assert not log.damage


def test_spans_of_replaced_segments_stay_readable(sim_disk: SimDisk) -> None:
    log = a_log(sim_disk)
    span = read(log, 0)
    assert isinstance(span, FileSpan)
    data = span.read()
    clean(log)
    assert span.read() == data


def test_look_ups_by_time_and_position_work_in_replaced_segments(sim_disk: SimDisk) -> None:
    log = open_log(sim_disk, config=compacted(index_interval_bytes=50))
    for number in range(40):
        pair = (b"key %d" % (number % 2 * number), b"value")
        append(log, keyed([pair], timestamps=[1000 + number]))
    close_segment(log)
    clean(log)
    rows = records_of(log)
    for asked in range(1000, 1041):
        found = log.offset_for_timestamp(asked)
        expected = next((row for row in rows if row.timestamp >= asked), None)
        assert (found.offset if found else None) == (expected.offset if expected else None)
    for row in rows:
        span = read(log, row.offset, max_bytes=1)
        assert isinstance(span, FileSpan)
        header, _ = next(iter_batches(memoryview(span.read())))
        assert header.base_offset <= row.offset <= header.last_offset
    largest = log.max_timestamp()
    assert largest is not None
    assert largest.timestamp == max(row.timestamp for row in rows)


@pytest.mark.parametrize("codec", Compression)
def test_every_codec_can_be_compacted(sim_disk: SimDisk, codec: Compression) -> None:
    log = open_log(sim_disk, config=compacted())
    for number in range(20):
        pairs = [(b"a", b"%d" % number), (b"b %d" % number, b"x"), (b"a", b"%d!" % number)]
        append(log, keyed(pairs, compression=codec))
    close_segment(log)
    before = latest(records_of(log))
    clean(log)
    assert latest(records_of(log)) == before
    assert len(records_of(log)) == 21
    assert all(header.compression == codec for header, _ in batches_of(log) if header.records_count)


# --- tombstones -------------------------------------------------------------------------------


def test_a_tombstone_outlives_its_key_for_its_time(sim_disk: SimDisk) -> None:
    log = open_log(sim_disk, config=compacted(delete_retention_ms=1000))
    append(log, keyed([(b"a", b"1")]))
    append(log, keyed([(b"a", None)]))
    close_segment(log)
    kept = []
    for now_ms in (NOW_MS, NOW_MS + 999, NOW_MS + 1000):
        clean(log, now_ms=now_ms)
        kept.append([record.value for record in records_of(log) if record.key == b"a"])
        append(log, keyed([(b"other", b"%d" % now_ms)]))
        close_segment(log)
    assert kept == [[None], [None], []]


def test_keys_deleted_and_written_again_live(sim_disk: SimDisk) -> None:
    log = open_log(sim_disk, config=compacted())
    for value in (b"1", None, b"2"):
        append(log, keyed([(b"a", value)]))
        close_segment(log)
    clean(log)
    assert latest(records_of(log)) == {b"a": b"2"}


# --- when it is due ---------------------------------------------------------------------------


def test_a_log_is_due_when_enough_of_it_is_dirty(sim_disk: SimDisk) -> None:
    config = compacted(min_cleanable_dirty_ratio=0.5)
    log = a_log(sim_disk, config=config)
    clean(log)
    append(log, keyed([(b"key 0", b"x")]))
    close_segment(log)
    assert log.cleanable(NOW_MS, log.log_end_offset) is None
    for number in range(40):
        append(log, keyed([(b"key 0", b"x" * number)]))
    close_segment(log)
    ratio = log.cleanable(NOW_MS, log.log_end_offset)
    assert ratio is not None
    assert 0.5 < ratio < 1


def test_young_records_are_not_compacted(sim_disk: SimDisk) -> None:
    log = open_log(sim_disk, config=compacted(min_compaction_lag_ms=500))
    for number in range(20):
        time = NOW_MS - 1000 + 50 * number
        append(log, keyed([(b"a", b"value %d" % number * 9)], timestamps=[time]), now_ms=NOW_MS)
    close_segment(log)
    young = next(
        segment.base_offset
        for segment in log._segments
        if segment.largest_timestamp() > NOW_MS - 500
    )
    clean(log, now_ms=NOW_MS)
    assert offsets(log) == list(range(young - 1, 20))


def test_records_that_waited_long_make_a_log_due(sim_disk: SimDisk) -> None:
    config = compacted(min_cleanable_dirty_ratio=1.0, max_compaction_lag_ms=500)
    log = a_log(sim_disk, config=config)
    assert log.cleanable(1400, log.log_end_offset) is None
    assert log.cleanable(1600, log.log_end_offset) == 1.0


def test_a_segment_is_closed_early_for_records_that_may_not_wait(sim_disk: SimDisk) -> None:
    log = open_log(sim_disk, config=compacted(max_compaction_lag_ms=500))
    append(log, keyed([(b"a", b"1")], timestamps=[1000]))
    append(log, keyed([(b"a", b"2")], timestamps=[1501]))
    assert log._bases == [0, 1]


def test_a_log_of_another_policy_is_never_due(sim_disk: SimDisk) -> None:
    log = a_log(sim_disk)
    log.configure(settings())
    assert log.cleanable(NOW_MS, log.log_end_offset) is None
    assert clean(log).records_dropped == 0


def test_both_policies_together_compact_and_delete(sim_disk: SimDisk) -> None:
    config = compacted(cleanup_policy="compact,delete", retention_ms=1000)
    log = a_log(sim_disk, config=config)
    clean(log)
    assert offsets(log) == [27, 28, 29]
    assert log.apply_retention(NOW_MS * 10) > 0
    settle(log)
    assert offsets(log) == []
    assert log.log_start_offset == 30


# --- bounds -----------------------------------------------------------------------------------


def test_more_keys_than_memory_are_compacted_in_parts(sim_disk: SimDisk) -> None:
    log = open_log(sim_disk, config=compacted(segment_bytes=4096))
    random = Random(3)
    for number in range(400):
        append(log, keyed([(b"key %d" % random.randrange(100), b"%d" % number)]))
    close_segment(log)
    before = latest(records_of(log))
    passes, sizes = 0, []
    while log.cleanable(NOW_MS, log.log_end_offset) is not None:
        cleaned = log.cleaned_offset
        work = clean(log, buffer_bytes=ENTRY_BYTES * 20)._pass
        assert work is not None
        sizes.append(len(work.latest))
        assert log.cleaned_offset > cleaned
        passes += 1
    assert passes > 5
    assert max(sizes) <= 20
    assert latest(records_of(log)) == before
    assert len(records_of(log)) == len(before) > 90


def test_a_step_does_about_as_much_as_it_may(sim_disk: SimDisk) -> None:
    log = a_log(sim_disk, batches=60)
    cleaning = Cleaning(log, limit_offset=log.log_end_offset, buffer_bytes=BUFFER_BYTES)
    steps = 0
    read_so_far = 0
    while not cleaning.step(NOW_MS, 1000):
        assert cleaning.bytes_read - read_so_far <= 1200
        read_so_far = cleaning.bytes_read
        steps += 1
        if cleaning.waits_for_flush:
            flush(log)
    assert steps > 10


def test_a_step_that_waits_for_a_flush_does_nothing(sim_disk: SimDisk) -> None:
    log = a_log(sim_disk)
    cleaning = Cleaning(log, limit_offset=log.log_end_offset, buffer_bytes=BUFFER_BYTES)
    while not cleaning.waits_for_flush:
        assert not cleaning.step(NOW_MS, 1 << 20)
    done = sim_disk.next_sequence()
    for _ in range(3):
        assert not cleaning.step(NOW_MS, 1 << 20)
    assert sim_disk.next_sequence() == done + 1


def test_a_full_disk_ends_a_pass_and_leaves_nothing_behind(sim_disk: SimDisk) -> None:
    log = a_log(sim_disk)
    rows = records_of(log)
    sim_disk.faults.capacity_bytes = sim_disk.used_bytes()
    cleaning = clean(log)
    assert cleaning.is_finished
    assert cleaning.reports[0].startswith("compaction is postponed: ")
    assert records_of(log) == rows
    assert not [name for name in sim_disk.list(NAME) if name.endswith(".cleaned")]
    sim_disk.faults.heal()
    clean(log)
    assert offsets(log) == [27, 28, 29]


def test_a_disk_that_fills_up_in_the_middle_only_delays_the_end(sim_disk: SimDisk) -> None:
    for allowed in range(30):
        disk = SimDisk(Random(allowed))
        log = a_log(disk)
        cleaning = Cleaning(log, limit_offset=log.log_end_offset, buffer_bytes=BUFFER_BYTES)
        for _ in range(allowed):
            cleaning.step(NOW_MS, 1 << 20)
            flush(log)
        disk.faults.capacity_bytes = disk.used_bytes()
        for _ in range(20):
            cleaning.step(NOW_MS, 1 << 20)
            flush(log)
        assert latest(records_of(log)).keys() == {b"key 0", b"key 1", b"key 2"}
        log.validate()
        disk.faults.heal()
        while not cleaning.step(NOW_MS, 1 << 20):
            flush(log)
        settle(log)
        log.validate()
        disk.lose_power()
        log = open_log(disk, config=compacted())
        assert latest(records_of(log)).keys() == {b"key 0", b"key 1", b"key 2"}
        assert not log.damage


# --- while it is used -------------------------------------------------------------------------


def test_appends_and_rolls_go_on_meanwhile(sim_disk: SimDisk) -> None:
    log = a_log(sim_disk)
    number = 0

    def append_one() -> None:
        nonlocal number
        number += 1
        append(log, keyed([(b"key 0", b"meanwhile %d" % number * 4)]))
        if number % 7 == 0:
            log.roll()
        log.validate()

    clean(log, between=append_one)
    assert offsets(log)[:3] == [27, 28, 29]
    assert len(offsets(log)) == 3 + number
    sim_disk.lose_power()
    log = open_log(sim_disk, config=compacted())
    assert len(offsets(log)) == 3 + number


def test_a_pass_that_is_given_up_leaves_the_log_whole(sim_disk: SimDisk) -> None:
    steps = 0
    while True:
        disk = SimDisk(Random(steps))
        log = a_log(disk)
        cleaning = Cleaning(log, limit_offset=log.log_end_offset, buffer_bytes=BUFFER_BYTES)
        is_over = False
        for _ in range(steps):
            is_over = cleaning.step(NOW_MS, 2000)
            flush(log)
        if is_over:
            break
        cleaning.abort()
        assert log.cleaning is None
        settle(log)
        log.validate()
        assert latest(records_of(log))[b"key 2"] == b"value 29" * 5
        assert not [name for name in disk.list(NAME) if name.endswith((".cleaned", ".swap"))]
        steps += 1
    assert steps > 10


def test_a_truncation_gives_up_a_pass_and_lowers_what_is_clean(sim_disk: SimDisk) -> None:
    log = a_log(sim_disk)
    clean(log)
    append(log, keyed([(b"key 0", b"x")]))
    close_segment(log)
    cleaning = Cleaning(log, limit_offset=log.log_end_offset, buffer_bytes=BUFFER_BYTES)
    cleaning.step(NOW_MS, 100)
    log.truncate_to(Offset(28))
    assert cleaning.is_finished
    assert log.log_end_offset == 28
    assert log.cleaned_offset == 28
    log.validate()
    sim_disk.lose_power()
    log = open_log(sim_disk, config=compacted())
    assert (log.log_end_offset, log.cleaned_offset) == (28, 28)


def test_segments_that_retention_took_meanwhile_are_left_out(sim_disk: SimDisk) -> None:
    log = a_log(sim_disk)
    moved: list[bool] = []

    def move_on() -> None:
        if not moved and log.cleaning is not None and len(sim_disk.list(NAME)) > 3:
            moved.append(True)
            log.advance_start(Offset(15))

    clean(log, between=move_on)
    assert log.log_start_offset == 15
    assert offsets(log) == [27, 28, 29]
    log.validate()


def test_segments_may_be_deleted_while_they_are_read(sim_disk: SimDisk) -> None:
    log = open_log(sim_disk, config=compacted())
    for number in range(30):
        append(log, keyed([(b"a", b"value %d" % number * 5)]), epoch=number)
    close_segment(log)

    def move_on() -> None:
        if log.log_start_offset < 25:
            log.advance_start(Offset(log.log_start_offset + 1))
            flush(log)

    cleaning = clean(log, between=move_on)
    assert not log.damage
    assert cleaning.reports == []
    assert offsets(log) == [29]


# --- producers --------------------------------------------------------------------------------


def test_the_batches_that_a_producer_may_repeat_are_recognized_ever_after(
    sim_disk: SimDisk,
) -> None:
    log = open_log(sim_disk, config=compacted())
    for sequence in range(20):
        pairs = [(b"a", b"value %d" % sequence * 5)]
        append(log, keyed(pairs, producer=(7, 0, sequence)))
    close_segment(log)
    clean(log)
    assert offsets(log) == [19]
    for path in [path for path in sim_disk.files() if path.endswith(".snapshot")]:
        sim_disk.delete(path)
    sim_disk.lose_process()
    log = open_log(sim_disk, config=compacted())
    for sequence in range(15, 20):
        again = append(log, keyed([(b"a", b"x")], producer=(7, 0, sequence)))
        assert (again.error, again.base_offset, again.is_duplicate) == (0, sequence, True)
    assert append(log, keyed([(b"a", b"x")], producer=(7, 0, 20))).base_offset == 20
    gap = append(log, keyed([(b"a", b"x")], producer=(7, 0, 30)))
    assert gap.error is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


# --- damage -----------------------------------------------------------------------------------


@pytest.mark.parametrize("is_known", [False, True])
def test_a_damaged_segment_is_reported_and_stays_as_it_is(
    sim_disk: SimDisk, is_known: bool
) -> None:
    log = a_log(sim_disk)
    base = log._bases[1]
    path = f"{NAME}/{base:020d}.log"
    image = sim_disk.files()[path]
    image.cached[100] ^= 1
    damaged = bytes(image.cached)
    log = open_log(sim_disk, config=compacted())
    if is_known:
        assert read(log, base) is ErrorCode.CORRUPT_MESSAGE or log.damage
    cleaning = clean(log)
    assert any(path in report for report in cleaning.reports)
    assert [damage.kind for damage in log.damage] == ["quarantined"]
    assert bytes(sim_disk.files()[path].cached) == damaged
    assert base in log._bases
    log.validate()
    log.advance_start(Offset(log._bases[2]))
    settle(log)
    assert latest(records_of(log))[b"key 2"] == b"value 29" * 5


def test_a_tombstone_above_damage_is_kept(sim_disk: SimDisk) -> None:
    log = open_log(sim_disk, config=compacted(delete_retention_ms=1))
    append(log, keyed([(b"a", b"old")]))
    close_segment(log)
    append(log, keyed([(b"a", None)]))
    close_segment(log)
    image = sim_disk.files()[f"{NAME}/{0:020d}.log"]
    image.cached[65] ^= 1
    log = open_log(sim_disk, config=compacted(delete_retention_ms=1))
    for pass_number in range(3):
        clean(log, now_ms=NOW_MS * (pass_number + 1))
        append(log, keyed([(b"b", b"%d" % pass_number)]))
        close_segment(log)
    span = read(log, 1)
    assert isinstance(span, FileSpan)
    image.cached[65] ^= 1
    log = open_log(sim_disk, config=compacted())
    assert latest(records_of(log))[b"a"] is None


def test_records_without_keys_from_before_are_dropped_and_reported(sim_disk: SimDisk) -> None:
    log = open_log(sim_disk, config=settings(segment_bytes=1024))
    append(log, a_batch(3))
    close_segment(log)
    log.configure(compacted())
    cleaning = clean(log)
    assert records_of(log) == []
    assert cleaning.reports == ["compaction dropped 3 records without a key"]
