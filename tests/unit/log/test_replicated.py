"""A follower's log: batches taken over as they are, and a log that begins anew."""

from __future__ import annotations

from random import Random

import pytest
from tests.support.stamping import stamp
from tests.unit.log.logs import (
    a_batch,
    append,
    everything,
    fill,
    flush,
    headers_in,
    open_log,
    read,
    settings,
)

from tidelog.log.compaction import filler
from tidelog.log.disk import FileSpan
from tidelog.log.log import Appended, Log
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import LeaderEpoch, Offset
from tidelog.model.settings import TopicSettings
from tidelog.sim.disk import SimDisk
from tidelog.sim.disk_faults import PowerLost


def a_leader(disk: SimDisk, config: TopicSettings | None = None) -> Log:
    """Three epochs of batches, some of a producer."""
    log = open_log(disk, config=config)
    for number in range(30):
        append(log, a_batch(2, producer=(7, 0, 2 * number)), epoch=number // 10)
    return log


def take(follower: Log, records: bytes, *, epoch: int = 2) -> Appended:
    return follower.append_replicated(
        memoryview(records), leader_epoch=LeaderEpoch(epoch), now_ms=1000
    )


def bytes_from(leader: Log, offset: int, *, max_bytes: int = 1 << 20) -> bytes:
    span = read(leader, offset, max_bytes=max_bytes)
    assert isinstance(span, FileSpan)
    return span.read()


def follow(leader: Log, follower: Log, *, max_bytes: int = 700) -> None:
    while follower.log_end_offset < leader.log_end_offset:
        data = bytes_from(leader, follower.log_end_offset, max_bytes=max_bytes)
        assert take(follower, data).error is ErrorCode.NONE


@pytest.mark.parametrize("max_bytes", [1, 700, 1 << 20])
def test_a_follower_has_the_bytes_epochs_and_producers_of_its_leader(max_bytes: int) -> None:
    config = settings(segment_bytes=1500)
    leader_disk, follower_disk = SimDisk(Random(1)), SimDisk(Random(2))
    leader, follower = a_leader(leader_disk, config), open_log(follower_disk, config=config)
    follow(leader, follower, max_bytes=max_bytes)
    assert follower.epochs.entries() == leader.epochs.entries()
    assert follower.producers == leader.producers
    theirs = {path: bytes(file.cached) for path, file in leader_disk.files().items()}
    ours = {path: bytes(file.cached) for path, file in follower_disk.files().items()}
    assert {p: d for p, d in ours.items() if p.endswith(".log")} == {
        p: d for p, d in theirs.items() if p.endswith(".log")
    }


def test_batches_that_do_not_begin_at_the_end_are_refused(sim_disk: SimDisk) -> None:
    leader, follower = a_leader(SimDisk(Random(1))), open_log(sim_disk)
    assert take(follower, bytes_from(leader, 4)).error is ErrorCode.INVALID_RECORD
    assert take(follower, b"").error is ErrorCode.INVALID_RECORD
    assert take(follower, bytes_from(leader, 0)[:-1]).error is ErrorCode.CORRUPT_MESSAGE
    assert follower.log_end_offset == 0


def test_a_batch_of_an_epoch_after_the_leaders_or_before_ours_is_refused(
    sim_disk: SimDisk,
) -> None:
    leader, follower = a_leader(SimDisk(Random(1))), open_log(sim_disk)
    assert take(follower, bytes_from(leader, 0), epoch=1).error is ErrorCode.INVALID_RECORD
    follow(leader, follower)
    late = bytearray(a_batch())
    stamp(late, follower.log_end_offset, LeaderEpoch(1))
    assert take(follower, bytes(late)).error is ErrorCode.INVALID_RECORD


def test_a_batch_with_a_wrong_checksum_is_refused_with_all_that_came_with_it(
    sim_disk: SimDisk,
) -> None:
    leader, follower = a_leader(SimDisk(Random(1))), open_log(sim_disk)
    data = bytearray(bytes_from(leader, 0))
    data[-1] ^= 1
    assert take(follower, bytes(data)).error is ErrorCode.CORRUPT_MESSAGE
    assert follower.log_end_offset == 0


def test_of_a_filler_that_begins_before_our_end_the_rest_is_taken(sim_disk: SimDisk) -> None:
    follower = open_log(sim_disk)
    fill(follower, 2)
    assert take(follower, bytes(filler(1, 9, 1))).last_offset == 8
    assert headers_in(read(follower, 4))[0].base_offset == 4
    assert follower.log_end_offset == 9


@pytest.mark.parametrize("offset", [0, 3, 50, 60, 1000])
def test_a_log_begins_anew_where_it_is_told(sim_disk: SimDisk, offset: int) -> None:
    config = settings(segment_bytes=1500)
    log = a_leader(sim_disk, config)
    flush(log)
    log.start_at(Offset(offset))
    log.validate()
    assert (log.log_start_offset, log.log_end_offset, log.flushed_offset) == (offset,) * 3
    assert (len(log.producers), log.epochs.entries()) == (0, [])
    assert append(log, a_batch(3), epoch=5).base_offset == offset
    flush(log)
    sim_disk.lose_power()
    again = open_log(sim_disk, config=config)
    assert [number for number, _ in everything(again)] == [offset, offset + 1, offset + 2]
    assert again.log_start_offset == offset
    assert again.epochs.entries() == [(5, offset)]
    assert not [damage for damage in again.damage if damage.kind != "cut"]


@pytest.mark.parametrize("offset", [20, 1000])
@pytest.mark.parametrize("is_begun_later", [False, True])
def test_a_crash_while_beginning_anew_leaves_an_empty_log_or_some_of_the_old_one(
    offset: int, is_begun_later: bool
) -> None:
    config = settings(segment_bytes=1500)
    for changes in range(60):
        disk = SimDisk(Random(changes))
        log = a_leader(disk, config)
        flush(log)
        if is_begun_later:
            log.advance_start(Offset(31))
            flush(log)
            flush(log)
        disk.faults.changes_left = changes
        try:
            log.start_at(Offset(offset))
        except PowerLost:
            pass
        disk.faults.changes_left = None
        disk.lose_power()
        again = open_log(disk, config=config)
        again.validate()
        is_empty = again.log_end_offset == again.log_start_offset
        kept = [number for number, _ in everything(again)]
        assert is_empty or kept == list(range(kept[0], again.log_end_offset))
        assert again.log_end_offset <= 60 or again.log_end_offset == offset
        assert not [damage for damage in again.damage if damage.kind != "cut"]
        assert append(again, a_batch(), epoch=9).error is ErrorCode.NONE


def test_a_log_knows_where_it_is_damaged(sim_disk: SimDisk) -> None:
    log = a_leader(sim_disk)
    flush(log)
    log.close_cleanly()
    assert log.first_damaged_offset() is None
    path = next(path for path in sim_disk.files() if path.endswith(".log"))
    span = read(log, 20)
    assert isinstance(span, FileSpan)
    file = sim_disk.open(path)
    file.write(span.position + 80, (b"\xff\xff",))
    again = open_log(sim_disk, clean=True)
    assert isinstance(read(again, 0), FileSpan)
    assert again.first_damaged_offset() == 20
    again.truncate_to(Offset(20))
    assert again.first_damaged_offset() is None
    assert again.log_end_offset == 20
