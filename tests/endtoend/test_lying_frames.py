"""Frames that lie about their size, their content or their meaning: the connection may go, the
node and everybody else stay."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from tests.endtoend.observing import (
    MAX_RESIDENT_BYTES,
    Witness,
    resident_bytes,
    wait_until,
)
from tests.support.node_driver import batch_of
from tests.support.node_process import RunningNode, StartNode
from tests.support.raw_client import ConnectionLost, RawClient, fetch_request

from tidelog.broker.apis.versions import SERVED
from tidelog.model.errors import ErrorCode
from tidelog.wire.batch import read_header, seal, write_header
from tidelog.wire.compression import Compression
from tidelog.wire.messages.api_versions import ApiVersionsRequest
from tidelog.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tidelog.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tidelog.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from tidelog.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tidelog.wire.records import Record, encode_batch

_REQUEST_MAX_BYTES = 104_857_600
_LENGTH = struct.Struct(">i")
_HEADER = struct.Struct(">hhih")


def test_a_length_that_no_request_has_ends_only_its_connection(
    node: RunningNode, witness: Witness
) -> None:
    for length in (-1, -(2**31), 0, 1, 7, _REQUEST_MAX_BYTES + 1, 2**31 - 1):
        with RawClient(node) as liar:
            liar.ping()
            liar.send_bytes(_LENGTH.pack(length))
            assert liar.is_closed_by_node(), length
        witness.check()


def test_a_lower_limit_on_requests_is_kept_to_the_byte(
    start_node: StartNode, tmp_path: Path
) -> None:
    node = start_node(tmp_path / "data", "--set", "socket.request.max.bytes=2048")
    frame = RawClient(node).encode(ApiVersionsRequest(), 0)[4:]
    with RawClient(node) as client:
        padded = frame + bytes(2048 - len(frame))
        client.send_bytes(_LENGTH.pack(2048) + padded)
        assert client.receive_frame()
        client.send_bytes(_LENGTH.pack(2049))
        assert client.is_closed_by_node()
    with RawClient(node) as client:
        client.ping()


def test_an_array_of_two_thousand_million_elements_costs_nothing(
    node: RunningNode, witness: Witness
) -> None:
    before = resident_bytes(node, "VmHWM")
    lies = (b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff\x0f", b"\x80\x80\x80\x80\x08")
    for served in SERVED.values():
        for version in range(max(served.min_version, served.first_handled), served.max_version + 1):
            for shift in range(6):
                with RawClient(node) as liar:
                    body = _HEADER.pack(served.key, version, 1, -1) + bytes(shift)
                    body += lies[shift % 3] * 8
                    liar.send_bytes(_LENGTH.pack(len(body)) + body)
        witness.check()
    assert resident_bytes(node, "VmHWM") < before + 20_000_000


def test_an_unknown_api_or_version_ends_only_its_connection(
    node: RunningNode, witness: Witness
) -> None:
    for api_key, version in [(0, 99), (0, -1), (1, 3), (3, 14), (4, 0), (999, 0), (-1, -1)]:
        with RawClient(node) as stranger:
            body = _HEADER.pack(api_key, version, 7, -1) + bytes(20)
            stranger.send_bytes(_LENGTH.pack(len(body)) + body)
            assert stranger.is_closed_by_node(), (api_key, version)
        witness.check()


def test_an_unknown_version_of_api_versions_is_answered_with_the_list(client: RawClient) -> None:
    body = _HEADER.pack(18, 77, 7, -1) + b"\0whatever"
    client.send_bytes(_LENGTH.pack(len(body)) + body)
    answer = client.receive_frame()
    assert struct.unpack_from(">ih", answer) == (7, ErrorCode.UNSUPPORTED_VERSION)
    client.ping()


def test_a_frame_may_come_byte_by_byte(client: RawClient) -> None:
    client.create_topic("t")
    frame = client.encode(fetch_request("t", 0), 12)
    for number in range(len(frame)):
        client.send_bytes(frame[number : number + 1])
    assert client.receive().responses[0].partitions[0].error_code is ErrorCode.NONE


def test_half_a_frame_and_then_nothing_leaves_nothing_behind(
    node: RunningNode, witness: Witness
) -> None:
    before = resident_bytes(node)
    for size in (3, 4, 5, 20, 100_000, 9_000_000):
        with RawClient(node) as quitter:
            quitter.send_bytes((_LENGTH.pack(10_000_000) + bytes(size))[: size + 4])
            quitter.send_bytes(b"")
    witness.check()
    wait_until(lambda: resident_bytes(node) < before + 60_000_000, "the memory is given back")


def test_memory_grows_with_what_was_sent_not_with_what_was_claimed(
    node: RunningNode, witness: Witness
) -> None:
    claimants = [RawClient(node) for _ in range(50)]
    for claimant in claimants:
        claimant.send_bytes(_LENGTH.pack(_REQUEST_MAX_BYTES) + bytes(10))
    witness.check()
    assert resident_bytes(node, "VmHWM") < 100_000_000
    for claimant in claimants:
        claimant.close()


def test_thousands_of_pipelined_requests_are_all_answered_in_order(
    node: RunningNode, witness: Witness
) -> None:
    with RawClient(node) as client:
        frames = b"".join(client.encode(ApiVersionsRequest(), 0) for _ in range(5000))
        client.send_bytes(frames)
        witness.check()
        for _ in range(5000):
            client.receive()


def test_a_client_that_asks_and_never_reads_is_not_read_from_either(
    node: RunningNode, witness: Witness
) -> None:
    """Its requests pile up in the kernel, not in the node."""
    with RawClient(node, receive_buffer_bytes=4096) as deaf:
        deaf.set_timeout(0.2)
        frames = b"".join(deaf.encode(MetadataRequest(topics=None)) for _ in range(1000))
        with pytest.raises(ConnectionLost, match="timed out"):
            for _ in range(2000):
                deaf.send_bytes(frames)
        witness.check()
        assert resident_bytes(node, "VmHWM") < 100_000_000


def test_a_topic_asked_for_ten_thousand_times_is_described_once(
    node: RunningNode, witness: Witness
) -> None:
    with RawClient(node) as greedy:
        greedy.create_topic("wide", partitions=100)
        asked = [MetadataRequestTopic(name="wide")] * 20_000
        response = greedy.request(MetadataRequest(topics=asked))
        assert [len(topic.partitions) for topic in response.topics] == [100]
    assert resident_bytes(node, "VmHWM") < 150_000_000


def test_fifty_thousand_names_in_one_request_take_no_quadratic_time(
    node: RunningNode, witness: Witness
) -> None:
    topics = [
        CreatableTopic(name=f"t{number}", num_partitions=0, replication_factor=1)
        for number in range(50_000)
    ]
    with RawClient(node) as greedy:
        response = greedy.request(CreateTopicsRequest(topics=topics))
        assert {topic.error_code for topic in response.topics} == {ErrorCode.INVALID_PARTITIONS}


def test_a_fetch_of_a_million_partitions_is_refused(node: RunningNode, witness: Witness) -> None:
    one = FetchPartition(partition=1, fetch_offset=0, partition_max_bytes=1)
    topics = [FetchTopic(topic="t", partitions=[one] * 900_000)]
    with RawClient(node) as greedy:
        greedy.send(FetchRequest(max_wait_ms=0, min_bytes=0, topics=topics), 4)
        assert greedy.is_closed_by_node()
    assert resident_bytes(node, "VmHWM") < 200_000_000


def test_a_partition_named_ten_thousand_times_in_a_fetch_is_read_once(
    node: RunningNode, witness: Witness
) -> None:
    """A hundred such fetches wait here, and each record that comes wakes them all."""
    one = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    topics = [FetchTopic(topic=Witness.TOPIC, partitions=[one] * 10_000)]
    patient = FetchRequest(max_wait_ms=600_000, min_bytes=1 << 30, max_bytes=1 << 30, topics=topics)
    with RawClient(node) as greedy:
        frame = greedy.encode(patient, 11)
        for _ in range(100):
            greedy.send_bytes(frame)
        for _ in range(10):
            witness.check()


def test_a_fetch_session_can_not_grow_without_end(node: RunningNode, witness: Witness) -> None:
    def fetch(session_id: int, epoch: int, first: int) -> FetchRequest:
        partitions = [
            FetchPartition(partition=number, fetch_offset=0, partition_max_bytes=1)
            for number in range(first, first + 40_000)
        ]
        return FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            session_id=session_id,
            session_epoch=epoch,
            topics=[FetchTopic(topic="t", partitions=partitions)],
        )

    with RawClient(node) as greedy:
        session_id = greedy.request(fetch(0, 0, 0), 12).session_id
        errors = [
            greedy.request(fetch(session_id, epoch, epoch * 40_000), 12).error_code
            for epoch in (1, 2, 3)
        ]
    assert errors == [ErrorCode.NONE, *[ErrorCode.FETCH_SESSION_ID_NOT_FOUND] * 2]


def _lying_batch(count: int, compression: Compression = Compression.NONE) -> bytes:
    batch = bytearray(batch_of(b"x"))
    header = read_header(batch)._replace(
        records_count=count, last_offset_delta=count - 1, attributes=int(compression)
    )
    write_header(batch, header)
    seal(batch)
    return bytes(batch)


@pytest.mark.parametrize("compression", [Compression.NONE, Compression.ZSTD])
def test_batches_that_claim_two_thousand_million_records_do_no_harm(
    node: RunningNode, compression: Compression
) -> None:
    with RawClient(node) as liar:
        liar.create_topic("t", index_interval_bytes="0")
        many = _lying_batch(2**31 - 1, compression) * 100
        assert liar.produce_batch("t", many).error_code is ErrorCode.INVALID_RECORD
        assert liar.must_produce("t", b"truth") == 0
        for _ in range(3):
            liar.produce_batch("t", _lying_batch(2**31 - 1, compression))
        end = liar.end_offset("t")
        assert liar.must_produce("t", b"truth") == end
        liar.fetch("t", end + 1, max_wait_ms=1100)
    assert node.stop() == 0
    node.restart()
    with RawClient(node) as client:
        assert client.end_offset("t") == end + 1
    assert "Traceback" not in node.log


def test_the_node_does_not_unpack_what_it_stores_and_serves(
    node: RunningNode, witness: Witness
) -> None:
    """Forty bombs of 50 MB each, in 2 MB."""
    records = [Record(offset=0, timestamp=0, value=bytes(50_000_000))]
    bomb = bytes(encode_batch(records, base_offset=0, compression=Compression.ZSTD))
    assert len(bomb) < 50_000
    with RawClient(node) as bomber:
        bomber.create_topic("bombs")
        for offset in range(40):
            answer = bomber.produce_batch("bombs", bomb)
            assert (answer.error_code, answer.base_offset) == (ErrorCode.NONE, offset)
        data = bomber.fetch("bombs", 0)
        assert isinstance(data.records, memoryview)
        assert len(data.records) == 40 * len(bomb)
    witness.check()
    assert resident_bytes(node, "VmHWM") < 60_000_000


def test_timestamps_that_lie_do_not_make_the_node_open_one_batch_after_another(
    node: RunningNode, witness: Witness
) -> None:
    """Each batch is small, claims to be late, and would take seconds to look through."""
    records = [Record(offset=0, timestamp=1_000)] * 90_000
    honest = encode_batch(records, base_offset=0, compression=Compression.ZSTD)
    lie = read_header(honest)._replace(max_timestamp=5_000)
    write_header(honest, lie)
    seal(honest)
    with RawClient(node) as liar:
        liar.create_topic("t")
        for _ in range(200):
            assert liar.produce_batch("t", bytes(honest)).error_code is ErrorCode.NONE
        assert liar.end_offset("t", timestamp=3_000) == 0


def test_looking_into_a_bomb_for_a_timestamp_has_a_limit(
    node: RunningNode, witness: Witness
) -> None:
    """The one place where the node opens a batch: ListOffsets by time."""
    records = [Record(offset=0, timestamp=1_000, value=bytes(300_000_000))]
    bomb = bytes(encode_batch(records, base_offset=0, compression=Compression.ZSTD))
    with RawClient(node) as bomber:
        bomber.create_topic("bombs")
        assert bomber.produce_batch("bombs", bomb).error_code is ErrorCode.NONE
        assert bomber.end_offset("bombs", timestamp=500) == 0
        asked = [ListOffsetsPartition(partition_index=0, timestamp=500)] * 1000
        topics = [ListOffsetsTopic(name="bombs", partitions=asked)]
        answer = bomber.request(ListOffsetsRequest(replica_id=-1, topics=topics))
        errors = {partition.error_code for partition in answer.topics[0].partitions}
        assert errors == {ErrorCode.INVALID_REQUEST}
    witness.check()
    assert resident_bytes(node, "VmHWM") < MAX_RESIDENT_BYTES
