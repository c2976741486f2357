"""The power fails at every step of cleaning a log: what is readable after is the old or the new."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from functools import cache
from random import Random

import pytest
from tests.unit.log.cleaning import NOW_MS, clean, close_segment, compacted, keyed, records_of
from tests.unit.log.cleaning import settle as settle_log
from tests.unit.log.logs import append, flush, open_log, read

from tidelog.log.log import Log
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import Offset
from tidelog.model.safeguards import ALL_SAFEGUARDS, Safeguard
from tidelog.sim.disk import SimDisk
from tidelog.sim.disk_faults import PowerLost
from tidelog.wire.records import Record

CONFIG = compacted(segment_bytes=700, index_interval_bytes=150)
LEFTOVERS = (".cleaned", ".swap")
Deed = Callable[[Log, Callable[[], None]], None]
Seen = tuple[int, tuple[Record, ...]]


@cache
def a_disk() -> SimDisk:
    """With a log of several closed segments: every key several times, tombstones, two producers,
    three epochs; all of it flushed and marked, and a little in the active segment."""
    disk = SimDisk(Random(0))
    log = open_log(disk, config=CONFIG)
    for number in range(36):
        pairs = [
            (b"key %d" % (number % 5), b"value %d" % number * 3),
            (b"other %d" % (number % 7), None if number % 4 == 0 else b"%d" % number),
        ]
        producer = (number % 2 + 1, 0, number // 2 * 2) if number < 12 else (-1, -1, -1)
        append(log, keyed(pairs, producer=producer), epoch=number // 13)
        if number == 20:
            settle_log(log)
            log.checkpoint()
    close_segment(log)
    append(log, keyed([(b"key 0", b"the last"), (b"key 1", b"of all")]), epoch=3)
    settle_log(log)
    log.checkpoint()
    settle_log(log)
    return disk


def compacts(log: Log, look: Callable[[], None]) -> None:
    for now_ms in (NOW_MS, NOW_MS + 5000):
        clean(log, now_ms=now_ms, between=look)
        append(log, keyed([(b"key 2", b"%d" % now_ms)]), epoch=4)
        look()
        close_segment(log)


def compacts_once(log: Log, look: Callable[[], None]) -> None:
    clean(log)
    look()


def begins_later(log: Log, look: Callable[[], None]) -> None:
    for offset in (5, 30, 31, 60):
        log.advance_start(Offset(offset))
        look()
        settle_log(log)
        look()


def lets_go_of_old_segments(log: Log, look: Callable[[], None]) -> None:
    log.configure(compacted(segment_bytes=700, cleanup_policy="delete", retention_bytes=1500))
    assert log.apply_retention(NOW_MS) > 0
    for _ in range(5):
        flush(log)
        look()
    append(log, keyed([(b"key 2", b"later")]), epoch=4)
    look()
    log.configure(compacted(segment_bytes=700, cleanup_policy="delete", retention_ms=1))
    settle_log(log)
    assert log.apply_retention(NOW_MS) > 0
    settle_log(log)
    look()


def begins_later_while_it_is_compacted(log: Log, look: Callable[[], None]) -> None:
    steps = 0

    def between() -> None:
        nonlocal steps
        steps += 1
        look()
        if steps % 5 == 0:
            log.advance_start(Offset(min(log.log_start_offset + 9, 60)))

    clean(log, between=between)
    look()


DEEDS: list[Deed] = [
    compacts,
    begins_later,
    lets_go_of_old_segments,
]


def view(log: Log) -> Seen:
    return int(log.log_start_offset), tuple(records_of(log))


def do(
    deed: Deed,
    seed: int,
    changes: int | None,
    *,
    safeguards: frozenset[Safeguard] = ALL_SAFEGUARDS,
) -> tuple[SimDisk, list[Seen], bool]:
    """The deed, up to a power failure after so many changes of the disk; all that could be seen of
    the log meanwhile, in order, and whether it came to an end."""
    disk = deepcopy(a_disk())
    disk._random.seed(seed)
    log = open_log(disk, config=CONFIG, safeguards=safeguards)
    seen = [view(log)]
    shape = log.describe()

    def look() -> None:
        nonlocal shape
        log.validate()
        if log.describe() != shape:
            shape = log.describe()
            if view(log) != seen[-1]:
                seen.append(view(log))

    disk.faults.changes_left = changes
    try:
        deed(log, look)
    except PowerLost:
        return disk, seen, False
    disk.faults.heal()
    return disk, seen, True


def recovered(disk: SimDisk, *, changes: int | None = None) -> Seen:
    """What is seen after the start; with `changes`, the power fails once more during it."""
    disk.lose_power()
    disk.faults.changes_left = changes
    try:
        log = open_log(disk, config=CONFIG)
    except PowerLost:
        return recovered(disk)
    disk.faults.heal()
    log.validate()
    assert not [str(damage) for damage in log.damage if damage.kind != "cut"]
    start, records = view(log)
    if start:
        assert read(log, start - 1) is ErrorCode.OFFSET_OUT_OF_RANGE
    leftovers = [name for name in disk.list(log.directory.path) if name.endswith(LEFTOVERS)]
    assert leftovers == []
    append(log, keyed([(b"key 3", b"and on it goes")]), epoch=9)
    settle_log(log)
    assert records_of(log)[-1].value == b"and on it goes"
    return start, records


@pytest.mark.parametrize("deed", DEEDS)
def test_a_power_failure_anywhere_leaves_the_old_or_the_new(deed: Deed) -> None:
    _, states, is_done = do(deed, 0, None)
    assert is_done
    assert len(states) > 3
    changes = 0
    while True:
        disk, seen, is_done = do(deed, changes % 5, changes)
        if is_done:
            return
        after = recovered(disk, changes=changes % 11 if changes % 3 == 0 else None)
        assert after in states
        assert states.index(after) >= len(seen) - 2, "more than an unflushed append is undone"
        assert after[0] >= seen[-1][0], "the start has moved back"
        changes += 1


def test_a_power_failure_leaves_every_key_when_the_start_moves_during_compaction() -> None:
    """The two become durable at different times, so more states are possible than are seen."""
    _, states, is_done = do(begins_later_while_it_is_compacted, 0, None)
    assert is_done
    starts = [start for start, _ in states]
    assert starts[-1] == 60
    original = states[0][1]
    _, (*_, (_, wanted)), _ = do(compacts_once, 0, None)
    changes = 0
    while not is_done or not changes:
        disk, seen, is_done = do(begins_later_while_it_is_compacted, changes % 5, changes)
        start, rows = recovered(disk, changes=changes % 11 if changes % 3 == 0 else None)
        assert seen[-1][0] <= start <= 60
        assert set(rows) <= {record for record in original if record.offset >= start}
        assert set(rows) >= {record for record in wanted if record.offset >= start}
        changes += 1


@pytest.mark.parametrize(
    ("safeguard", "deed"),
    [
        (Safeguard.CLEAN_SYNC_BEFORE_SWAP, compacts),
        (Safeguard.START_DURABLE_BEFORE_DELETE, begins_later),
    ],
)
def test_without_its_safeguard_a_power_failure_is_noticed(safeguard: Safeguard, deed: Deed) -> None:
    _, states, _ = do(deed, 0, None)
    for changes in range(500):
        disk, seen, is_done = do(deed, changes, changes, safeguards=ALL_SAFEGUARDS - {safeguard})
        if is_done:
            break
        disk.lose_power()
        log = open_log(disk, config=CONFIG)
        if log.damage or view(log) not in states or log.log_start_offset < seen[-1][0]:
            return
    raise AssertionError("it made no difference")
