"""The leader: when a record counts, who is in sync, what it refuses."""

from __future__ import annotations

from tests.unit.log.logs import a_batch, append, flush, settings
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
    produce,
)

from tidelog.log.disk import FileSpan
from tidelog.log.log import Log
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import LeaderEpoch, NodeId, Offset
from tidelog.partition.divergence import EpochEnd
from tidelog.partition.leader import Leader

ALONE = a_state(isr=(1,), replicas=(1,))


def read(leader: Leader, offset: int) -> FileSpan | ErrorCode | None:
    return leader.read(Offset(offset), max_bytes=1 << 20, at_least_one=True)


def emptied(log: Log) -> Log:
    """All of it was deleted, and the node has tidied up."""
    log.advance_start(log.log_end_offset)
    log.apply_retention(0)
    for _ in range(3):
        flush(log)
    assert not log.epochs.entries()
    return log


class TestTheWatermark:
    def test_alone_it_is_the_flushed_end(self) -> None:
        leader = a_leader(state=ALONE)
        last = produce(leader, flushed=False)
        assert not leader.is_acknowledged(last, by_all=True)
        flush(leader.log)
        assert leader.flushed()
        assert leader.high_watermark == 1
        assert leader.is_acknowledged(last, by_all=True)

    def test_it_is_the_least_that_all_in_sync_have_durably(self) -> None:
        leader = a_leader()
        produce(leader, 5)
        fetch(leader, 4, node=OTHER)
        assert leader.high_watermark == 0
        fetch(leader, 3, node=THIRD)
        assert leader.high_watermark == 3

    def test_our_own_unflushed_records_do_not_count(self) -> None:
        leader = a_leader()
        produce(leader, 2)
        produce(leader, 3, flushed=False)
        fetch(leader, 5, node=OTHER)
        fetch(leader, 5, node=THIRD)
        assert leader.high_watermark == 2

    def test_with_acks_one_our_own_flush_is_enough(self) -> None:
        leader = a_leader()
        last = produce(leader)
        assert leader.is_acknowledged(last, by_all=False)
        assert not leader.is_acknowledged(last, by_all=True)

    def test_it_rests_while_too_few_are_in_sync(self) -> None:
        leader = a_leader(state=a_state(isr=(1, 2)), min_isr=3)
        produce(leader)
        fetch(leader, 1, node=OTHER)
        assert leader.high_watermark == 0
        assert not leader.has_enough_replicas
        leader.follow(a_state(isr=(1, 2, 3), partition_epoch=1), 2)
        fetch(leader, 1, node=THIRD)
        assert leader.high_watermark == 1

    def test_more_replicas_in_sync_than_there_are_can_not_be_asked_for(self) -> None:
        assert a_leader(state=ALONE, min_isr=3).has_enough_replicas

    def test_it_rests_while_there_is_no_session(self) -> None:
        membership = a_membership()
        leader = Leader(ALONE, a_log(), settings(), membership, now_ms=0)
        last = produce(leader, flushed=False)
        membership.has_session = False
        flush(leader.log)
        assert not leader.flushed()
        assert not leader.is_acknowledged(last, by_all=True)
        assert leader.append(a_batch(), 1).error is ErrorCode.NOT_LEADER_OR_FOLLOWER
        membership.has_session = True
        assert leader.session_changed()
        assert leader.is_acknowledged(last, by_all=True)

    def test_an_ended_leader_appends_nothing_and_acknowledges_nothing_more(self) -> None:
        leader = a_leader(state=ALONE)
        last = produce(leader, flushed=False)
        leader.end(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        flush(leader.log)
        assert not leader.flushed()
        assert not leader.is_acknowledged(last, by_all=True)
        assert not leader.is_acknowledged(last, by_all=False)
        assert leader.append(a_batch(), 1).error is ErrorCode.NOT_LEADER_OR_FOLLOWER


class TestANewLeader:
    def test_it_tells_no_watermark_before_it_has_reached_its_epochs_start(self) -> None:
        leader = a_leader(a_log(4), high_watermark=2)
        assert (leader.high_watermark, leader.is_proven) == (2, False)
        assert isinstance(read(leader, 1), FileSpan)
        assert read(leader, 2) is ErrorCode.OFFSET_NOT_AVAILABLE
        assert read(leader, 9) is ErrorCode.OFFSET_OUT_OF_RANGE
        fetch(leader, 4, node=OTHER)
        fetch(leader, 4, node=THIRD)
        assert leader.is_proven
        assert read(leader, 4) is None

    def test_alone_it_knows_at_once(self) -> None:
        assert a_leader(a_log(4), ALONE).knows_end

    def test_who_leaves_may_be_the_last_to_hear_who_leads(self) -> None:
        membership = a_membership()
        leader = Leader(ALONE, a_log(4), settings(), membership, now_ms=0)
        membership.is_leaving = True
        assert leader.is_proven
        assert not leader.knows_end

    def test_it_takes_nobody_in_before_that(self) -> None:
        leader = a_leader(a_log(4), a_state(isr=(1, 2)), high_watermark=0)
        fetch(leader, 4, node=THIRD)
        assert leader.propose(2) is None
        fetch(leader, 4, node=OTHER)
        proposal = leader.propose(2)
        assert proposal is not None
        assert proposal.nodes == (1, 2, 3)

    def test_but_who_ends_a_lack_of_replicas_may_come_in(self) -> None:
        leader = a_leader(a_log(4), a_state(isr=(1,)), min_isr=2, high_watermark=0)
        fetch(leader, 3, node=THIRD)
        assert leader.propose(2) is None
        fetch(leader, 4, node=THIRD)
        proposal = leader.propose(2)
        assert proposal is not None
        assert proposal.nodes == (1, 3)


class TestTheInSyncSet:
    def test_who_is_late_is_taken_out(self) -> None:
        leader = a_leader()
        produce(leader, 2)
        fetch(leader, 2, node=OTHER, now_ms=LAG_MS)
        fetch(leader, 1, node=THIRD, now_ms=LAG_MS)
        assert leader.propose(LAG_MS) is None
        assert leader.next_deadline(LAG_MS - 1) == LAG_MS + 1
        proposal = leader.propose(LAG_MS + 1)
        assert proposal is not None
        assert [(one.node_id, one.broker_epoch) for one in proposal.isr] == [(1, 10), (2, 20)]
        assert (proposal.leader_epoch, proposal.partition_epoch) == (5, 0)

    def test_who_is_to_go_is_let_go_when_it_knows_who_leads(self) -> None:
        """The former leader, say: until it fetches nothing is committed without it."""
        leader = a_leader(state=a_state(removing=(3,)))
        produce(leader)
        fetch(leader, 1, node=OTHER)
        assert leader.propose(2) is None
        assert leader.high_watermark == 0
        fetch(leader, 0, node=THIRD)
        proposal = leader.propose(3)
        assert proposal is not None
        assert proposal.nodes == (1, 2)

    def test_who_is_to_go_stays_while_who_is_to_come_is_not_there(self) -> None:
        leader = a_leader(state=a_state(isr=(1, 3), removing=(3,)))
        produce(leader, 2)
        fetch(leader, 1, node=OTHER)
        fetch(leader, 2, node=THIRD)
        assert leader.propose(2) is None

    def test_who_keeps_pace_under_load_is_not_late(self) -> None:
        leader = a_leader()
        for now_ms in range(0, 3 * LAG_MS, 1000):
            produce(leader)
            for node in (OTHER, THIRD):
                fetch(leader, leader.log.log_end_offset - 1, node=node, now_ms=now_ms)
            assert leader.propose(now_ms) is None

    def test_a_proposed_member_counts_for_the_watermark(self) -> None:
        leader = a_leader(state=a_state(isr=(1, 2)))
        produce(leader, 2)
        fetch(leader, 2, node=OTHER)
        fetch(leader, 2, node=THIRD)
        proposal = leader.propose(1)
        assert proposal is not None
        produce(leader)
        fetch(leader, 3, node=OTHER)
        assert leader.high_watermark == 2
        leader.isr_answered(proposal, ErrorCode.INELIGIBLE_REPLICA, 2)
        assert leader.high_watermark == 3

    def test_a_member_that_has_less_than_is_committed_is_taken_out_at_once(self) -> None:
        leader = a_leader()
        produce(leader, 4)
        fetch(leader, 4, node=OTHER)
        fetch(leader, 4, node=THIRD)
        fetch(leader, 2, node=THIRD)
        proposal = leader.propose(2)
        assert proposal is not None
        assert proposal.nodes == (1, 2)
        assert leader.high_watermark == 4

    def test_a_former_life_of_a_node_is_not_taken_in(self) -> None:
        leader = a_leader(state=a_state(isr=(1, 2)))
        fetch(leader, 0, node=OTHER)
        said = a_fetch(0, node=THIRD, broker_epoch=29)
        leader.note_fetch(said, 1)
        assert leader.propose(1) is None
        leader.note_fetch(a_fetch(0, node=THIRD), 1)
        assert leader.propose(1) is not None
        assert leader.check_fetch(said) is ErrorCode.STALE_BROKER_EPOCH

    def test_a_replica_that_was_away_has_to_fetch_again(self) -> None:
        leader = a_leader(state=a_state(isr=(1, 2)))
        fetch(leader, 0, node=OTHER)
        fetch(leader, 0, node=THIRD)
        leader.follow(a_state(isr=(1, 2), replicas=(1, 2), partition_epoch=1), 2)
        assert leader.check_fetch(a_fetch(0, node=THIRD)) is ErrorCode.NOT_LEADER_OR_FOLLOWER
        leader.follow(a_state(isr=(1, 2), partition_epoch=2), 3)
        assert leader.propose(3) is None

    def test_who_was_sent_away_for_its_silence_has_to_speak_first(self) -> None:
        leader = a_leader()
        for node in (OTHER, THIRD):
            fetch(leader, 0, node=node)
        produce(leader)
        late_ms = LAG_MS + 2
        fetch(leader, 1, node=OTHER, now_ms=late_ms)
        proposal = leader.propose(late_ms)
        assert proposal is not None
        assert proposal.nodes == (1, 2)
        leader.isr_answered(proposal, ErrorCode.NONE, late_ms)
        leader.follow(a_state(isr=(1, 2), partition_epoch=1), late_ms)
        assert leader.high_watermark == 1
        fetch(leader, 1, node=OTHER, now_ms=late_ms)
        assert leader.propose(late_ms) is None
        fetch(leader, 1, node=THIRD, now_ms=late_ms + 1)
        assert leader.propose(late_ms + 1) is not None

    def test_who_still_has_what_was_deleted_has_to_let_go_first(self) -> None:
        leader = a_leader(a_log(4), a_state(isr=(1,)))
        leader.log.advance_start(Offset(2))
        flush(leader.log)
        flush(leader.log)
        fetch(leader, 4, node=OTHER)
        assert leader.propose(1) is None
        leader.note_fetch(a_fetch(4)._replace(log_start_offset=Offset(2)), 2)
        assert leader.propose(2) is not None


class TestAFollowersFetch:
    def test_epochs_are_checked(self) -> None:
        leader = a_leader()
        assert leader.check_fetch(a_fetch(0, epoch=4)) is ErrorCode.FENCED_LEADER_EPOCH
        assert leader.check_fetch(a_fetch(0, epoch=6)) is ErrorCode.UNKNOWN_LEADER_EPOCH
        assert leader.check_fetch(a_fetch(0, epoch=-1)) is ErrorCode.UNKNOWN_LEADER_EPOCH

    def test_a_log_that_parts_is_told_where(self) -> None:
        log = a_log(3, epoch=1)
        append(log, a_batch(), epoch=4)
        leader = a_leader(log)
        assert leader.check_fetch(a_fetch(5, last=1)) == EpochEnd(LeaderEpoch(1), Offset(3))
        assert leader.check_fetch(a_fetch(5, last=3)) == EpochEnd(LeaderEpoch(1), Offset(3))
        assert leader.check_fetch(a_fetch(3, last=1)) is None

    def test_beyond_an_empty_leader_there_is_nothing(self) -> None:
        leader = a_leader(a_log())
        assert leader.check_fetch(a_fetch(3, last=2)) == EpochEnd(LeaderEpoch(2), Offset(0))

    def test_who_ends_where_the_log_begins_starts_over_unless_it_may_be_elected(self) -> None:
        """The epochs of what was deleted are forgotten: it may have had other records there."""
        leader = a_leader(emptied(a_log(4)), a_state(isr=(1, 2)))
        assert leader.check_fetch(a_fetch(4, node=THIRD, last=0)) is ErrorCode.OFFSET_OUT_OF_RANGE
        assert leader.check_fetch(a_fetch(4, node=THIRD, last=-1)) is None
        assert leader.check_fetch(a_fetch(4, node=OTHER, last=0)) is None
        produce(leader)
        assert leader.check_fetch(a_fetch(4, node=THIRD, last=0)) is ErrorCode.OFFSET_OUT_OF_RANGE
        assert leader.check_fetch(a_fetch(5, node=THIRD, last=5)) is None
        leader.follow(a_state(isr=(1, 2), elr=(3,), partition_epoch=1), 2)
        assert leader.check_fetch(a_fetch(4, node=THIRD, last=0)) is None

    def test_who_ends_where_the_log_begins_is_waited_for_if_its_registration_is_news(self) -> None:
        """It may be out of the in-sync set by now, and we the last to hear of it."""
        leader = a_leader(emptied(a_log(4)))
        said = a_fetch(4, last=0, broker_epoch=99)
        assert leader.check_fetch(said) is ErrorCode.BROKER_ID_NOT_REGISTERED

    def test_who_has_fetched_before_keeps_what_is_deleted_from_the_log_meanwhile(self) -> None:
        log = a_log(4)
        leader = a_leader(log, a_state(isr=(1, 2)))
        fetch(leader, 3, node=THIRD)
        emptied(log)
        assert leader.check_fetch(a_fetch(4, node=THIRD, last=0)) is None
        restarted = a_fetch(4, node=THIRD, last=0, broker_epoch=99)
        assert leader.check_fetch(restarted) is ErrorCode.OFFSET_OUT_OF_RANGE

    def test_where_the_log_begins_within_a_segment_the_epochs_tell(self) -> None:
        log = a_log(4)
        log.advance_start(Offset(3))
        for _ in range(2):
            flush(log)
        leader = a_leader(log, a_state(isr=(1, 2)))
        assert log.log_start_offset == 3
        assert leader.check_fetch(a_fetch(3, node=THIRD, last=0)) is None

    def test_it_gets_what_is_not_committed_and_learns_what_is(self) -> None:
        leader = a_leader()
        produce(leader, 2, flushed=False)
        span = leader.read_to_end(Offset(0), max_bytes=1 << 20, at_least_one=True)
        assert isinstance(span, FileSpan)
        assert leader.has_news_for(OTHER)
        leader.told(OTHER)
        assert not leader.has_news_for(OTHER)

    def test_its_log_start_counts_for_the_low_watermark(self) -> None:
        leader = a_leader(a_log(4), a_state(isr=(1, 2)))
        fetch(leader, 4, node=OTHER)
        leader.log.advance_start(Offset(3))
        flush(leader.log)
        flush(leader.log)
        assert (leader.log.log_start_offset, leader.low_watermark) == (3, 0)
        said = a_fetch(4, last=0)._replace(log_start_offset=Offset(3))
        assert leader.note_fetch(said, 2)
        assert leader.low_watermark == 3


def test_a_reader_is_sent_to_a_replica_in_its_rack_that_has_what_it_asks_for() -> None:
    leader = a_leader(state=a_state(isr=(1, 2)))
    produce(leader, 3)
    fetch(leader, 2, node=OTHER)
    fetch(leader, 3, node=THIRD)
    chosen = [leader.choose_read_replica(f"rack{node}", Offset(2)) for node in (1, 2, 3, 4)]
    assert chosen == [None, NodeId(2), None, None]
    assert leader.choose_read_replica("rack2", Offset(3)) is None
    assert leader.choose_read_replica("", Offset(0)) is None


def test_a_leader_describes_who_lags() -> None:
    leader = a_leader()
    produce(leader, 3)
    fetch(leader, 1, node=OTHER)
    followers = leader.describe()["followers"]
    assert isinstance(followers, list)
    assert [(one["node_id"], one["lag"]) for one in followers] == [(2, 2), (3, None)]
    assert leader.replicas[0] == ME
