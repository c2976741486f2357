"""What a leader believes of a follower that names in its fetches only what has changed."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.support.followed_node import BROKER_EPOCH, TOPIC, FollowedNode, node_record

from tidelog.broker.fetch_sessions import CONSUMERS, FetchPlan, FetchSessions, SessionReader
from tidelog.metadata.records import ConfigRecord
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NodeId
from tidelog.partition.progress import Progress
from tidelog.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
    ReplicaState,
)

LAG_MS = 30_000
STEP_MS = 500


class Follower:
    """Node 2's end of a session, in a test's hand."""

    def __init__(self, node: FollowedNode, *, node_id: int = 2, epoch: int = BROKER_EPOCH) -> None:
        self._node = node
        self.node_id = node_id
        self.broker_epoch = epoch
        self.connection = node.connect()
        self.session_id = self.epoch = 0

    def request(
        self,
        *changed: tuple[int, int],
        forgotten: tuple[int, ...] = (),
        wait_ms: int = 0,
        leader_epoch: int = 1,
    ) -> FetchRequest:
        """`changed` are partitions with their new offsets."""
        named = [
            FetchPartition(
                partition=partition,
                fetch_offset=offset,
                current_leader_epoch=leader_epoch,
                last_fetched_epoch=1 if offset else -1,
                log_start_offset=0,
                partition_max_bytes=1 << 20,
            )
            for partition, offset in changed
        ]
        topic_id = self._node.topic_id
        left_out = [ForgottenTopic(topic_id=topic_id, partitions=list(forgotten))]
        return FetchRequest(
            replica_state=ReplicaState(replica_id=self.node_id, replica_epoch=self.broker_epoch),
            max_wait_ms=wait_ms,
            min_bytes=1,
            session_id=self.session_id,
            session_epoch=self.epoch,
            topics=[FetchTopic(topic_id=topic_id, partitions=named)] if named else [],
            forgotten_topics_data=left_out if forgotten else [],
        )

    def ask(self, *changed: tuple[int, int], **options: Any) -> int:
        """A fetch whose answer may come later."""
        request = self.request(*changed, **options)
        self.epoch += 1
        return self._node.submit(request, version=17, connection=self.connection)

    def fetch(self, *changed: tuple[int, int], **options: Any) -> dict[int, PartitionData]:
        """What is answered at once, by partition."""
        response = self._node.responses[self.ask(*changed, **options)]
        assert isinstance(response, FetchResponse)
        assert response.error_code is ErrorCode.NONE
        self.session_id = response.session_id
        return {
            data.partition_index: data for topic in response.responses for data in topic.partitions
        }

    def refused(self, *changed: tuple[int, int], **options: Any) -> ErrorCode:
        error: ErrorCode = self._node.responses[self.ask(*changed, **options)].error_code
        return error

    def go_on(self, milliseconds: float) -> None:
        """The session is used, and there is nothing to say."""
        for _ in range(int(milliseconds / STEP_MS)):
            self._node.now_ms += STEP_MS
            assert self.fetch() == {}

    def progress(self, partition: int = 0) -> Progress:
        return self._node.leader(partition).progress[NodeId(self.node_id)]


@pytest.fixture
def node(tmp_path: Path) -> FollowedNode:
    return FollowedNode(tmp_path, flush_policy="os")


def caught_up(node: FollowedNode, partitions: int = 2, **options: Any) -> Follower:
    """It has nothing, there is nothing, and it knows that."""
    node.lead(partitions, **options)
    follower = Follower(node)
    follower.fetch(*((partition, 0) for partition in range(partitions)))
    assert follower.fetch() == {}
    return follower


def test_who_goes_on_with_its_session_stays_in_sync_though_it_names_nothing(
    node: FollowedNode,
) -> None:
    follower = caught_up(node)
    follower.go_on(2 * LAG_MS)
    node.append(0)
    assert node.proposals() == []
    assert follower.progress().caught_up_ms == node.now_ms
    follower.fetch()
    node.now_ms += LAG_MS - STEP_MS
    follower.fetch()
    assert node.proposals() == []
    node.now_ms += 2 * STEP_MS
    follower.fetch()
    assert [proposal.nodes for proposal in node.proposals()] == [(1,)]


def test_who_uses_its_session_no_longer_is_taken_out_when_there_is_more(node: FollowedNode) -> None:
    caught_up(node)
    node.now_ms += LAG_MS + 1
    node.append(0)
    node.now_ms += LAG_MS / 2
    assert [proposal.key.partition for proposal in node.proposals()] == [0]


def test_a_forgotten_partition_does_not_live_on_with_its_session(node: FollowedNode) -> None:
    """Its fetcher has dropped it, for whatever reason: the session says nothing of it."""
    follower = caught_up(node)
    assert follower.fetch(forgotten=(1,)) == {}
    at_ms = node.now_ms
    follower.go_on(LAG_MS + STEP_MS)
    node.append(0)
    node.append(1)
    assert list(follower.fetch()) == [0]
    assert follower.progress(1).caught_up_ms == at_ms
    node.now_ms += LAG_MS / 2
    assert [proposal.key.partition for proposal in node.proposals()] == [1]


def test_what_was_said_in_another_leader_epoch_is_said_to_nobody(node: FollowedNode) -> None:
    follower = caught_up(node)
    node.append(0)
    follower.fetch()
    follower.fetch((0, 1))
    node.lead(2, epoch=2)
    assert {data.error_code for data in follower.fetch().values()} == {
        ErrorCode.FENCED_LEADER_EPOCH
    }
    follower.fetch()
    assert [follower.progress(partition).fetch_offset for partition in (0, 1)] == [-1, -1]
    assert follower.progress().session is None
    follower.fetch((0, 1), leader_epoch=2)
    assert [follower.progress(partition).fetch_offset for partition in (0, 1)] == [1, -1]


def test_what_can_not_be_ends_what_was_said_before(node: FollowedNode) -> None:
    follower = caught_up(node)
    at_ms = node.now_ms
    node.now_ms += STEP_MS
    assert follower.fetch((0, 9))[0].diverging_epoch.epoch >= 0
    node.now_ms += STEP_MS
    follower.fetch()
    assert follower.progress().fetched_ms == at_ms


def test_a_record_is_given_until_the_follower_names_it(node: FollowedNode) -> None:
    follower = caught_up(node)
    node.append(1)
    assert [len(follower.fetch()) for _ in range(2)] == [1, 1]
    assert follower.fetch((1, 1))[1].high_watermark == 1
    assert follower.fetch() == {}


def test_an_answer_that_was_not_taken_is_given_again_when_it_names_the_partition(
    node: FollowedNode,
) -> None:
    follower = caught_up(node)
    node.append(0)
    follower.fetch()
    follower.fetch((0, 1))
    assert follower.fetch() == {}
    assert follower.fetch((0, 1))[0].high_watermark == 1


def test_only_the_incarnation_that_opened_a_session_goes_on_with_it(node: FollowedNode) -> None:
    follower = caught_up(node)
    for other in (Follower(node, node_id=3), Follower(node, epoch=BROKER_EPOCH + 1)):
        other.session_id, other.epoch = follower.session_id, follower.epoch
        assert other.refused() is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        other.epoch = 0
        assert other.refused((0, 5)) is ErrorCode.NONE, "it may open one of its own"
    assert follower.fetch() == {}


def test_a_newer_incarnation_silences_the_session_of_the_older(node: FollowedNode) -> None:
    follower = caught_up(node)
    node.commit(node_record(2, epoch=BROKER_EPOCH + 1))
    newer = Follower(node, epoch=BROKER_EPOCH + 1)
    newer.fetch((0, 0))
    assert follower.fetch()[0].error_code is ErrorCode.STALE_BROKER_EPOCH
    assert follower.progress().broker_epoch == BROKER_EPOCH + 1
    assert newer.fetch() == {}


def test_a_long_poll_ends_with_data_and_with_a_watermark(node: FollowedNode) -> None:
    follower = caught_up(node)
    waiting = follower.ask(wait_ms=500)
    assert waiting not in node.responses
    node.append(1)
    (topic,) = node.responses[waiting].responses
    assert [data.partition_index for data in topic.partitions] == [1]
    told = node.responses[follower.ask((1, 1), wait_ms=500)].responses[0].partitions[0]
    assert (told.high_watermark, len(told.records)) == (1, 0)
    waiting = follower.ask(wait_ms=500)
    assert waiting not in node.responses
    node.advance(500)
    assert node.responses[waiting].responses == []


def test_another_epoch_than_the_next_is_refused(node: FollowedNode) -> None:
    follower = caught_up(node)
    follower.epoch += 1
    assert follower.refused() is ErrorCode.INVALID_FETCH_SESSION_EPOCH


def test_the_session_that_is_used_has_the_last_word(node: FollowedNode) -> None:
    """A request that was given up arrives late, on a connection of its own."""
    follower, late = caught_up(node), Follower(node)
    node.append(0)
    follower.fetch()
    follower.fetch((0, 1))
    assert follower.fetch() == {}
    late.fetch((0, 0))
    assert follower.progress().fetch_offset == 0
    node.now_ms += STEP_MS
    follower.fetch()
    assert (follower.progress().fetch_offset, follower.progress().fetched_ms) == (1, node.now_ms)
    late.fetch(forgotten=(0,))
    follower.fetch()
    assert follower.progress().session is not None


def test_a_long_poll_that_is_woken_does_not_take_another_sessions_word_for_its_own(
    node: FollowedNode,
) -> None:
    follower, other = caught_up(node), Follower(node)
    waiting = follower.ask(wait_ms=60_000)
    other.fetch((0, 0))
    assert other.fetch() == {}
    node.node.state.advanced[node.replica()] = None
    node.advance(0)  # it looks, and there is no news: the other session was told
    assert waiting not in node.responses
    node.advance(60_000)
    other.go_on(STEP_MS)
    follower.fetch()
    assert follower.progress().fetched_ms == node.now_ms
    node.now_ms += STEP_MS
    follower.fetch()
    assert follower.progress().fetched_ms == node.now_ms


def test_consumers_do_not_drive_out_the_sessions_of_followers(tmp_path: Path) -> None:
    node = FollowedNode(tmp_path, max_incremental_fetch_session_cache_slots="1")
    follower = caught_up(node)
    for _ in range(3):
        consumer = Follower(node, node_id=-1, epoch=-1)
        consumer.fetch((0, 0))
        assert consumer.session_id > 0
    assert follower.fetch() == {}


def test_followers_have_room_for_so_many_partitions_and_no_more() -> None:
    sessions = FetchSessions(max_sessions=2, max_partitions=5, random=Random(1))

    def opened(node_id: int, partitions: int) -> int:
        named = [
            FetchPartition(partition=n, fetch_offset=0, partition_max_bytes=1)
            for n in range(partitions)
        ]
        request = FetchRequest(
            max_wait_ms=0,
            min_bytes=1,
            session_epoch=0,
            topics=[FetchTopic(topic=TOPIC, partitions=named)],
        )
        plan = sessions.plan(request, SessionReader(node_id, 1))
        assert isinstance(plan, FetchPlan)
        sessions.validate()
        return plan.session_id

    assert opened(2, 6) == 0
    first = opened(2, 3)
    second = opened(3, 2)
    assert {session.session_id for session in sessions.sessions()} == {first, second}
    third = opened(4, 3)
    assert {session.session_id for session in sessions.sessions()} == {second, third}
    assert CONSUMERS not in {session.reader for session in sessions.sessions()}


def test_who_is_let_in_again_comes_in_sync_though_its_session_has_nothing_to_say(
    node: FollowedNode,
) -> None:
    node.lead(2, isr=(1,))
    node.commit(node_record(2, is_fenced=True))
    follower = Follower(node)
    follower.fetch((0, 0), (1, 0))
    follower.go_on(2 * STEP_MS)
    assert node.proposals() == []
    node.commit(node_record(2))
    assert [proposal.nodes for proposal in node.proposals()] == [(1, 2), (1, 2)]


def test_a_leader_that_has_its_session_again_says_who_is_in_sync(node: FollowedNode) -> None:
    node.lead(1, isr=(1,))
    replicas = node.node.state.replicas
    replicas.session_changed(is_alive=False)
    Follower(node).fetch((0, 0))
    assert node.proposals() == []
    replicas.session_changed(is_alive=True)
    assert [proposal.nodes for proposal in node.proposals()] == [(1, 2)]


def test_who_may_come_in_sync_by_another_setting_is_asked_for_at_once(node: FollowedNode) -> None:
    node.lead(1)
    node.append(0)
    node.lead(1, epoch=2, isr=(1, 3), replicas=(1, 2, 3))
    follower = Follower(node)
    follower.fetch((0, 1), leader_epoch=2)
    assert node.proposals() == [], "the leader does not know yet what is committed"
    setting = ConfigRecord(topic_id=node.topic_id, name="min.insync.replicas", value="3")
    node.commit(setting)
    assert [proposal.nodes for proposal in node.proposals()] == [(1, 2, 3)]


def test_a_leader_that_is_found_damaged_in_passing_resigns_soon(
    node: FollowedNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    follower = caught_up(node)
    node.append(0)
    follower.fetch()
    follower.fetch((0, 1))
    log = node.leader().log
    monkeypatch.setattr(log, "damage", ["a hole"])
    monkeypatch.setattr(log, "first_damaged_offset", lambda: 0)
    node.node.state.touched[node.replica()] = None
    assert node.proposals() == []
    node.advance(2_000)
    assert [proposal.nodes for proposal in node.proposals()] == [(2,)]


@pytest.mark.parametrize(
    ("error", "after_ms"), [(ErrorCode.NETWORK_EXCEPTION, 500), (ErrorCode.NONE, 2_000)]
)
def test_a_proposal_that_got_lost_is_made_again_though_nobody_fetches(
    node: FollowedNode, error: ErrorCode, after_ms: int
) -> None:
    node.lead(1, isr=(1,))
    Follower(node).fetch((0, 0))
    replicas = node.node.state.replicas
    (proposal,) = node.proposals()
    replicas.isr_answered(proposal, error, node.now_ms)
    due_ms = replicas.next_deadline()
    assert due_ms == node.now_ms + after_ms
    node.now_ms += after_ms
    assert node.proposals() == [proposal]


def test_a_watermark_that_waits_for_somebody_to_arrive_does_not_wait_for_ever(
    node: FollowedNode,
) -> None:
    """Node 3 is about to be in sync and is not heard of again."""
    node.lead(1, isr=(1, 2), replicas=(1, 2, 3))
    arriving, member = Follower(node, node_id=3), Follower(node)
    member.fetch((0, 0))
    node.leader().isr.partition_epoch += 1  # whoever it proposes, nothing comes of it
    for _ in range(2):
        arriving.fetch((0, 0))
    node.node.state.replicas.take_proposals(node.now_ms)
    node.append(0)
    node.leader().isr.uncertain = ()
    member.fetch((0, 0))
    member.fetch((0, 1))
    assert node.leader().high_watermark == 0
    for _ in range(3):
        node.now_ms += STEP_MS
        member.fetch()
    assert node.leader().high_watermark == 1
