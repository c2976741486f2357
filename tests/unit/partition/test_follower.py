"""The follower: what it asks for, what it takes, where it cuts."""

from __future__ import annotations

from random import Random

import pytest
from tests.unit.log.logs import (
    a_batch,
    append,
    everything,
    flush,
    open_log,
    read,
    without_room_for_marks,
)
from tests.unit.partition.replicas import a_follower, a_log, a_state, an_answer, hear

from tidelog.log.disk import FileSpan
from tidelog.log.log import Log
from tidelog.model.clock import Now
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import LeaderEpoch, NodeId, Offset
from tidelog.partition.follower import Follower
from tidelog.sim.disk import SimDisk


def bytes_from(leader: Log, offset: int) -> bytes:
    span = read(leader, offset)
    assert isinstance(span, FileSpan)
    return span.read()


def epochs(*written: int, seed: int = 1) -> Log:
    """One record of each epoch, flushed."""
    log = a_log(seed=seed)
    for number, epoch in enumerate(written):
        append(log, a_batch(value=b"%d" % (1000 * seed + number)), epoch=epoch)
    flush(log)
    return log


def asks(follower: Follower) -> tuple[int, int, int]:
    fetch = follower.fetch()
    return fetch.fetch_offset, fetch.last_fetched_epoch, fetch.current_leader_epoch


def test_it_asks_from_its_durable_end_with_both_epochs() -> None:
    follower = a_follower(epochs(0, 3))
    assert asks(follower) == (2, 3, 5)
    assert asks(a_follower(a_log())) == (0, -1, 5)


def test_what_is_not_flushed_is_not_counted_as_had() -> None:
    leader, follower = epochs(0, 1, 2), a_follower(a_log())
    follower.take(Now(0, 0), an_answer(bytes_from(leader, 0), high_watermark=3), asked=Offset(0))
    assert (follower.log.log_end_offset, follower.is_settled) == (3, False)
    assert (follower.position, follower.high_watermark) == (0, 0)
    assert follower.has_written
    flush(follower.log)
    assert (follower.position, follower.high_watermark, follower.is_settled) == (3, 3, True)


def test_it_has_its_leaders_records_and_watermark() -> None:
    leader, follower = epochs(0, 1, 4), a_follower(a_log())
    hear(follower, an_answer(bytes_from(leader, 0), high_watermark=2))
    assert everything(follower.log) == everything(leader)
    assert follower.log.epochs.entries() == [(0, 0), (1, 1), (4, 2)]
    assert follower.high_watermark == 2
    assert follower.knows_watermark


def test_an_answer_to_an_older_fetch_is_dropped() -> None:
    leader, follower = epochs(0, 1), a_follower(a_log())
    answer = an_answer(bytes_from(leader, 0))
    hear(follower, answer)
    follower.take(Now(0, 0), answer, asked=Offset(0))
    assert follower.log.log_end_offset == 2
    follower.end()
    follower.take(Now(0, 0), an_answer(diverging=(0, 1)), asked=Offset(2))
    assert follower.log.log_end_offset == 2


def test_it_cuts_where_the_leaders_epoch_ends() -> None:
    follower = a_follower(epochs(0, 2, 2, 2), high_watermark=1)
    hear(follower, an_answer(diverging=(2, 2)))
    assert asks(follower) == (2, 2, 5)
    assert not follower.reports


def test_it_cuts_what_it_has_of_epochs_that_the_leader_lacks() -> None:
    """KIP-279: the leader's answer may name an epoch that the follower has never seen."""
    follower = a_follower(epochs(0, 2, 2, 4))
    hear(follower, an_answer(diverging=(3, 9)))
    assert asks(follower) == (3, 2, 5)
    hear(follower, an_answer(diverging=(1, 1)))
    assert asks(follower) == (1, 0, 5)


def test_it_never_cuts_to_its_watermark() -> None:
    """KIP-101: what it does not know to be committed may be so."""
    follower = a_follower(epochs(0, 1, 1), high_watermark=1)
    assert asks(follower) == (3, 1, 5)


def test_to_cut_what_was_committed_is_reported_loudly() -> None:
    follower = a_follower(epochs(0, 2, 2), high_watermark=3)
    hear(follower, an_answer(diverging=(0, 1)))
    assert follower.log.log_end_offset == 1
    assert "COMMITTED RECORDS ARE LOST" in follower.reports[0]


def test_a_divergence_beyond_its_end_makes_it_wait() -> None:
    follower = a_follower(epochs(0, 2))
    hear(follower, an_answer(diverging=(2, 7)), now_ms=10)
    assert "says our log diverges from its own in epoch 2 at 7" in follower.reports[0]
    assert follower.log.log_end_offset == 2
    assert follower.ready_ms == 30


@pytest.mark.parametrize("free_bytes", [0, 600, 5_000])
def test_without_room_to_start_over_it_keeps_its_log_and_goes_on_when_there_is_room(
    free_bytes: int,
) -> None:
    disk = SimDisk(Random(1))
    log = open_log(disk)
    for _ in range(3):
        append(log, a_batch())
    flush(log)
    follower = a_follower(log)
    refusal = an_answer(error=ErrorCode.OFFSET_OUT_OF_RANGE, log_start_offset=40, high_watermark=-1)
    disk.faults.capacity_bytes = disk.used_bytes() + free_bytes
    for now_ms in (10, 1_000, 60_000):
        hear(follower, refusal, now_ms=now_ms)
        assert follower.ready_ms > now_ms
        assert (follower.trouble, follower.position) == (ErrorCode.KAFKA_STORAGE_ERROR, 3)
        assert len(everything(log)) == 3
        follower.validate()
        log.validate()
    assert [text for text in follower.reports if "waits for room" in text] == [
        "orders-0: the disk is full: waits for room"
    ]
    disk.faults.capacity_bytes = None
    hear(follower, refusal, now_ms=90_000)
    assert asks(follower) == (40, -1, 5)
    assert log.log_start_offset == 40


def test_without_room_to_cut_durably_it_cuts_nothing_and_does_when_there_is_room() -> None:
    """A shorter log is written down before it is cut: the next crash would take what is missing for
    damage."""
    disk = SimDisk(Random(1))
    log = open_log(disk)
    for epoch in (0, 1, 1, 2):
        append(log, a_batch(), epoch=epoch)
    flush(log)
    without_room_for_marks(disk)
    follower = a_follower(log)
    disk.faults.capacity_bytes = disk.used_bytes()
    hear(follower, an_answer(diverging=(1, 2)))
    assert (follower.trouble, follower.position) == (ErrorCode.KAFKA_STORAGE_ERROR, 4)
    assert len(everything(log)) == 4
    hear(follower, an_answer(diverging=(1, 2)))
    assert len(follower.reports) == 1
    disk.faults.capacity_bytes = None
    hear(follower, an_answer(diverging=(1, 2)))
    assert asks(follower) == (2, 1, 5)
    disk.lose_power()
    assert open_log(disk).log_end_offset == 2
    assert not open_log(disk).damage


def test_it_starts_over_only_behind_its_leaders_start() -> None:
    follower = a_follower(epochs(0, 1))
    refusal = ErrorCode.OFFSET_OUT_OF_RANGE
    hear(follower, an_answer(error=refusal, log_start_offset=1, high_watermark=-1))
    assert (follower.log.log_end_offset, follower.trouble) == (2, refusal)
    hear(follower, an_answer(error=refusal, log_start_offset=40, high_watermark=-1))
    assert asks(follower) == (40, -1, 5)
    assert follower.log.log_start_offset == 40
    hear(follower, an_answer(error=refusal, log_start_offset=30, high_watermark=-1))
    assert asks(follower) == (30, -1, 5)


def test_it_starts_over_just_where_its_leader_begins_if_it_is_told_so() -> None:
    follower = a_follower(epochs(0, 1))
    refusal = ErrorCode.OFFSET_OUT_OF_RANGE
    hear(follower, an_answer(error=refusal, log_start_offset=2, high_watermark=-1))
    assert asks(follower) == (2, -1, 5)
    assert (follower.log.log_start_offset, everything(follower.log)) == (2, [])
    hear(follower, an_answer(error=refusal, log_start_offset=2, high_watermark=-1))
    assert follower.trouble is refusal


def test_a_fenced_epoch_makes_it_wait() -> None:
    follower = a_follower(epochs(0))
    for error, ready_ms in (
        (ErrorCode.FENCED_LEADER_EPOCH, 30),
        (ErrorCode.UNKNOWN_LEADER_EPOCH, 50),
    ):
        hear(follower, an_answer(error=error, high_watermark=-1), now_ms=10)
        assert (follower.trouble, follower.ready_ms) == (error, ready_ms)
    for _ in range(20):
        hear(follower, an_answer(error=ErrorCode.NOT_LEADER_OR_FOLLOWER), now_ms=10)
    assert follower.ready_ms == 1010
    hear(follower, an_answer())
    hear(follower, an_answer(error=ErrorCode.NOT_LEADER_OR_FOLLOWER), now_ms=10)
    assert follower.ready_ms == 30


def test_the_leaders_log_start_is_followed() -> None:
    follower = a_follower(epochs(0, 1, 1))
    hear(follower, an_answer(high_watermark=3, log_start_offset=2))
    flush(follower.log)
    assert follower.log.log_start_offset == 2


def test_records_that_do_not_fit_are_reported_and_not_taken() -> None:
    leader, follower = epochs(0, 1, 7), a_follower(a_log())
    hear(follower, an_answer(bytes_from(leader, 0)))
    assert follower.log.log_end_offset == 0
    assert "do not fit" in follower.reports[0]
    assert follower.trouble is ErrorCode.INVALID_RECORD


def test_a_new_log_begins_with_the_batch_in_which_the_leaders_begins() -> None:
    leader = a_log(seed=1)
    for _ in range(2):
        append(leader, a_batch(3), epoch=1)
    flush(leader)
    leader.advance_start(Offset(4))
    flush(leader)
    follower = a_follower(a_log())
    gone = ErrorCode.OFFSET_OUT_OF_RANGE
    hear(follower, an_answer(error=gone, log_start_offset=4))
    assert asks(follower)[0] == 4
    hear(follower, an_answer(bytes_from(leader, 4), high_watermark=6, log_start_offset=4))
    assert follower.trouble is None
    flush(follower.log)
    assert (follower.log.log_start_offset, follower.log.log_end_offset) == (4, 6)
    assert asks(follower)[0] == 6


def damaged(sim_disk: SimDisk, leader: Log) -> Log:
    """The leader's log, with its second record unreadable, and found so."""
    log = open_log(sim_disk)
    data = memoryview(bytes_from(leader, 0))
    log.append_replicated(data, leader_epoch=LeaderEpoch(5), now_ms=0)
    flush(log)
    log.close_cleanly()
    path = next(path for path in sim_disk.files() if path.endswith(".log"))
    sim_disk.open(path).write(len(data) // 3 + 70, (b"\xff",))
    again = open_log(sim_disk, clean=True)
    assert len(everything(again)) == 1
    return again


def test_damage_is_fetched_again_once_nobody_relies_on_it() -> None:
    leader = epochs(0, 1, 1)
    follower = a_follower(damaged(SimDisk(Random(3)), leader), high_watermark=3)
    assert asks(follower) == (1, 0, 5)
    hear(follower, an_answer(bytes_from(leader, 1), high_watermark=3))
    assert (follower.log.log_end_offset, follower.trouble) == (3, ErrorCode.CORRUPT_MESSAGE)
    follower.follow(a_state(leader=NodeId(2), isr=(2, 3), elr=(1,)))
    hear(follower, an_answer(bytes_from(leader, 1), high_watermark=3))
    assert len(everything(follower.log)) == 1
    follower.follow(a_state(leader=NodeId(2), isr=(2, 3)))
    hear(follower, an_answer(b"", high_watermark=3))
    assert follower.log.log_end_offset == 3, "the leader counts on it still, and gives nothing"
    hear(follower, an_answer(bytes_from(leader, 1), high_watermark=3))
    assert everything(follower.log) == everything(leader)
    assert follower.damaged_from is None
    assert "damaged at offset 1" in follower.reports[0]
