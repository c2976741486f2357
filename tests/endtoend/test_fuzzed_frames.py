"""Thousands of requests that are odd or damaged, of every API and version, over real sockets."""

from __future__ import annotations

import pytest
from tests.endtoend.observing import Witness, assert_healthy
from tests.endtoend.odd_requests import OddRequests
from tests.support.node_process import StartNode
from tests.support.raw_client import ConnectionLost, RawClient

from tidelog.wire.messages.metadata import MetadataRequest

_FRAMES = 4000
_FRAMES_PER_CONNECTION = 5
_CONNECTIONS = 4


@pytest.mark.parametrize("seed", [1, 2])
def test_no_nonsense_stops_the_node_or_spoils_its_logs(
    start_node: StartNode, tmp_path_factory: pytest.TempPathFactory, seed: int
) -> None:
    small_segments = ("--set", "segment.bytes=4096", "--set", "index.interval.bytes=64")
    node = start_node(tmp_path_factory.mktemp("fuzz") / "data", *small_segments)
    witness = Witness(node)
    with RawClient(node) as client:
        client.create_topic("odd", partitions=3)
        known = client.request(MetadataRequest(topics=None)).topics
    odd = OddRequests(seed, topic_ids=[topic.topic_id for topic in known if topic.name == "odd"])
    for _ in range(_FRAMES // _FRAMES_PER_CONNECTION // _CONNECTIONS):
        connections = [RawClient(node) for _ in range(_CONNECTIONS)]
        for _ in range(_FRAMES_PER_CONNECTION):
            for connection in connections:
                try:
                    connection.send_bytes(odd.frame())
                except ConnectionLost:
                    pass
        witness.check()
        for connection in connections:
            connection.close()
    witness.close()
    assert node.stop() == 0
    node.restart()
    with RawClient(node) as client:
        ends = [client.end_offset("odd", partition) for partition in range(3)]
        assert all(end > 0 for end in ends), "the nonsense was not good enough"
        # Some of it may have deleted all records of a partition, as anybody may.
        assert any(client.read_batches("odd", partition) for partition in range(3))
    assert_healthy(node)
