"""A node among others: what its APIs say of partitions that have more replicas than itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest
from tests.support.node_driver import NodeDriver, batch_of, produce_request

from tidelog.broker.flushing import GATHER_MS
from tidelog.controller.decision import Decision
from tidelog.log.log import Log
from tidelog.metadata.records import (
    ConfigRecord,
    MetadataRecord,
    NodeRecord,
    PartitionRecord,
    ResourceConfigRecord,
)
from tidelog.metadata.states import BROKER
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NodeId, Offset
from tidelog.partition.fetcher import SendFetch
from tidelog.partition.isr import ProposeIsr
from tidelog.partition.replica import Replica
from tidelog.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from tidelog.wire.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
    ReplicaState,
)
from tidelog.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from tidelog.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

EARLIEST, LATEST = -2, -1
OTHER_EPOCH = 20


class Cluster(NodeDriver):
    """A node whose metadata names two others, which the test plays."""

    def assign(
        self,
        *,
        leader: int = 1,
        epoch: int = 1,
        isr: tuple[int, ...] = (1, 2, 3),
        replicas: tuple[int, ...] = (1, 2, 3),
    ) -> None:
        """Commit who keeps and leads the partition."""
        topic = self.node.state.image.topics["orders"]
        others = [
            NodeRecord(
                node_id=node, host=f"host{node}", port=9092, rack=f"r{node}", epoch=OTHER_EPOCH
            )
            for node in (2, 3)
        ]
        partition = PartitionRecord(
            topic_id=topic.topic_id,
            partition=0,
            replicas=list(replicas),
            isr=list(isr),
            leader=leader,
            leader_epoch=epoch,
        )
        decision = Decision([*others, partition], None)
        assert not isinstance(self.node.state.commit(decision, self.now), ErrorCode)
        self.advance(0)

    @property
    def replica(self) -> Replica:
        found = self.node.state.replicas.find("orders", 0)
        assert isinstance(found, Replica)
        return found

    @property
    def log(self) -> Log:
        return self.replica.log

    def fetch_as(
        self,
        node: int,
        offset: int,
        *,
        epoch: int = 1,
        last: int = -1,
        log_start_offset: int = 0,
        wait_ms: int = 0,
        rack: str = "",
        version: int = 15,
    ) -> int:
        """A follower's fetch, or a consumer's (-1). Its answer is in `responses`."""
        asked = FetchPartition(
            partition=0,
            current_leader_epoch=epoch,
            fetch_offset=offset,
            last_fetched_epoch=last,
            log_start_offset=log_start_offset,
            partition_max_bytes=1 << 20,
        )
        broker_epoch = OTHER_EPOCH if node >= 0 else -1
        topic_id = self.node.state.image.topics["orders"].topic_id
        request = FetchRequest(
            replica_id=node,
            replica_state=ReplicaState(replica_id=node, replica_epoch=broker_epoch),
            max_wait_ms=wait_ms,
            min_bytes=1,
            topics=[FetchTopic(topic="orders", topic_id=topic_id, partitions=[asked])],
            rack_id=rack,
        )
        return self.submit(request, version=version, connection=self.connect())

    def fetched_as(self, node: int, offset: int, **options: Any) -> PartitionData:
        response = self.responses[self.fetch_as(node, offset, **options)]
        data: PartitionData = response.responses[0].partitions[0]
        return data

    def list_offset(self, timestamp: int) -> tuple[ErrorCode, int]:
        asked = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
        topic = ListOffsetsTopic(name="orders", partitions=[asked])
        answer = self.request(ListOffsetsRequest(replica_id=-1, topics=[topic]))
        found = answer.topics[0].partitions[0]
        return found.error_code, found.offset

    def look_into_log(
        self, *, leader_epoch: int = -1, isolation: int = 0
    ) -> tuple[ErrorCode, int, int]:
        """As Kafka's tools do, of any replica."""
        asked = ListOffsetsPartition(
            partition_index=0, current_leader_epoch=leader_epoch, timestamp=LATEST
        )
        topic = ListOffsetsTopic(name="orders", partitions=[asked])
        request = ListOffsetsRequest(replica_id=-2, isolation_level=isolation, topics=[topic])
        found = self.request(request).topics[0].partitions[0]
        return found.error_code, found.offset, found.leader_epoch

    def submit_produce(self, *values: bytes, acks: int = -1, version: int = 9) -> int:
        request = produce_request("orders", batch_of(*values), acks=acks)
        return self.submit(request, version=version, connection=self.connect())

    def produced(self, correlation: int) -> tuple[ErrorCode, int]:
        answer = self.responses[correlation].responses[0].partition_responses[0]
        return answer.error_code, answer.base_offset

    def fetches(self) -> list[SendFetch]:
        return self.node.state.replicas.following.next_fetches(self.now_ms)

    def proposals(self) -> list[ProposeIsr]:
        return self.node.state.replicas.take_proposals(self.now_ms)


@pytest.fixture
def node(tmp_path: Path) -> Cluster:
    driver = Cluster(tmp_path)
    driver.create_topic("orders")
    return driver


class TestLeading:
    def test_acks_all_is_answered_when_every_replica_in_sync_has_it(self, node: Cluster) -> None:
        node.assign()
        produce = node.submit_produce(b"x")
        one = node.submit_produce(b"y", acks=1)
        node.advance(GATHER_MS)  # so long its flush waits for the other client
        assert produce not in node.responses
        assert node.produced(one) == (ErrorCode.NONE, 1)
        node.fetch_as(2, 2, last=1)
        assert produce not in node.responses
        node.fetch_as(3, 1, last=1)
        assert node.produced(produce) == (ErrorCode.NONE, 0)

    def test_a_copy_in_the_making_gets_no_more_than_the_leaders_rate(self, node: Cluster) -> None:
        node.assign(isr=(1, 2))
        for _ in range(4):
            node.submit_produce(b"x" * 1000, acks=1)
        listed = "leader.replication.throttled.replicas"
        topic_id = node.node.state.image.topics["orders"].topic_id
        records: list[MetadataRecord] = [
            ConfigRecord(topic_id=topic_id, name=listed, value="0:1"),
            ResourceConfigRecord(
                resource_type=BROKER,
                resource_name="1",
                name="leader.replication.throttled.rate",
                value="1000",
            ),
        ]
        node.node.state.commit(Decision(records, None), node.now)
        node.advance(0)

        def has_got(follower: int, offset: int) -> int:
            data = node.fetched_as(follower, offset)
            assert data.error_code is ErrorCode.NONE
            return len(cast(bytes, data.records)) // 1000

        assert has_got(3, 0) == 1  # one batch always, which leaves a debt
        assert has_got(3, 1) == 0
        assert has_got(2, 0) == 4  # it is in sync: it never waits
        node.advance(300)
        assert has_got(3, 1) == 1
        waiting = node.fetch_as(3, 2, wait_ms=500)
        assert waiting not in node.responses
        node.advance(500)
        assert not node.responses[waiting].responses[0].partitions[0].records
        node.assign(epoch=2)
        assert len(cast(bytes, node.fetched_as(3, 2, epoch=2).records)) // 1000 == 2

    def test_a_followers_long_poll_ends_with_data_and_with_a_watermark(self, node: Cluster) -> None:
        node.assign(isr=(1, 2), replicas=(1, 2))
        node.fetch_as(2, 0)
        waiting = node.fetch_as(2, 0, wait_ms=500)
        assert waiting not in node.responses
        node.holds_flushes = True
        node.submit_produce(b"x")
        data = node.responses[waiting].responses[0].partitions[0]
        assert len(data.records) > 0
        assert data.high_watermark == 0
        waiting = node.fetch_as(2, 1, last=1, wait_ms=500)
        assert waiting not in node.responses
        node.finish_flushes()
        data = node.responses[waiting].responses[0].partitions[0]
        assert (data.high_watermark, len(data.records)) == (1, 0)

    def test_too_few_in_sync_are_refused_before_and_told_after(self, node: Cluster) -> None:
        topic = node.node.state.image.topics["orders"]
        record = ConfigRecord(topic_id=topic.topic_id, name="min.insync.replicas", value="2")
        node.node.state.commit(Decision([record], None), node.now)
        node.assign()
        waiting = node.submit_produce(b"x")
        node.assign(isr=(1,))
        assert node.produced(waiting) == (ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, -1)
        refused = node.submit_produce(b"y")
        assert node.produced(refused) == (ErrorCode.NOT_ENOUGH_REPLICAS, -1)
        assert node.log.log_end_offset == 1

    def test_consumers_wait_for_what_is_committed(self, node: Cluster) -> None:
        node.assign()
        node.submit_produce(b"x")
        data = node.fetched_as(-1, 0, version=12)
        assert (data.high_watermark, len(data.records)) == (0, 0)  # type: ignore[arg-type]
        assert len(node.fetched_as(2, 0).records) > 0  # type: ignore[arg-type]

    def test_a_new_leader_tells_no_end_before_it_knows_it(self, node: Cluster) -> None:
        node.produce("orders", b"x", b"y")
        node.assign()
        assert node.list_offset(LATEST) == (ErrorCode.NONE, 2)
        node.assign(leader=2, epoch=2)
        assert node.list_offset(LATEST)[0] is ErrorCode.NOT_LEADER_OR_FOLLOWER
        batch, now_ms = memoryview(bytearray(batch_of(b"z"))), node.now.wall_ms
        node.log.append(batch, leader_epoch=node.replica.leader_epoch, now_ms=now_ms)
        node.assign(leader=1, epoch=3)
        assert node.list_offset(LATEST) == (ErrorCode.OFFSET_NOT_AVAILABLE, -1)
        assert node.list_offset(EARLIEST) == (ErrorCode.NONE, 0)
        beyond = node.fetched_as(-1, 2, epoch=3, version=12)
        assert (beyond.error_code, beyond.high_watermark) == (ErrorCode.OFFSET_NOT_AVAILABLE, -1)
        assert node.fetched_as(-1, 0, epoch=3, version=12).high_watermark == -1
        node.advance(2000)
        for follower in (2, 3):
            node.fetch_as(follower, 3, epoch=3, last=2)
        assert node.list_offset(LATEST) == (ErrorCode.NONE, 3)

    def test_a_log_that_parts_is_told_where(self, node: Cluster) -> None:
        node.produce("orders", b"x")
        node.assign()
        node.submit_produce(b"y")
        data = node.fetched_as(2, 3, last=0)
        assert (data.diverging_epoch.epoch, data.diverging_epoch.end_offset) == (0, 1)
        assert node.fetched_as(2, 0, epoch=0).error_code is ErrorCode.FENCED_LEADER_EPOCH

    def test_a_follower_out_of_range_is_told_where_the_log_begins(self, node: Cluster) -> None:
        node.produce("orders", b"x", b"y")
        node.log.advance_start(Offset(2))
        node.node.state.wants_flush(node.replica)
        node.advance(2000)
        node.assign()
        data = node.fetched_as(2, 0)
        assert (data.error_code, data.log_start_offset) == (ErrorCode.OFFSET_OUT_OF_RANGE, 2)

    def test_records_are_deleted_when_they_are_with_all_in_sync(self, node: Cluster) -> None:
        node.produce("orders", b"x", b"y")
        node.assign(isr=(1, 2), replicas=(1, 2))
        node.fetch_as(2, 2, last=0)
        asked = DeleteRecordsPartition(partition_index=0, offset=1)
        topic = DeleteRecordsTopic(name="orders", partitions=[asked])
        deleting = node.submit(DeleteRecordsRequest(topics=[topic], timeout_ms=60_000))
        node.advance(1000)
        node.advance(1000)
        assert deleting not in node.responses
        node.fetch_as(2, 2, last=0, log_start_offset=1)
        answer = node.responses[deleting].topics[0].partitions[0]
        assert (answer.error_code, answer.low_watermark) == (ErrorCode.NONE, 1)

    def test_a_reader_is_sent_to_its_rack(self, node: Cluster) -> None:
        node.assign()
        for follower in (2, 3):
            node.fetch_as(follower, 0)
        assert node.fetched_as(-1, 0, rack="r3", version=12).preferred_read_replica == 3
        assert node.fetched_as(-1, 0, rack="r9", version=12).preferred_read_replica == -1

    def test_it_proposes_whom_to_count_in(self, node: Cluster) -> None:
        node.assign(isr=(1, 2))
        for follower in (2, 3):
            node.fetch_as(follower, 0)
        (proposal,) = node.proposals()
        assert proposal.nodes == (1, 2, 3)
        assert node.proposals() == []

    def test_without_a_session_it_answers_nobody(self, node: Cluster) -> None:
        replicas = node.node.state.replicas
        node.holds_flushes = True
        waiting = node.submit_produce(b"x")
        replicas.session_changed(is_alive=False)
        node.finish_flushes()
        assert waiting not in node.responses
        assert node.produced(node.submit_produce(b"y"))[0] is ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert node.list_offset(LATEST)[0] is ErrorCode.NOT_LEADER_OR_FOLLOWER
        replicas.session_changed(is_alive=True)
        node.node.state.roles_changed()
        node.advance(0)
        assert node.produced(waiting) == (ErrorCode.NONE, 0)


class TestFollowing:
    def test_a_deposed_leader_tells_who_waits_and_where_to_go(self, node: Cluster) -> None:
        node.assign()
        waiting = node.submit_produce(b"x", version=12)
        node.assign(leader=2, epoch=2)
        assert node.produced(waiting) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)
        response = node.responses[waiting]
        told = response.responses[0].partition_responses[0].current_leader
        assert (told.leader_id, told.leader_epoch) == (2, 2)
        assert [(one.node_id, one.host) for one in response.node_endpoints] == [(2, "host2")]
        data = node.fetched_as(3, 0, epoch=2, version=16)
        assert data.error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert data.current_leader.leader_id == 2

    def test_only_a_leader_says_where_epochs_end(self, node: Cluster) -> None:
        node.assign(leader=2, epoch=2)
        asked = OffsetForLeaderPartition(partition=0, leader_epoch=0)
        topic = OffsetForLeaderTopic(topic="orders", partitions=[asked])
        answer = node.request(OffsetForLeaderEpochRequest(topics=[topic]))
        error = answer.topics[0].partitions[0].error_code
        assert error is ErrorCode.NOT_LEADER_OR_FOLLOWER

    def test_it_fetches_appends_flushes_and_fetches_on(self, node: Cluster) -> None:
        node.produce("orders", b"x")
        records = bytes(node.fetched_as(-1, 0, epoch=-1, version=12).records)  # type: ignore[arg-type]
        node.assign(leader=2, epoch=2)
        (fetch,) = node.fetches()
        asked = fetch.request.topics[0].partitions[0]
        assert (fetch.source, asked.fetch_offset, asked.last_fetched_epoch) == (2, 1, 0)
        assert node.fetches() == []
        again = bytearray(records)
        again[:8] = (1).to_bytes(8, "big")
        data = PartitionData(
            partition_index=0, high_watermark=2, aborted_transactions=None, records=bytes(again)
        )
        topic = FetchableTopicResponse(topic_id=node.replica.key.topic_id, partitions=[data])
        state = node.node.state
        fetched = state.replicas.following.answered(
            node.now, fetch, FetchResponse(responses=[topic])
        )
        assert (fetched.written, fetched.moved) == ([node.replica.key], [node.replica.key])
        state.wants_flush(node.replica)
        assert node.fetches() == []
        node.advance(0)
        (following,) = node.fetches()
        assert following.request.topics[0].partitions[0].fetch_offset == 2
        assert node.replica.high_watermark == 2
        near = node.fetched_as(-1, 0, epoch=2, version=12)
        assert (near.high_watermark, near.error_code) == (2, ErrorCode.NONE)
        old = node.fetched_as(-1, 0, epoch=2, version=9)
        assert old.error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER

    def test_a_partition_that_moves_away_is_deleted_here(self, node: Cluster) -> None:
        directory = node.log.directory.path
        node.assign(leader=2, epoch=2, isr=(2, 3), replicas=(2, 3))
        assert not node.disk.exists(directory)
        assert NodeId(1) not in node.node.state.image.topics["orders"].partitions[0].replicas
        refused = node.submit_produce(b"x")
        assert node.produced(refused) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)
        node.assign(leader=2, epoch=3, isr=(2, 3), replicas=(2, 3, 1))
        assert node.replica.follower is not None

    def test_who_waits_at_a_partition_that_moves_away_is_not_told_that_nothing_happened(
        self, node: Cluster
    ) -> None:
        node.assign(isr=(1, 2), replicas=(1, 2))
        waiting = node.submit_produce(b"x")
        assert waiting not in node.responses
        node.assign(leader=2, epoch=2, isr=(2, 3), replicas=(2, 3))
        assert node.produced(waiting) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)

    def test_after_a_crash_it_waits_for_a_new_epoch(self, node: Cluster) -> None:
        node.assign(isr=(1, 2), replicas=(1, 2))
        node.restart()
        epoch = node.replica.leader_epoch
        assert node.replica.leader is None
        node.assign(epoch=epoch + 1, isr=(1, 2), replicas=(1, 2))
        assert node.replica.leader is not None


def test_any_replica_says_where_its_log_ends(node: Cluster) -> None:
    node.assign(isr=(1, 2))
    node.submit_produce(b"a", b"b")
    node.assign(leader=-1, epoch=3, isr=())
    assert node.list_offset(LATEST)[0] is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert node.look_into_log() == (ErrorCode.NONE, 2, 1)
    assert node.look_into_log(leader_epoch=3) == (ErrorCode.NONE, 2, 1)
    assert node.look_into_log(isolation=1) == (ErrorCode.NONE, 0, 1), "nothing is committed"


def test_a_replica_that_has_not_heard_of_a_leader_epoch_does_not_say_what_it_has(
    node: Cluster,
) -> None:
    node.assign(leader=2, epoch=3)
    error, offset, _ = node.look_into_log(leader_epoch=4)
    assert (error, offset) == (ErrorCode.UNKNOWN_LEADER_EPOCH, -1)
