"""One client asks for very much at once, or for memory it never uses: the others are answered while
that goes on. Nothing here looks at how long something took, only at what came first."""

from __future__ import annotations

import socket
import struct
import threading
from contextlib import ExitStack
from pathlib import Path

from tests.endtoend.observing import Witness
from tests.support.node_process import RunningNode, StartNode
from tests.support.raw_client import ConnectionLost, RawClient

from tidelog.wire.messages.api_versions import ApiVersionsRequest
from tidelog.wire.messages.metadata import MetadataRequest, MetadataRequestTopic

_LENGTH = struct.Struct(">i")
_MEGABYTE = 1024 * 1024
_PIPELINED = 350
"""Of so short a request, all of them are in the node's buffer at once."""


class Reader:
    """Takes the answers to pipelined requests as they come, and counts them."""

    def __init__(self, client: RawClient, expected: int) -> None:
        self.count = 0
        self._client = client
        self._expected = expected
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def wait(self) -> None:
        self._thread.join()

    def _read(self) -> None:
        for _ in range(self._expected):
            self._client.receive_frame()
            self.count += 1


def test_a_client_is_answered_between_the_pipelined_requests_of_another(
    node: RunningNode, witness: Witness
) -> None:
    with RawClient(node) as greedy:
        greedy.create_topic("wide", partitions=2000)
        request = MetadataRequest(topics=[MetadataRequestTopic(name="wide")])
        greedy.send_bytes(greedy.encode(request) * _PIPELINED)
        reader = Reader(greedy, _PIPELINED)
        witness.check()
        answered = reader.count
        reader.wait()
    assert answered < _PIPELINED


def test_half_frames_leave_room_for_a_request_that_is_sent_whole(
    start_node: StartNode, tmp_path: Path
) -> None:
    node = start_node(tmp_path / "data", "--set", f"queued.max.request.bytes={110 * _MEGABYTE}")
    witness = Witness(node)
    with ExitStack() as stack, RawClient(node) as good:
        good.create_topic("large", max_message_bytes=str(4 * _MEGABYTE))
        for _ in range(8):
            half = stack.enter_context(RawClient(node))
            half.set_timeout(0.3)
            try:
                half.send_bytes(_LENGTH.pack(100 * _MEGABYTE) + bytes(50 * _MEGABYTE))
            except (TimeoutError, ConnectionLost):
                pass  # there is no room for more of it
        for _ in range(3):
            good.must_produce("large", bytes(2_700_000))
            witness.check()
    witness.close()


def test_a_frame_that_does_not_arrive_ends_its_connection_and_no_other(
    start_node: StartNode, tmp_path: Path
) -> None:
    setting = "socket.request.progress.timeout.ms=500"
    node = start_node(tmp_path / "data", "--set", setting)
    with RawClient(node) as silent, RawClient(node) as half:
        half.send_bytes(_LENGTH.pack(1000) + bytes(500))
        assert half.is_closed_by_node()
        assert "a request of 1004 bytes began and did not arrive" in node.log
        silent.ping()


def test_one_address_has_a_limit_of_its_own(start_node: StartNode, tmp_path: Path) -> None:
    node = start_node(tmp_path / "data", "--set", "max.connections.per.ip=2")
    with RawClient(node) as first, RawClient(node) as second:
        first.ping()
        second.ping()
        with RawClient(node) as third:
            assert third.is_closed_by_node()
        request = first.encode(ApiVersionsRequest(), 0)
        with socket.create_connection(
            (node.host, node.port), timeout=60, source_address=("127.0.0.2", 0)
        ) as elsewhere:
            elsewhere.sendall(request)
            assert elsewhere.recv(1)
