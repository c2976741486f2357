"""The node as a machine: requests in, answers out, waits and wakes, stops and starts."""

from __future__ import annotations

from pathlib import Path
from random import Random
from uuid import UUID

import pytest
from tests.support.node_driver import NodeDriver, batch_of, fetch_request, produce_request

from tidelog.broker.configuration import NodeConfig
from tidelog.broker.effects import CloseConnection, Stop
from tidelog.broker.events import FlushDone
from tidelog.broker.node import Node
from tidelog.broker.start import StartRefused
from tidelog.log.disk import DiskError
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NodeId
from tidelog.testing.disk import FillableDisk, Room
from tidelog.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from tidelog.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tidelog.wire.messages.describe_cluster import DescribeClusterRequest
from tidelog.wire.messages.fetch import FetchRequest
from tidelog.wire.messages.init_producer_id import InitProducerIdRequest
from tidelog.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from tidelog.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tidelog.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tidelog.wire.records import Record, decode_records, encode_batch


@pytest.fixture
def node(tmp_path: Path) -> NodeDriver:
    return NodeDriver(tmp_path)


def values_of(response: object) -> list[bytes | None]:
    values: list[bytes | None] = []
    for topic in response.responses:  # type: ignore[attr-defined]
        for partition in topic.partitions:
            data = memoryview(partition.records)
            while data:
                size = int.from_bytes(data[8:12], "big") + 12
                values += [record.value for record in decode_records(data[:size], 1 << 20)]
                data = data[size:]
    return values


def latest(node: NodeDriver, topic: str = "orders", timestamp: int = -1) -> tuple[ErrorCode, int]:
    response = node.request(
        ListOffsetsRequest(
            replica_id=-1,
            topics=[
                ListOffsetsTopic(
                    name=topic,
                    partitions=[ListOffsetsPartition(partition_index=0, timestamp=timestamp)],
                )
            ],
        ),
        connection=node.connect(),
    )
    answer = response.topics[0].partitions[0]
    return answer.error_code, answer.offset


class TestProduce:
    def test_a_record_comes_back(self, node: NodeDriver) -> None:
        node.create_topic("orders")
        answer = node.produce("orders", b"one", b"two")
        assert (answer.error_code, answer.base_offset) == (ErrorCode.NONE, 0)
        assert node.produce("orders", b"three").base_offset == 2
        assert values_of(node.request(fetch_request(), version=12)) == [b"one", b"two", b"three"]

    def test_an_acknowledgement_waits_for_the_flush(self, node: NodeDriver) -> None:
        node.create_topic("orders")
        node.holds_flushes = True
        number = node.submit(produce_request("orders", batch_of(b"x")), version=9)
        assert number not in node.responses
        assert latest(node) == (ErrorCode.NONE, 0)
        node.finish_flushes()
        assert number in node.responses
        assert latest(node) == (ErrorCode.NONE, 1)

    def test_requests_during_a_flush_share_the_next(self, node: NodeDriver) -> None:
        node.create_topic("orders")
        node.holds_flushes = True
        numbers = [
            node.submit(produce_request("orders", batch_of(b"x")), version=9) for _ in range(5)
        ]
        assert len(node.held) == 1
        first = node.held.pop()
        for target in first.targets:
            target.sync()
        node.step(FlushDone(first.round))
        assert [number in node.responses for number in numbers] == [True] + [False] * 4
        assert len(node.held) == 1
        node.finish_flushes()
        assert all(number in node.responses for number in numbers)

    def test_under_policy_os_nothing_waits(self, tmp_path: Path) -> None:
        node = NodeDriver(tmp_path, flush_policy="os")
        node.create_topic("orders")
        node.produce("orders", b"x")
        node.holds_flushes = True
        assert node.produce("orders", b"y").error_code is ErrorCode.NONE
        assert node.held == []

    def test_acks_0_gets_no_answer_and_a_failure_closes(self, node: NodeDriver) -> None:
        node.create_topic("orders")
        number = node.submit(produce_request("orders", batch_of(b"x"), acks=0), version=9)
        assert number not in node.responses
        assert latest(node) == (ErrorCode.NONE, 1)
        node.submit(produce_request("nowhere", batch_of(b"x"), acks=0), version=9)
        assert len(node.effects_of(CloseConnection)) == 1

    @pytest.mark.parametrize(
        ("topic", "partition", "records", "acks", "error"),
        [
            ("nowhere", 0, batch_of(b"x"), -1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            ("orders", 7, batch_of(b"x"), -1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            ("orders", 0, batch_of(b"x"), 2, ErrorCode.INVALID_REQUIRED_ACKS),
            ("orders", 0, None, -1, ErrorCode.INVALID_RECORD),
            ("orders", 0, b"", -1, ErrorCode.INVALID_RECORD),
            ("orders", 0, batch_of(b"x")[:-1] + b"!", -1, ErrorCode.CORRUPT_MESSAGE),
            ("orders", 0, batch_of(b"x" * 2_000_000), -1, ErrorCode.MESSAGE_TOO_LARGE),
        ],
    )
    def test_a_bad_produce_is_refused_with_offset_minus_one(
        self,
        node: NodeDriver,
        topic: str,
        partition: int,
        records: bytes | None,
        acks: int,
        error: ErrorCode,
    ) -> None:
        node.create_topic("orders")
        request = produce_request(topic, records, partition=partition, acks=acks)
        response = node.request(request, version=9)
        answer = response.responses[0].partition_responses[0]
        assert (answer.error_code, answer.base_offset) == (error, -1)
        assert latest(node) == (ErrorCode.NONE, 0)

    def test_a_repeated_batch_is_answered_with_its_own_offset(self, node: NodeDriver) -> None:
        node.create_topic("orders")
        ids = node.request(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0))

        def send(sequence: int) -> tuple[ErrorCode, int]:
            batch = batch_of(
                b"a", producer_id=ids.producer_id, producer_epoch=0, base_sequence=sequence
            )
            response = node.request(produce_request("orders", batch), version=9)
            answer = response.responses[0].partition_responses[0]
            return answer.error_code, answer.base_offset

        assert [send(0), send(1), send(0), send(1)] == [(ErrorCode.NONE, n) for n in (0, 1, 0, 1)]
        assert send(5) == (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)
        assert latest(node) == (ErrorCode.NONE, 2)

    def test_a_produce_that_is_never_flushed_times_out(self, node: NodeDriver) -> None:
        node.create_topic("orders")
        node.holds_flushes = True
        number = node.submit(produce_request("orders", batch_of(b"x"), timeout_ms=100), version=9)
        node.advance(101)
        answer = node.responses[number].responses[0].partition_responses[0]
        assert (answer.error_code, answer.base_offset) == (ErrorCode.REQUEST_TIMED_OUT, -1)

    def test_after_a_failed_fsync_nothing_is_acknowledged_and_reads_go_on(
        self, node: NodeDriver
    ) -> None:
        node.create_topic("orders")
        node.produce("orders", b"safe")
        node.holds_flushes = True
        number = node.submit(produce_request("orders", batch_of(b"lost")), version=9)
        node.finish_flushes(DiskError("input/output error"))
        answer = node.responses[number].responses[0].partition_responses[0]
        assert (answer.error_code, answer.base_offset) == (ErrorCode.KAFKA_STORAGE_ERROR, -1)
        assert node.produce("orders", b"more").error_code is ErrorCode.KAFKA_STORAGE_ERROR
        assert node.create_topic("other").error_code is ErrorCode.KAFKA_STORAGE_ERROR
        assert node.held == []
        assert values_of(node.request(fetch_request(), version=12)) == [b"safe"]
        assert "read only" in node.reports[-1]


class TestFetch:
    def test_a_long_poll_is_woken_by_a_record(self, node: NodeDriver) -> None:
        node.create_topic("orders")
        other = node.connect()
        number = node.submit(fetch_request(max_wait_ms=500), version=12, connection=other)
        assert number not in node.responses
        node.produce("orders", b"news")
        assert values_of(node.responses[number]) == [b"news"]

    def test_a_long_poll_ends_empty_at_its_time(self, node: NodeDriver) -> None:
        node.create_topic("orders")
        number = node.submit(fetch_request(max_wait_ms=500), version=12)
        node.advance(499)
        assert number not in node.responses
        node.advance(2)
        assert values_of(node.responses[number]) == []

    def test_a_poll_for_many_bytes_waits_for_them(self, node: NodeDriver) -> None:
        node.create_topic("orders")
        other = node.connect()
        request = fetch_request(max_wait_ms=500, min_bytes=300)
        number = node.submit(request, version=12, connection=other)
        node.produce("orders", b"a" * 100)
        assert number not in node.responses
        node.produce("orders", b"b" * 100)
        assert len(values_of(node.responses[number])) == 2

    def test_a_fetch_in_the_middle_of_a_batch_gets_the_whole_batch(self, node: NodeDriver) -> None:
        node.create_topic("orders")
        node.produce("orders", b"one", b"two", b"three")
        response = node.request(fetch_request(offset=1), version=12)
        assert values_of(response) == [b"one", b"two", b"three"]

    @pytest.mark.parametrize("offset", [-1, 2, 100])
    def test_an_offset_outside_the_log_is_out_of_range(self, node: NodeDriver, offset: int) -> None:
        node.create_topic("orders")
        node.produce("orders", b"x")
        response = node.request(fetch_request(offset=offset, max_wait_ms=100), version=12)
        data = response.responses[0].partitions[0]
        assert data.error_code is ErrorCode.OFFSET_OUT_OF_RANGE
        assert data.records is not None
        assert len(data.records) == 0

    def test_a_topic_is_fetched_by_its_id(self, node: NodeDriver) -> None:
        topic_id = node.create_topic("orders").topic_id
        node.produce("orders", b"x")
        request = fetch_request(topic="")
        request.topics[0].topic_id = topic_id
        assert values_of(node.request(request, version=16)) == [b"x"]
        request.topics[0].topic_id = UUID(int=5)
        data = node.request(request, version=16).responses[0].partitions[0]
        assert data.error_code is ErrorCode.UNKNOWN_TOPIC_ID

    def test_an_epoch_that_is_not_ours_is_refused(self, node: NodeDriver) -> None:
        node.create_topic("orders")
        future = node.request(fetch_request(epoch=9), version=12).responses[0].partitions[0]
        assert future.error_code is ErrorCode.UNKNOWN_LEADER_EPOCH
        node.restart()
        past = node.request(fetch_request(epoch=0), version=12).responses[0].partitions[0]
        assert past.error_code is ErrorCode.FENCED_LEADER_EPOCH

    def test_a_session_names_its_partitions_once_and_hears_only_news(
        self, node: NodeDriver
    ) -> None:
        node.create_topic("orders", partitions=3)
        node.produce("orders", b"x")
        first = node.request(fetch_request(session_epoch=0, partitions=(0, 1, 2)), version=12)
        assert first.session_id > 0
        assert len(first.responses[0].partitions) == 3
        node.produce("orders", b"y")
        empty = FetchRequest(
            max_wait_ms=0, min_bytes=1, session_id=first.session_id, session_epoch=1, topics=[]
        )
        second = node.request(empty, version=12)
        assert [data.partition_index for data in second.responses[0].partitions] == [0]
        repeated = node.request(empty, version=12)
        assert repeated.error_code is ErrorCode.INVALID_FETCH_SESSION_EPOCH
        unknown = node.request(fetch_request(session_id=12345, session_epoch=4), version=12)
        assert unknown.error_code is ErrorCode.FETCH_SESSION_ID_NOT_FOUND

    def test_one_large_batch_is_given_although_it_exceeds_the_limit(self, node: NodeDriver) -> None:
        node.create_topic("orders", partitions=2)
        node.produce("orders", b"x" * 10_000)
        response = node.request(fetch_request(max_bytes=100, partitions=(0, 1)), version=12)
        assert values_of(response) == [b"x" * 10_000]


class TestTopics:
    def test_metadata_creates_a_topic_when_allowed(self, node: NodeDriver) -> None:
        def ask(allow: bool) -> ErrorCode:
            request = MetadataRequest(
                topics=[MetadataRequestTopic(name="auto")], allow_auto_topic_creation=allow
            )
            error: ErrorCode = node.request(request).topics[0].error_code
            return error

        assert ask(False) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert ask(True) is ErrorCode.NONE
        assert ask(False) is ErrorCode.NONE

    def test_two_clients_may_ask_for_the_same_new_topic_at_once(self, node: NodeDriver) -> None:
        node.holds_flushes = True
        request = MetadataRequest(topics=[MetadataRequestTopic(name="auto")])
        numbers = [node.submit(request), node.submit(request)]
        node.finish_flushes()
        topics = [node.responses[number].topics[0] for number in numbers]
        assert [topic.error_code for topic in topics] == [ErrorCode.NONE, ErrorCode.NONE]
        assert topics[0].topic_id == topics[1].topic_id

    def test_version_0_of_metadata_means_all_by_an_empty_list(self, node: NodeDriver) -> None:
        node.create_topic("orders")
        assert len(node.request(MetadataRequest(topics=[]), version=0).topics) == 1
        assert len(node.request(MetadataRequest(topics=[]), version=1).topics) == 0
        assert len(node.request(MetadataRequest(topics=None), version=1).topics) == 1

    def test_an_impossible_name_is_not_created(self, node: NodeDriver) -> None:
        response = node.request(MetadataRequest(topics=[MetadataRequestTopic(name="a b")]))
        assert response.topics[0].error_code is ErrorCode.INVALID_TOPIC_EXCEPTION

    @pytest.mark.parametrize(
        ("topic", "error"),
        [
            (CreatableTopic(name="", num_partitions=1, replication_factor=1), 17),
            (CreatableTopic(name="a/b", num_partitions=1, replication_factor=1), 17),
            (CreatableTopic(name="x" * 250, num_partitions=1, replication_factor=1), 17),
            (CreatableTopic(name="t", num_partitions=0, replication_factor=1), 37),
            (CreatableTopic(name="t", num_partitions=10**6, replication_factor=1), 37),
            (CreatableTopic(name="t", num_partitions=1, replication_factor=3), 38),
            (CreatableTopic(name="orders", num_partitions=1, replication_factor=1), 36),
            (
                CreatableTopic(
                    name="t",
                    num_partitions=1,
                    replication_factor=1,
                    configs=[CreatableTopicConfig(name="segment.bytes", value="many")],
                ),
                40,
            ),
            (
                CreatableTopic(
                    name="t",
                    num_partitions=1,
                    replication_factor=1,
                    configs=[CreatableTopicConfig(name="no.such.setting", value="1")],
                ),
                40,
            ),
        ],
    )
    def test_a_wrong_topic_is_refused_with_a_sentence(
        self, node: NodeDriver, topic: CreatableTopic, error: int
    ) -> None:
        node.create_topic("orders")
        result = node.request(CreateTopicsRequest(topics=[topic])).topics[0]
        assert result.error_code == error
        assert result.error_message

    def test_validate_only_creates_nothing(self, node: NodeDriver) -> None:
        topic = CreatableTopic(name="t", num_partitions=2, replication_factor=1)
        response = node.request(CreateTopicsRequest(topics=[topic], validate_only=True))
        assert response.topics[0].error_code is ErrorCode.NONE
        assert node.request(MetadataRequest(topics=None)).topics == []

    def test_a_topic_created_again_is_another_topic(self, node: NodeDriver) -> None:
        old_id = node.create_topic("orders").topic_id
        node.produce("orders", b"old")
        deleted = node.request(
            DeleteTopicsRequest(topics=[DeleteTopicState(topic_id=old_id)], timeout_ms=1000)
        )
        assert deleted.responses[0].error_code is ErrorCode.NONE
        assert latest(node)[0] is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert node.create_topic("orders").topic_id != old_id
        assert latest(node) == (ErrorCode.NONE, 0)
        node.restart()
        assert latest(node) == (ErrorCode.NONE, 0)

    def test_deleting_a_topic_answers_who_waits_for_it(self, node: NodeDriver) -> None:
        node.create_topic("orders")
        other = node.connect()
        number = node.submit(fetch_request(max_wait_ms=500), version=12, connection=other)
        node.request(DeleteTopicsRequest(topic_names=["orders"], timeout_ms=1000), version=5)
        data = node.responses[number].responses[0].partitions[0]
        assert data.error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def test_deleting_what_is_not_there_is_an_error(self, node: NodeDriver) -> None:
        request = DeleteTopicsRequest(
            topics=[
                DeleteTopicState(name="nowhere", topic_id=UUID(int=0)),
                DeleteTopicState(topic_id=UUID(int=7)),
            ],
            timeout_ms=1000,
        )
        errors = [result.error_code for result in node.request(request).responses]
        assert errors == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID]


class TestRestart:
    @pytest.mark.parametrize("is_clean", [True, False])
    def test_topics_records_and_identity_survive(self, node: NodeDriver, is_clean: bool) -> None:
        topic_id = node.create_topic("orders", partitions=2).topic_id
        node.produce("orders", b"kept")
        cluster_id = node.request(
            DescribeClusterRequest(include_cluster_authorized_operations=False)
        ).cluster_id
        if is_clean:
            node.stop()
            assert len(node.effects_of(Stop)) == 1
        node.restart()
        metadata = node.request(MetadataRequest(topics=None))
        assert metadata.cluster_id == cluster_id
        assert metadata.topics[0].topic_id == topic_id
        assert len(metadata.topics[0].partitions) == 2
        assert values_of(node.request(fetch_request(), version=12)) == [b"kept"]
        assert node.produce("orders", b"more").base_offset == 1

    def test_only_a_crash_begins_a_new_leader_epoch(self, node: NodeDriver) -> None:
        node.create_topic("orders")

        def epoch() -> int:
            topics = node.request(MetadataRequest(topics=None)).topics
            number: int = topics[0].partitions[0].leader_epoch
            return number

        assert epoch() == 0
        node.stop()
        node.restart()
        assert epoch() == 0
        node.restart()
        assert epoch() == 1

    def test_a_reader_learns_where_an_old_epoch_ended(self, node: NodeDriver) -> None:
        node.create_topic("orders")
        node.produce("orders", b"a", b"b")
        node.restart()
        node.produce("orders", b"c")
        request = OffsetForLeaderEpochRequest(
            topics=[
                OffsetForLeaderTopic(
                    topic="orders",
                    partitions=[OffsetForLeaderPartition(partition=0, leader_epoch=0)],
                )
            ]
        )
        answer = node.request(request).topics[0].partitions[0]
        assert (answer.leader_epoch, answer.end_offset) == (0, 2)

    def test_a_producer_id_is_never_given_twice(self, node: NodeDriver) -> None:
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0)
        ids = [node.request(request).producer_id for _ in range(3)]
        node.restart()
        ids += [node.request(request).producer_id for _ in range(3)]
        assert len(set(ids)) == 6

    def test_another_node_id_is_refused(self, node: NodeDriver) -> None:
        node.stop()
        other = Node(NodeConfig(node_id=NodeId(2), host="h", port=1), node.disk, Random(1))
        with pytest.raises(StartRefused, match="belongs to node 1"):
            other.start(node.now)

    def test_a_directory_that_no_record_explains_is_left_alone(
        self, node: NodeDriver, tmp_path: Path
    ) -> None:
        node.stop()
        orphan = tmp_path / "topics" / "lost.AAAAAAAAAAAAAAAAAAAAAA" / "0"
        orphan.mkdir(parents=True)
        (orphan / "00000000000000000000.log").write_bytes(b"precious")
        node.restart()
        assert any("left alone" in report for report in node.reports)
        assert (orphan / "00000000000000000000.log").read_bytes() == b"precious"

    def test_a_stop_answers_those_who_wait(self, node: NodeDriver) -> None:
        node.create_topic("orders")
        node.holds_flushes = True
        produce = node.submit(produce_request("orders", batch_of(b"x")), version=9)
        other = node.connect()
        fetch = node.submit(fetch_request(offset=1, max_wait_ms=500), version=12, connection=other)
        node.stop()
        answer = node.responses[produce].responses[0].partition_responses[0]
        assert (answer.error_code, answer.base_offset) == (ErrorCode.NONE, 0)
        assert fetch in node.responses


@pytest.mark.parametrize("first", [0, 1])
def test_what_follows_a_batch_that_found_no_room_waits_for_it(tmp_path: Path, first: int) -> None:
    """It was under way already, and there is room for it: but out of order would be a hard word."""
    room = Room()
    node = NodeDriver(tmp_path, FillableDisk(tmp_path, room))
    node.create_topic("orders")

    def produce(sequence: int) -> tuple[ErrorCode, int]:
        record = Record(offset=0, timestamp=1_000, value=b"one")
        batch = encode_batch(
            [record], base_offset=0, producer_id=7, producer_epoch=0, base_sequence=sequence
        )
        response = node.request(produce_request("orders", bytes(batch)), version=9)
        answer = response.responses[0].partition_responses[0]
        return answer.error_code, answer.base_offset

    assert [produce(n)[0] for n in range(first)] == [ErrorCode.NONE] * first
    room.is_full = True
    assert produce(first) == (ErrorCode.KAFKA_STORAGE_ERROR, -1)
    room.is_full = False
    assert produce(first + 1) == (ErrorCode.KAFKA_STORAGE_ERROR, -1)
    assert produce(first) == (ErrorCode.NONE, first)
    assert produce(first + 1) == (ErrorCode.NONE, first + 1)
