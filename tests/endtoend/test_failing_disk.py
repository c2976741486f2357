"""A disk that fails. After a failed fsync nothing is known of what it was to save: no more
acknowledgements, ever, until a restart looks at what is really there. Reading goes on."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.endtoend.failing_disk import FailingDisk
from tests.endtoend.observing import assert_healthy, attempts, has_signal_pending, wait_until
from tests.support.node_driver import batch_of, produce_request
from tests.support.node_process import StartNode
from tests.support.raw_client import ConnectionLost, RawClient, fetch_request, opened

from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FailingDisk:
    disk = FailingDisk(tmp_path / "disk")
    disk.plug_in(monkeypatch)
    return disk


def test_no_ack_follows_a_failed_fsync_until_the_node_is_restarted(
    start_node: StartNode, tmp_path: Path, disk: FailingDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = start_node(tmp_path / "data")
    with RawClient(node) as client:
        client.create_topic("t", partitions=2)
        acknowledged = {client.must_produce("t", b"%d" % number): number for number in range(20)}
        disk.set("fail", True)
        assert client.produce("t", b"lost?").error_code is ErrorCode.KAFKA_STORAGE_ERROR
        disk.set("fail", False)
        for partition in (0, 1):
            for acks in (-1, 1):
                answer = client.produce("t", b"never", partition=partition, acks=acks)
                assert answer.error_code is ErrorCode.KAFKA_STORAGE_ERROR
                assert answer.base_offset == -1
        topic = CreatableTopic(name="new", num_partitions=1, replication_factor=1)
        created = client.request(CreateTopicsRequest(topics=[topic])).topics[0]
        assert created.error_code is ErrorCode.KAFKA_STORAGE_ERROR
        assert client.read("t") == {offset: b"%d" % n for offset, n in acknowledged.items()}
        assert client.end_offset("t") == 20
        client.send_unanswered(produce_request("t", batch_of(b"x"), acks=0), 9)
        assert client.is_closed_by_node()
    assert "read only" in node.log
    assert "Input/output error" in node.log
    assert_healthy(node)
    disk.unplug(monkeypatch)
    node.kill()
    node.restart()
    with RawClient(node) as client:
        values = client.read("t")
        for offset, number in acknowledged.items():
            assert values[offset] == b"%d" % number
        assert b"never" not in values.values()
        assert client.must_produce("t", b"again") == len(values)
    assert_healthy(node)


def test_a_stop_after_a_failed_fsync_leaves_no_clean_mark(
    start_node: StartNode, tmp_path: Path, disk: FailingDisk
) -> None:
    node = start_node(tmp_path / "data")
    with RawClient(node) as client:
        client.create_topic("t")
        disk.set("fail", True)
        assert client.produce("t", b"x").error_code is ErrorCode.KAFKA_STORAGE_ERROR
        disk.set("fail", False)
    node.stop()
    assert not (tmp_path / "data" / "clean-shutdown").exists()
    assert "Traceback" not in node.log


def test_a_flush_that_fails_while_the_node_stops_is_not_taken_for_a_success(
    start_node: StartNode, tmp_path: Path, disk: FailingDisk
) -> None:
    """The stop's own fsync of the same file would succeed: the kernel tells of an error once."""
    node = start_node(tmp_path / "data")
    with RawClient(node) as client:
        client.create_topic("t")
        client.must_produce("t", b"safe")
        disk.set("hold", True)
        client.send(produce_request("t", batch_of(b"lost"), timeout_ms=60_000), 9)
        wait_until(lambda: disk.is_waiting, "the flush is under way")
        node.process.terminate()
        wait_until(lambda: not has_signal_pending(node), "the signal has arrived")
        disk.set("hold", False)
        try:
            answer = client.receive().responses[0].partition_responses[0]
            assert answer.error_code is not ErrorCode.NONE
        except ConnectionLost:
            pass
    node.process.wait(120)
    assert not (tmp_path / "data" / "clean-shutdown").exists()
    assert "Traceback" not in node.log


def test_a_node_whose_disk_fails_at_the_start_says_so_in_one_line(
    start_node: StartNode, tmp_path: Path, disk: FailingDisk
) -> None:
    node = start_node(tmp_path / "data")
    node.kill()
    disk.set("fail", True)
    log_before = node.log
    with pytest.raises(Exception, match="Input/output error"):
        node.restart()
    said = node.log[len(log_before) :].strip()
    assert said.startswith("error:")
    assert "\n" not in said


def test_a_slow_fsync_holds_up_only_those_who_wait_for_it(
    start_node: StartNode, tmp_path: Path, disk: FailingDisk
) -> None:
    node = start_node(tmp_path / "data")
    with RawClient(node) as writer, RawClient(node) as reader:
        writer.create_topic("t")
        writer.must_produce("t", b"before")
        disk.set("slow", True)
        writer.send(produce_request("t", batch_of(b"slow"), timeout_ms=100), 9)
        wait_until(lambda: disk.is_waiting, "the flush is under way")
        assert reader.read("t") == {0: b"before"}, "a record is visible before it is durable"
        answer = writer.receive().responses[0].partition_responses[0]
        assert (answer.error_code, answer.base_offset) == (ErrorCode.REQUEST_TIMED_OUT, -1)
        reader.send(fetch_request("t", 1, max_wait_ms=600_000), 12)
        disk.set("slow", False)
        assert opened(reader.receive().responses[0].partitions[0]) == {1: b"slow"}
        assert writer.must_produce("t", b"after") == 2
    assert_healthy(node)


def test_a_file_that_can_not_be_read_is_an_error_for_who_asked_and_for_nobody_else(
    start_node: StartNode, tmp_path: Path, disk: FailingDisk
) -> None:
    node = start_node(tmp_path / "data")
    with RawClient(node) as client:
        client.create_topic("large")
        client.create_topic("small")
        for _ in range(20):
            client.must_produce("large", bytes(900_000))
        client.must_produce("small", b"x")
    assert node.stop() == 0
    node.restart()
    with RawClient(node) as client, RawClient(node, receive_buffer_bytes=4096) as slow_reader:
        slow_reader.send(fetch_request("large", 0), 12)
        size = int.from_bytes(slow_reader.receive_bytes(4), "big")
        disk.set("unreadable", True)
        assert client.fetch("small", 0).error_code is ErrorCode.KAFKA_STORAGE_ERROR
        client.ping()
        with pytest.raises(ConnectionLost):
            slow_reader.receive_bytes(size)
        disk.set("unreadable", False)
        assert client.read("small") == {0: b"x"}
        assert client.must_produce("small", b"y") == 1
        assert len(client.read("large")) == 20
    assert_healthy(node)


def test_what_does_not_stay_in_memory_is_read_all_the_same(
    start_node: StartNode, tmp_path: Path, disk: FailingDisk
) -> None:
    node = start_node(tmp_path / "data")
    with RawClient(node) as client:
        client.create_topic("t")
        for _ in range(3):
            client.must_produce("t", bytes(900_000))
        assert node.stop() == 0
    node.restart()
    disk.set("forgetful", True)
    with RawClient(node) as client:
        assert client.read("t") == dict.fromkeys(range(3), bytes(900_000))
        disk.set("unreadable", True)
        assert client.fetch("t", 0).error_code is ErrorCode.KAFKA_STORAGE_ERROR
        disk.set("unreadable", False)
        assert client.must_produce("t", b"more") == 3
    disk.set("forgetful", False)
    assert_healthy(node)


def test_a_data_directory_that_vanishes_is_an_error_and_not_a_crash(
    start_node: StartNode, tmp_path: Path
) -> None:
    node = start_node(tmp_path / "data", "--set", "segment.bytes=2048")
    with RawClient(node) as client:
        client.create_topic("t")
        client.must_produce("t", b"x")
        shutil.rmtree(tmp_path / "data")
        for _ in attempts("the disk's error is noticed"):
            answer = client.produce("t", bytes(1000))
            if answer.error_code is not ErrorCode.NONE:
                break
        assert answer.error_code is ErrorCode.KAFKA_STORAGE_ERROR
        topic = CreatableTopic(name="new", num_partitions=1, replication_factor=1)
        created = client.request(CreateTopicsRequest(topics=[topic])).topics[0]
        assert created.error_code is ErrorCode.KAFKA_STORAGE_ERROR
        client.ping()
    assert_healthy(node)
    node.stop()
    assert "Traceback" not in node.log
