"""A full disk: writing is refused, reading goes on, and writing comes back by itself."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.endtoend.observing import assert_healthy, attempts
from tests.endtoend.small_disk import SmallDisk, small_disk
from tests.support.node_driver import batch_of
from tests.support.node_process import RunningNode, StartNode
from tests.support.raw_client import RawClient

from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest

_FULL = ErrorCode.KAFKA_STORAGE_ERROR
_SMALL_SEGMENTS = ("--set", "segment.bytes=65536")


@pytest.fixture(params=["mounted", "claimed"])
def disk(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[SmallDisk]:
    with small_disk(request.param, tmp_path, monkeypatch) as disk:
        yield disk


def _produce_until_refused(client: RawClient, size: int) -> dict[int, bytes | None]:
    """What was acknowledged. A disk is full for large records first."""
    acknowledged: dict[int, bytes | None] = {}
    for number in range(10_000):
        value = b"%d " % number + bytes(size)
        answer = client.produce("t", value)
        if answer.error_code is not ErrorCode.NONE:
            assert (answer.error_code, answer.base_offset) == (_FULL, -1)
            return acknowledged
        acknowledged[answer.base_offset] = value
    raise AssertionError("the disk never was full")


def _produce_until_taken(client: RawClient, value: bytes) -> int:
    for _ in attempts("writing comes back"):
        answer = client.produce("t", value)
        if answer.error_code is ErrorCode.NONE:
            break
        assert answer.error_code is _FULL
    return answer.base_offset


def _fill_up(node: RunningNode, disk: SmallDisk) -> dict[int, bytes | None]:
    """Some records, then a full disk; gives what was acknowledged."""
    with RawClient(node) as client:
        client.create_topic("t")
        acknowledged: dict[int, bytes | None] = {
            client.must_produce("t", b"%d " % number + bytes(3000)): b"%d " % number + bytes(3000)
            for number in range(50)
        }
        disk.fill()
        for size in (30_000, 1000, 1):
            acknowledged |= _produce_until_refused(client, size)
        assert client.read("t") == acknowledged
    return acknowledged


def test_writing_is_refused_reading_goes_on_and_writing_resumes_without_a_restart(
    start_node: StartNode, disk: SmallDisk
) -> None:
    node = start_node(disk.path / "data", *_SMALL_SEGMENTS)
    acknowledged = _fill_up(node, disk)
    with RawClient(node) as client:
        topic = CreatableTopic(name="new", num_partitions=1, replication_factor=1)
        created = client.request(CreateTopicsRequest(topics=[topic])).topics[0].error_code
        assert created in (_FULL, ErrorCode.NONE)  # a small record may still fit
        client.fetch("t", len(acknowledged), max_wait_ms=1100)  # marks and indexes are due
        disk.free()
        assert _produce_until_taken(client, b"back") == len(acknowledged)
        acknowledged[len(acknowledged)] = b"back"
        for number in range(100):
            acknowledged[client.must_produce("t", bytes(number))] = bytes(number)
        client.create_topic("newer")
        assert client.read("t") == acknowledged
    assert node.stop() == 0
    node.restart()
    with RawClient(node) as client:
        assert client.read("t") == acknowledged
    assert_healthy(node)


@pytest.mark.parametrize("ending", ["kill", "stop"])
def test_a_node_restarts_on_a_full_disk_and_serves_what_is_there(
    start_node: StartNode, disk: SmallDisk, ending: str
) -> None:
    node = start_node(disk.path / "data", *_SMALL_SEGMENTS)
    acknowledged = _fill_up(node, disk)
    if ending == "kill":
        node.kill()
    else:
        assert node.stop() == 0
    for _ in range(3):
        node.restart()
        with RawClient(node) as client:
            assert client.read("t") == acknowledged
        assert_healthy(node)
        node.kill()
    node.restart()
    with RawClient(node) as client:
        assert client.read("t") == acknowledged
        assert client.produce("t", bytes(60_000)).error_code is _FULL
        disk.free()
        assert _produce_until_taken(client, b"back") == len(acknowledged)
        client.create_topic("new")
        acknowledged[len(acknowledged)] = b"back"
    node.kill()
    node.restart()
    with RawClient(node) as client:
        assert client.read("t") == acknowledged
    assert_healthy(node)


def test_an_idempotent_producer_goes_on_where_it_was_refused(
    start_node: StartNode, disk: SmallDisk
) -> None:
    """A refused batch takes no sequence number."""
    node = start_node(disk.path / "data")
    with RawClient(node) as client:
        client.create_topic("t")
        producer_id, epoch = client.init_producer_id()

        def batch(number: int) -> bytes:
            return batch_of(
                b"%d" % number + bytes(20_000),
                producer_id=producer_id,
                producer_epoch=epoch,
                base_sequence=number,
            )

        for number in range(10):
            assert client.produce_batch("t", batch(number)).base_offset == number
        disk.fill()
        for _ in range(3):
            assert client.produce_batch("t", batch(10)).error_code is _FULL
        disk.free()
        for _ in attempts("writing comes back"):
            if client.produce_batch("t", batch(10)).error_code is ErrorCode.NONE:
                break
        for number in (10, 11, 11):
            assert client.produce_batch("t", batch(number)).base_offset == number
        assert len(client.read("t")) == 12
    assert_healthy(node)


def test_a_first_start_on_a_full_disk_is_refused_in_one_line(
    start_node: StartNode, disk: SmallDisk
) -> None:
    disk.fill()
    with pytest.raises(Exception, match="No space left on device") as refusal:
        start_node(disk.path / "data")
    assert "Traceback" not in str(refusal.value)
