"""Too many clients, too slow ones, and ones that never listen: the others do not notice."""

from __future__ import annotations

import resource
import socket
import struct
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from tests.endtoend.observing import (
    Witness,
    assert_healthy,
    open_descriptors,
    open_sockets,
    processor_seconds,
    resident_bytes,
    wait_until,
)
from tests.support.node_driver import batch_of
from tests.support.node_process import RunningNode, StartNode
from tests.support.raw_client import ConnectionLost, RawClient, fetch_request, patient_produce

from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.api_versions import ApiVersionsRequest
from tidelog.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic

_LENGTH = struct.Struct(">i")


@pytest.fixture(autouse=True)
def many_descriptors() -> Iterator[None]:
    """For the crowd itself, which lives in this process."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4096), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@contextmanager
def crowd(node: RunningNode, size: int) -> Iterator[list[socket.socket]]:
    """So many connections, as far as the node lets them in. They say nothing."""
    with ExitStack() as stack:
        sockets = []
        for _ in range(size):
            sock = stack.enter_context(socket.socket())
            sock.settimeout(30)
            sock.connect((node.host, node.port))
            sockets.append(sock)
        yield sockets


def is_refused(sock: socket.socket) -> bool:
    try:
        return not sock.recv(1)
    except ConnectionError:
        return True


def idle_processor_seconds(node: RunningNode, client: RawClient) -> float:
    """Processor time the node takes for one second of waiting."""
    client.create_topic("idle")
    before = processor_seconds(node)
    client.fetch("idle", 0, max_wait_ms=1000)
    return processor_seconds(node) - before


def test_hundreds_of_idle_connections_cost_little(node: RunningNode, witness: Witness) -> None:
    before = resident_bytes(node)
    with crowd(node, 700) as sockets:
        witness.check()
        frame = RawClient(node).encode(ApiVersionsRequest(), 0)
        for sock in sockets:
            sock.sendall(frame)
        for sock in sockets:
            assert sock.recv(4)
        witness.check()
        assert resident_bytes(node) < before + 700 * 64_000
    wait_until(lambda: open_sockets(node) < 20, "the connections are given back")


def test_a_slow_loris_is_waited_for_and_nobody_else_waits(
    node: RunningNode, witness: Witness
) -> None:
    frame = RawClient(node).encode(ApiVersionsRequest(), 0)
    with crowd(node, 200) as sockets:
        for number in range(len(frame) - 1):
            for sock in sockets:
                sock.send(frame[number : number + 1])
            witness.check()
        for sock in sockets:
            sock.send(frame[-1:])
            assert sock.recv(4)


def test_an_idle_connection_is_closed_in_the_end(start_node: StartNode, tmp_path: Path) -> None:
    """So is one that stopped within a frame, and one that does not read what it asked for."""
    node = start_node(tmp_path / "data", "--set", "connections.max.idle.ms=1000")
    with RawClient(node) as writer:
        writer.create_topic("t")
        for _ in range(20):
            writer.must_produce("t", bytes(900_000))
        before = open_sockets(node)
    with crowd(node, 2) as (silent, halfway), RawClient(node, receive_buffer_bytes=4096) as deaf:
        halfway.sendall(_LENGTH.pack(100) + b"half")
        deaf.send(fetch_request("t", 0), 12)
        deaf.receive_bytes(4)
        assert is_refused(silent)
        assert is_refused(halfway)
        wait_until(lambda: open_sockets(node) < before, "the deaf one is closed")
    assert_healthy(node)


def test_consumers_that_never_read_what_they_ask_for_cost_no_memory(
    node: RunningNode, witness: Witness
) -> None:
    """Large ranges stay in the file; of small ones, a few are in memory at a time."""
    with RawClient(node) as writer:
        writer.create_topic("small", partitions=60)
        writer.create_topic("large")
        for partition in range(60):
            writer.must_produce("small", bytes(250_000), partition=partition)
        for _ in range(20):
            writer.must_produce("large", bytes(1_000_000))
    partitions = [
        FetchPartition(partition=number, fetch_offset=0, partition_max_bytes=255_000)
        for number in range(60)
    ]
    small = FetchRequest(
        max_wait_ms=0, min_bytes=0, topics=[FetchTopic(topic="small", partitions=partitions)]
    )
    before = resident_bytes(node)
    deaf = [RawClient(node, receive_buffer_bytes=4096) for _ in range(60)]
    for number, client in enumerate(deaf):
        for _ in range(20):
            client.send(small if number % 2 else fetch_request("large", 0), 12)
    for client in deaf:
        client.receive_bytes(4)
    for _ in range(20):
        witness.check()
    assert resident_bytes(node) < before + 60 * 1_000_000
    for client in deaf:
        client.close()
    wait_until(lambda: open_sockets(node) < 20, "the connections are given back")


def test_connections_above_the_limit_are_closed_at_once(
    start_node: StartNode, tmp_path: Path
) -> None:
    node = start_node(tmp_path / "data", "--set", "max.connections=50")
    witness = Witness(node)
    with crowd(node, 300) as sockets:
        refused = sockets[49:]
        assert all(is_refused(sock) for sock in refused)
        witness.check()
        assert open_sockets(node) < 60
    for _ in range(100):
        try:
            with RawClient(node) as late:
                late.ping()
            break
        except ConnectionLost:
            continue
    else:
        pytest.fail("nobody is let in after the flood")
    witness.close()


def test_a_flood_that_comes_and_goes_starves_nobody(start_node: StartNode, tmp_path: Path) -> None:
    node = start_node(tmp_path / "data", "--set", "max.connections=50")
    witness = Witness(node)
    for _ in range(10):
        with crowd(node, 200):
            witness.check()
    witness.check()


@contextmanager
def few_descriptors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: int) -> Iterator[None]:
    """Nodes started within may have only so many descriptors, whatever this process may."""
    wrapper = tmp_path / "python"
    wrapper.write_text(f'#!/bin/sh\nulimit -n {limit}\nexec "{sys.executable}" "$@"\n')
    wrapper.chmod(0o755)
    with monkeypatch.context() as patch:
        patch.setattr(sys, "executable", str(wrapper))
        yield


@pytest.mark.parametrize("limit", [64, 200])
def test_running_out_of_descriptors_is_survived_without_spinning(
    start_node: StartNode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    with few_descriptors(tmp_path, monkeypatch, limit):
        node = start_node(tmp_path / "data")
    witness = Witness(node)
    with RawClient(node) as writer:
        writer.create_topic("wide", partitions=limit)
        produce_to_each(writer, limit, b"one")
        with crowd(node, 500):
            witness.check()
            assert idle_processor_seconds(node, writer) < 0.5
            produce_to_each(writer, limit, b"two")
            assert len(open_descriptors(node)) <= limit
        for partition in range(limit):
            assert writer.read("wide", partition) == {0: b"one", 1: b"two"}
    wait_until(lambda: can_ping(node), "new clients are let in again")
    witness.close()
    assert "read only" not in node.log


def produce_to_each(client: RawClient, partitions: int, value: bytes) -> None:
    for partition in range(partitions):
        client.send(patient_produce("wide", batch_of(value), partition=partition), 9)
    for _ in range(partitions):
        answer = client.receive().responses[0].partition_responses[0]
        assert answer.error_code is ErrorCode.NONE, answer


def can_ping(node: RunningNode) -> bool:
    try:
        with RawClient(node) as client:
            client.ping()
    except ConnectionLost:
        return False
    return True
