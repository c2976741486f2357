"""A leader whose log is damaged or whose disk is full: others lead, and it repairs or waits; alone
it serves what it can."""

from __future__ import annotations

from random import Random

import pytest
from tests.unit.log.logs import a_batch, append, flush, open_log, settings
from tests.unit.partition.replicas import (
    LAG_MS,
    ME,
    OTHER,
    THIRD,
    a_fetch,
    a_leader,
    a_log,
    a_membership,
    a_state,
    fetch,
)

from tidelog.log.disk import DiskFull, FileSpan
from tidelog.log.log import Log
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import LeaderEpoch, NodeId, Offset
from tidelog.partition.divergence import EpochEnd
from tidelog.partition.leader import Leader
from tidelog.partition.replica import Replica
from tidelog.sim.disk import SimDisk

RECORDS = 4
_SMALL = settings(segment_bytes=200)


def _damaged_log(*, at: int = 1, epochs: tuple[int, ...] = (5,) * RECORDS) -> Log:
    """Of four records, a byte of the one at `at` is another than it was; nobody knows yet."""
    disk = SimDisk(Random(3))
    log = open_log(disk)
    for epoch in epochs:
        append(log, a_batch(), epoch=epoch)
    flush(log)
    log.close_cleanly()
    path = next(path for path in disk.files() if path.endswith(".log"))
    size = disk.open(path).size() // RECORDS
    disk.open(path).write(at * size + 70, (b"\xff",))
    return open_log(disk, clean=True)


def _read(leader: Leader, offset: int) -> FileSpan | ErrorCode | None:
    return leader.read(Offset(offset), max_bytes=1 << 20, at_least_one=True)


def _is_caught_up(leader: Leader, *nodes: NodeId, now_ms: float = 1) -> None:
    _is_caught_up_at(leader, RECORDS, *nodes, now_ms=now_ms)


def _is_caught_up_at(leader: Leader, offset: int, *nodes: NodeId, now_ms: float = 1) -> None:
    for node in nodes:
        fetch(leader, offset, node=node, now_ms=now_ms)


def test_damage_that_a_reader_meets_makes_the_leader_resign() -> None:
    leader = a_leader(_damaged_log())
    _is_caught_up(leader, OTHER, THIRD)
    assert leader.propose(2) is None
    assert isinstance(_read(leader, 0), FileSpan)
    assert _read(leader, 1) is ErrorCode.KAFKA_STORAGE_ERROR
    proposal = leader.propose(3)
    assert proposal is not None
    assert proposal.nodes == (OTHER, THIRD)
    assert not leader.knows_end
    leader.isr_answered(proposal, ErrorCode.INELIGIBLE_REPLICA, 4)
    assert leader.knows_end


def test_damage_that_a_follower_meets_makes_the_leader_resign() -> None:
    leader = a_leader(_damaged_log())
    _is_caught_up(leader, OTHER)
    found = leader.read_to_end(Offset(1), max_bytes=1 << 20, at_least_one=True)
    assert found is ErrorCode.CORRUPT_MESSAGE
    proposal = leader.propose(2)
    assert proposal is not None
    assert ME not in proposal.nodes


def test_a_leader_that_starts_with_a_segment_missing_resigns_at_once() -> None:
    disk = SimDisk(Random(4))
    log = open_log(disk, config=_SMALL)
    for _ in range(RECORDS):
        append(log, a_batch(), epoch=5)
    flush(log)
    log.close_cleanly()
    disk.delete(sorted(path for path in disk.files() if path.endswith(".log"))[0])
    leader = a_leader(open_log(disk, config=_SMALL))
    assert leader.damaged_from == 0
    _is_caught_up(leader, OTHER, THIRD)
    proposal = leader.propose(2)
    assert proposal is not None
    assert proposal.nodes == (OTHER, THIRD)


@pytest.mark.parametrize("isr", [(1,), (1, 2)])
def test_only_who_is_in_sync_takes_over(isr: tuple[int, ...]) -> None:
    """With nobody in sync the leader stays, and still takes in who has all it has."""
    leader = a_leader(_damaged_log(), a_state(isr=isr))
    _is_caught_up(leader, *(node for node in (OTHER, THIRD) if node in isr))
    answer = ErrorCode.KAFKA_STORAGE_ERROR if OTHER in isr else ErrorCode.CORRUPT_MESSAGE
    assert _read(leader, 1) is answer
    proposal = leader.propose(2)
    if OTHER in isr:
        assert proposal is not None
        assert proposal.nodes == (OTHER,)
        return
    assert proposal is None
    _is_caught_up(leader, THIRD)
    taken_in = leader.propose(3)
    assert taken_in is not None
    assert taken_in.nodes == (ME, THIRD)
    leader.follow(a_state(isr=(1, 3), partition_epoch=1), 4)
    resignation = leader.propose(5)
    assert resignation is not None
    assert resignation.nodes == (THIRD,)


def test_an_eligible_follower_takes_over_if_nobody_can_come_in() -> None:
    """It has all that is committed, and the damage is in its way."""
    leader = a_leader(_damaged_log(), a_state(isr=(1,), elr=(3,)), min_isr=2)
    fetch(leader, 1, node=THIRD, now_ms=1)
    fetch(leader, 1, node=OTHER, now_ms=1)
    assert leader.read_to_end(Offset(1), max_bytes=1, at_least_one=True) is (
        ErrorCode.CORRUPT_MESSAGE
    )
    assert leader.propose(2) is None, "it may still get what can be read"
    resignation = leader.propose(LAG_MS + 2)
    assert resignation is not None
    assert resignation.nodes == (THIRD,)


@pytest.mark.parametrize(("elr", "min_isr"), [((), 2), ((3,), 1)])
def test_who_is_not_eligible_does_not_take_over(elr: tuple[int, ...], min_isr: int) -> None:
    """Nor somebody who was, before enough were in sync for more to be committed."""
    leader = a_leader(_damaged_log(), a_state(isr=(1,), elr=elr), min_isr=min_isr)
    fetch(leader, 1, node=THIRD, now_ms=1)
    leader.read_to_end(Offset(1), max_bytes=1, at_least_one=True)
    assert leader.damaged_from == 1
    assert leader.propose(LAG_MS + 2) is None


def test_who_can_be_taken_in_sync_comes_before_who_is_eligible() -> None:
    leader = a_leader(_damaged_log(), a_state(isr=(1,), elr=(3,)), min_isr=2)
    leader.read_to_end(Offset(1), max_bytes=1, at_least_one=True)
    _is_caught_up(leader, OTHER, now_ms=LAG_MS + 2)
    proposal = leader.propose(LAG_MS + 3)
    assert proposal is not None
    assert proposal.nodes == (ME, OTHER)


def test_nobody_takes_over_who_lags_behind() -> None:
    leader = a_leader(_damaged_log(), a_state(isr=(1, 2, 3)))
    _is_caught_up(leader, THIRD, now_ms=LAG_MS + 2)
    fetch(leader, 2, node=OTHER, now_ms=1)
    _read(leader, 1)
    proposal = leader.propose(LAG_MS + 3)
    assert proposal is not None
    assert proposal.nodes == (THIRD,)


def test_alone_it_tells_which_records_are_unreadable() -> None:
    leader = a_leader(_damaged_log(), a_state(isr=(1,), replicas=(1,)))
    assert _read(leader, 1) is ErrorCode.CORRUPT_MESSAGE
    assert isinstance(_read(leader, 2), FileSpan)
    assert leader.propose(2) is None


def test_damage_that_was_deleted_is_no_reason_to_resign() -> None:
    leader = a_leader(_damaged_log())
    _is_caught_up(leader, OTHER, THIRD)
    _read(leader, 1)
    leader.log.advance_start(Offset(2))
    for _ in range(3):
        flush(leader.log)
        leader.log.follow_start()
    assert leader.log.log_start_offset == 2
    assert leader.propose(2) is None
    assert leader.damaged_from is None


def test_a_reader_of_a_damaged_follower_is_sent_to_the_leader() -> None:
    log = _damaged_log()
    state = a_state(leader=OTHER)
    replica = Replica(state, log, settings(), a_membership(), now_ms=0)
    assert replica.follower is not None
    replica.follower._leader_watermark = Offset(RECORDS)
    found = replica.read(Offset(1), max_bytes=1 << 20, at_least_one=True)
    assert found is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert any("quarantined" in text for text in replica.take_reports())
    assert replica.follower.position == 1


def test_a_leader_without_room_resigns_and_one_that_has_room_again_does_not() -> None:
    disk = SimDisk(Random(5))
    leader = a_leader(open_log(disk))
    _is_caught_up_at(leader, 0, OTHER, THIRD)
    disk.faults.capacity_bytes = 0
    with pytest.raises(DiskFull):
        leader.append(a_batch(), 1)
    disk.faults.capacity_bytes = None
    assert leader.append(a_batch(), 1).error is ErrorCode.NONE
    assert leader.propose(2) is None
    disk.faults.capacity_bytes = 0
    with pytest.raises(DiskFull):
        leader.append(a_batch(), 1)
    proposal = leader.propose(3)
    assert proposal is not None
    assert proposal.nodes == (OTHER, THIRD)


def test_a_sound_log_is_not_looked_at_again() -> None:
    leader = a_leader(a_log(RECORDS, epoch=5))
    _is_caught_up(leader, OTHER, THIRD)
    assert isinstance(_read(leader, 1), FileSpan)
    assert (leader.damaged_from, leader.propose(2)) == (None, None)


@pytest.mark.parametrize(("last", "offset"), [(2, 3), (3, 3), (4, 2)])
def test_nobody_is_told_to_cut_by_epochs_that_can_not_be_read(last: int, offset: int) -> None:
    """The record of epoch 2 is before the damage and that of epoch 5 behind it: where 2 ended, and
    whether 3 or 4 began, can't be told."""
    leader = a_leader(_damaged_log(epochs=(2, 5, 5, 5)), a_state(isr=(1,), epoch=9))
    _read(leader, 1)
    assert leader.damaged_from == 1
    leader.log.epochs.cut(1)
    leader.log.epochs.note(5, 2)  # as they are rebuilt from what can be read
    answer = leader.check_fetch(a_fetch(offset, epoch=9, last=last))
    assert answer is ErrorCode.KAFKA_STORAGE_ERROR


@pytest.mark.parametrize(
    ("last", "offset", "answer"),
    [(1, 1, EpochEnd(LeaderEpoch(1), Offset(0))), (7, 4, EpochEnd(LeaderEpoch(5), Offset(4)))],
)
def test_damage_between_two_epochs_says_nothing_of_those_before_and_behind(
    last: int, offset: int, answer: EpochEnd
) -> None:
    leader = a_leader(_damaged_log(epochs=(2, 3, 5, 5)), a_state(isr=(1,), epoch=9))
    _read(leader, 1)
    assert leader.damaged_from == 1
    assert leader.check_fetch(a_fetch(offset, epoch=9, last=last)) == answer


def test_damage_within_an_epoch_does_not_keep_a_diverged_follower_out() -> None:
    """Epochs never fall: between two records of one epoch no other has begun."""
    leader = a_leader(_damaged_log(at=1), a_state(isr=(1,), epoch=9))
    _read(leader, 1)
    assert leader.damaged_from == 1
    answer = leader.check_fetch(a_fetch(RECORDS + 2, epoch=9, last=5))
    assert answer == EpochEnd(LeaderEpoch(5), Offset(RECORDS))


def test_damage_at_the_end_of_a_log_may_hide_any_later_epoch() -> None:
    leader = a_leader(_damaged_log(at=RECORDS - 1), a_state(isr=(1,), epoch=9))
    _read(leader, RECORDS - 1)
    assert leader.damaged_from == RECORDS - 1
    answer = leader.check_fetch(a_fetch(RECORDS, epoch=9, last=7))
    assert answer is ErrorCode.KAFKA_STORAGE_ERROR


def test_who_is_counted_on_gets_nothing_to_mend_its_log_with() -> None:
    """It would cut away the rest while it may be elected."""
    leader = a_leader(a_log(RECORDS, epoch=5), a_state(isr=(1, 2), elr=(3,)))
    assert not leader.withholds(OTHER, Offset(1)), "what it had before is not known"
    _is_caught_up(leader, OTHER, THIRD)
    assert leader.high_watermark == RECORDS
    assert leader.withholds(OTHER, Offset(1))
    assert leader.withholds(THIRD, Offset(1))
    assert not leader.withholds(OTHER, Offset(RECORDS))
    leader.follow(a_state(isr=(1,), partition_epoch=1), 2)
    assert not leader.withholds(OTHER, Offset(1))
    assert not leader.withholds(THIRD, Offset(1))


def test_what_an_idempotent_producer_sends_waits_while_another_replica_may_have_it() -> None:
    """It may be what the damage hides. Those that stand before the damage have nothing of it."""
    log = _damaged_log()
    log.producers.lost_sight()
    leader = a_leader(log)
    found = leader.read_to_end(Offset(1), max_bytes=1 << 20, at_least_one=True)
    assert found is ErrorCode.CORRUPT_MESSAGE
    batch = a_batch(producer=(7, 0, 0))
    assert leader.append(batch, 1).error is ErrorCode.KAFKA_STORAGE_ERROR
    assert leader.append(a_batch(), 1).error is ErrorCode.NONE
    _is_caught_up_at(leader, 1, OTHER)
    assert leader.append(batch, 1).error is ErrorCode.KAFKA_STORAGE_ERROR
    _is_caught_up_at(leader, 1, THIRD)
    assert leader.append(batch, 1).error is ErrorCode.NONE
