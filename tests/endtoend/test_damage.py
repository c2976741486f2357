"""Damaged files: nothing damaged is served, everything else is, and nothing is made worse.

A node with many partitions is filled once, then stopped or killed. Each partition suffers another
kind of damage while the node is down.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from tests.endtoend.damaging import (
    LOG_DAMAGE,
    SIDE_DAMAGE,
    batches_of,
    harmed_offsets,
    log_files,
)
from tests.endtoend.observing import assert_healthy, wait_until
from tests.support.node_driver import batch_of
from tests.support.node_process import StartNode, node_starter
from tests.support.raw_client import RawClient

from tidelog.log.marks import MarkFile
from tidelog.model.errors import ErrorCode
from tidelog.runtime.file_disk import FileDisk
from tidelog.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)

_RECORDS = 150
_PER_REQUEST = 10
_PARTITIONS = max(len(LOG_DAMAGE), len(SIDE_DAMAGE))
_SETTINGS = ("--set", "segment.bytes=4096", "--set", "index.interval.bytes=256")


def _value(partition: int, number: int) -> bytes:
    return b"%d/%d " % (partition, number) + bytes(number % 40)


def _batch(partition: int, number: int) -> bytes:
    return batch_of(
        _value(partition, number),
        timestamp=1_000_000 + 10 * number,
        producer_id=partition,
        producer_epoch=0,
        base_sequence=number,
    )


def _produce_to_all(client: RawClient, first: int) -> None:
    """A few batches for each partition, in one request."""
    partitions = [
        PartitionProduceData(
            index=partition,
            records=b"".join(
                _batch(partition, number) for number in range(first, first + _PER_REQUEST)
            ),
        )
        for partition in range(_PARTITIONS)
    ]
    topic = TopicProduceData(name="t", partition_data=partitions)
    request = ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[topic])
    answers = client.request(request, 9).responses[0].partition_responses
    assert {answer.error_code for answer in answers} == {ErrorCode.NONE}


@pytest.fixture(scope="module", params=["stopped", "killed"])
def filled(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory as a clean stop or a kill leaves it. It is to be copied."""
    data = tmp_path_factory.mktemp("filled") / "data"
    with node_starter() as start:
        node = start(data, *_SETTINGS)
        with RawClient(node) as client:
            client.create_topic("t", partitions=_PARTITIONS)
            for first in range(0, _RECORDS, _PER_REQUEST):
                _produce_to_all(client, first)
            wait_until(
                lambda: _marked_offsets(data) == {_RECORDS}, "all of it is marked as flushed"
            )
        if request.param == "stopped":
            assert node.stop() == 0
            assert (data / "clean-shutdown").exists()
        else:
            node.kill()
    return data


@pytest.fixture
def data(filled: Path, tmp_path: Path) -> Iterator[Path]:
    copy = tmp_path / "data"
    shutil.copytree(filled, copy)
    yield copy
    shutil.rmtree(copy)


def _marked_offsets(data: Path) -> set[int]:
    """What the flushed marks on disk say, over all partitions."""
    disk = FileDisk(data)
    directories = [path.relative_to(data) for path in data.glob("topics/*/*")]
    marks = [MarkFile(disk, str(directory)).load() for directory in directories]
    return {mark.flushed_offset if mark else -1 for mark in marks}


def _directory(data: Path, partition: int) -> Path:
    return next(data.glob("topics/t.*")) / str(partition)


def _check_partition(client: RawClient, partition: int, harmed: list[int]) -> None:
    values, unreadable = client.read_around_damage("t", partition)
    assert unreadable == harmed
    intact = [offset for offset in range(_RECORDS) if offset not in harmed]
    assert values == {offset: _value(partition, offset) for offset in intact}
    for offset in intact[::50]:
        assert client.end_offset("t", partition, timestamp=1_000_000 + 10 * offset) == offset


def test_damage_in_the_log_costs_what_was_damaged_and_nothing_else(
    start_node: StartNode, data: Path
) -> None:
    random = Random(7)
    harmed: dict[int, list[int]] = {}
    for partition, (name, damage) in enumerate(LOG_DAMAGE.items()):
        directory = _directory(data, partition)
        before = batches_of(directory)
        damage(directory, random)
        harmed[partition] = harmed_offsets(before, directory)
        assert harmed[partition], f"{name} did no damage"
    logs = {path: path.read_bytes() for path in data.glob("topics/*/*/*.log")}
    node = start_node(data, *_SETTINGS)
    for _ in range(2):
        with RawClient(node) as client:
            for partition, name in enumerate(LOG_DAMAGE):
                try:
                    _check_partition(client, partition, harmed[partition])
                except AssertionError as wrong:
                    raise AssertionError(f"{name}: {wrong}") from wrong
            client.fetch("t", _RECORDS, max_wait_ms=1100)  # what was found is reported by now
        for path, content in logs.items():
            assert path.read_bytes() == content, f"{path} was changed"
        for partition, name in enumerate(LOG_DAMAGE):
            assert f"t-{partition}: " in node.log, f"{name} was not reported"
        assert_healthy(node)
        node.kill()
        node.restart()


def test_writing_goes_on_behind_damage(start_node: StartNode, data: Path) -> None:
    random = Random(8)
    for partition, damage in enumerate(LOG_DAMAGE.values()):
        damage(_directory(data, partition), random)
    node = start_node(data, *_SETTINGS)
    with RawClient(node) as client:
        for partition in range(len(LOG_DAMAGE)):
            assert client.end_offset("t", partition) == _RECORDS
            assert client.must_produce("t", b"new", partition=partition) == _RECORDS
    node.kill()
    node.restart()
    with RawClient(node) as client:
        for partition in range(len(LOG_DAMAGE)):
            values, _ = client.read_around_damage("t", partition)
            assert values[_RECORDS] == b"new"
    assert_healthy(node)


def test_damage_beside_the_log_costs_nothing(start_node: StartNode, data: Path) -> None:
    random = Random(9)
    for partition, damage in enumerate(SIDE_DAMAGE.values()):
        damage(_directory(data, partition), random)
    node = start_node(data, *_SETTINGS)
    with RawClient(node) as client:
        for partition, name in enumerate(SIDE_DAMAGE):
            try:
                _check_partition(client, partition, [])
                _check_producer(client, partition)
            except AssertionError as wrong:
                raise AssertionError(f"{name}: {wrong}") from wrong
    assert node.stop() == 0
    assert_no_trace(node.log)


def _check_producer(client: RawClient, partition: int) -> None:
    """The idempotent producer is still known: a repeat is recognized, a gap refused."""
    again = client.produce_batch("t", _batch(partition, _RECORDS - 1), partition=partition)
    assert (again.error_code, again.base_offset) == (ErrorCode.NONE, _RECORDS - 1)
    gap = client.produce_batch("t", _batch(partition, _RECORDS + 5), partition=partition)
    assert gap.error_code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    following = client.produce_batch("t", _batch(partition, _RECORDS), partition=partition)
    assert (following.error_code, following.base_offset) == (ErrorCode.NONE, _RECORDS)


@pytest.mark.parametrize("seed", [1, 2])
def test_random_flips_are_never_served(start_node: StartNode, data: Path, seed: int) -> None:
    random = Random(seed)
    harmed: dict[int, list[int]] = {}
    for partition in range(_PARTITIONS):
        directory = _directory(data, partition)
        before = batches_of(directory)
        for _ in range(random.randrange(1, 12)):
            path = random.choice(log_files(directory))
            content = bytearray(path.read_bytes())
            content[random.randrange(len(content))] ^= 1 << random.randrange(8)
            path.write_bytes(content)
        harmed[partition] = harmed_offsets(before, directory)
    node = start_node(data, *_SETTINGS)
    with RawClient(node) as client:
        for partition in range(_PARTITIONS):
            values, unreadable = client.read_around_damage("t", partition)
            assert unreadable == harmed[partition], partition
            assert all(values[offset] == _value(partition, offset) for offset in values)
    assert_healthy(node)


def assert_no_trace(log: str) -> None:
    assert "Traceback" not in log, log


def test_a_torn_tail_above_the_mark_is_cut(start_node: StartNode, data: Path) -> None:
    """What a crash leaves: half a batch that nobody was told of, zeros, rubbish."""
    random = Random(10)
    (data / "clean-shutdown").unlink(missing_ok=True)
    tails = [_batch(0, _RECORDS)[:-10], bytes(3000), random.randbytes(500), b"\0"]
    for partition, tail in enumerate(tails):
        path = log_files(_directory(data, partition))[-1]
        path.write_bytes(path.read_bytes() + tail)
    node = start_node(data, *_SETTINGS)
    with RawClient(node) as client:
        for partition in range(len(tails)):
            _check_partition(client, partition, [])
            assert client.must_produce("t", b"new", partition=partition) == _RECORDS
            assert f"t-{partition}: " in node.log
    assert_healthy(node)
