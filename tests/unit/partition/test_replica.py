"""One partition through its roles."""

from __future__ import annotations

from tests.unit.log.logs import a_batch, flush, settings
from tests.unit.partition.replicas import ME, OTHER, a_log, a_membership, a_state, an_answer, hear

from tidelog.log.disk import FileSpan
from tidelog.metadata.image import PartitionState
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NO_NODE, LeaderEpoch, Offset
from tidelog.partition.replica import Replica


def a_replica(state: PartitionState, *, records: int = 0, crashed_in: int = -1) -> Replica:
    return Replica(
        state,
        a_log(records),
        settings(),
        a_membership(),
        now_ms=0,
        crashed_in=LeaderEpoch(crashed_in),
    )


def test_the_image_gives_the_role() -> None:
    replica = a_replica(a_state(leader=ME))
    assert (replica.leader is not None, replica.follower) == (True, None)
    assert replica.follow(a_state(leader=OTHER, epoch=6), 1)
    assert (replica.leader, replica.follower is not None) == (None, True)
    assert replica.follow(a_state(leader=NO_NODE, epoch=7), 2)
    assert (replica.leader, replica.follower) == (None, None)
    assert replica.describe()["role"] == "offline"
    replica.validate()


def test_who_waits_for_a_leader_that_is_deposed_is_told_so() -> None:
    replica = a_replica(a_state(leader=ME))
    leader = replica.leader
    assert leader is not None
    replica.follow(a_state(leader=OTHER, epoch=6), 1)
    assert leader.ended is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert replica.append(a_batch(), 0).error is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_new_epoch_of_the_same_leader_is_another_leadership() -> None:
    replica = a_replica(a_state(leader=ME))
    first = replica.leader
    replica.follow(a_state(leader=ME, epoch=6), 1)
    assert replica.leader is not first
    assert first is not None
    assert first.ended is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_within_an_epoch_the_leadership_goes_on() -> None:
    replica = a_replica(a_state(leader=ME))
    first = replica.leader
    replica.follow(a_state(leader=ME, isr=(1,), partition_epoch=1), 1)
    assert replica.leader is first
    assert first is not None
    assert first.isr.committed == (1,)


def test_an_older_epoch_changes_nothing() -> None:
    replica = a_replica(a_state(leader=ME))
    assert not replica.follow(a_state(leader=OTHER, epoch=4), 1)
    assert replica.leader is not None


def test_what_is_known_of_the_watermark_goes_with_the_role() -> None:
    replica = a_replica(a_state(leader=OTHER), records=4)
    assert replica.follower is not None
    hear(replica.follower, an_answer(high_watermark=3))
    replica.follow(a_state(leader=ME, epoch=6), 1)
    assert replica.leader is not None
    assert (replica.high_watermark, replica.is_proven) == (3, False)


def test_after_a_crash_it_does_not_lead_on_in_the_same_epoch() -> None:
    replica = a_replica(a_state(leader=ME, epoch=5), crashed_in=5)
    assert (replica.leader, replica.follower) == (None, None)
    replica.follow(a_state(leader=ME, epoch=6), 1)
    assert replica.leader is not None


def test_a_follower_serves_what_it_knows_to_be_committed() -> None:
    replica = a_replica(a_state(leader=OTHER), records=4)

    def read(offset: int) -> FileSpan | ErrorCode | None:
        return replica.read(Offset(offset), max_bytes=1 << 20, at_least_one=True)

    assert read(0) is ErrorCode.OFFSET_NOT_AVAILABLE
    assert replica.follower is not None
    hear(replica.follower, an_answer(high_watermark=3))
    assert isinstance(read(2), FileSpan)
    assert read(3) is None
    assert read(4) is ErrorCode.OFFSET_NOT_AVAILABLE


def test_a_removed_replica_has_no_role_and_says_why() -> None:
    replica = a_replica(a_state(leader=ME))
    leader = replica.leader
    replica.removed()
    assert leader is not None
    assert leader.ended is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert not replica.follow(a_state(leader=ME, epoch=9), 1)
    flush(replica.log)
