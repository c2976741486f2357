"""What a connection may expect: answers in order, patience, an end when it waits for nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.node_driver import NodeDriver, batch_of, fetch_request, produce_request

from tidelog.broker.effects import CloseConnection, PauseReading, ResumeReading
from tidelog.broker.events import ConnectionClosed
from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.api_versions import ApiVersionsRequest


@pytest.fixture
def node(tmp_path: Path) -> NodeDriver:
    return NodeDriver(tmp_path)


def test_answers_leave_in_the_order_of_the_requests(node: NodeDriver) -> None:
    node.create_topic("orders")
    poll = node.submit(fetch_request(max_wait_ms=500), version=12)
    versions = node.submit(ApiVersionsRequest())
    assert versions not in node.responses
    node.advance(501)
    assert list(node.responses)[-2:] == [poll, versions]


def test_a_connection_with_too_many_waiting_requests_is_paused(tmp_path: Path) -> None:
    node = NodeDriver(tmp_path, max_inflight_requests_per_connection="4")
    node.create_topic("orders")
    node.effects.clear()
    for _ in range(4):
        node.submit(fetch_request(max_wait_ms=500), version=12)
    assert len(node.effects_of(PauseReading)) == 1
    node.advance(501)
    assert len(node.effects_of(ResumeReading)) == 1


def test_a_client_that_leaves_is_waited_for_no_more(node: NodeDriver) -> None:
    node.create_topic("orders")
    node.submit(fetch_request(max_wait_ms=500), version=12)
    node.step(ConnectionClosed(node.connection))
    assert len(node.node.state.pending) == 0
    assert node.node.describe()["connections"] == []


def test_an_unknown_version_of_api_versions_is_answered_with_the_list(node: NodeDriver) -> None:
    node._sent[node.connection, 77] = (18, 0)
    node.send_raw(b"\x00\x12\x00\x63\x00\x00\x00\x4d\xff\xff")
    response = node.responses[77]
    assert response.error_code is ErrorCode.UNSUPPORTED_VERSION
    assert {api.api_key for api in response.api_keys} >= {0, 1, 2, 3, 18}


@pytest.mark.parametrize(
    "frame",
    [
        b"\x03\xe7\x00\x00\x00\x00\x00\x01\xff\xff",
        b"\x00\x03\x00\x63\x00\x00\x00\x01\xff\xff",
        b"\x00\x00\x00\x01\x00\x00\x00\x01\xff\xff\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00",
        b"\x00\x03\x00\x01\x00\x00\x00\x01\xff\xff\x7f\xff\xff\xff",
        b"\x00\x03\x00\x0c\x00\x00",
        b"",
    ],
    ids=["unknown api", "unknown version", "produce v1", "lying array", "cut off", "empty"],
)
def test_nonsense_ends_the_connection_and_nothing_else(node: NodeDriver, frame: bytes) -> None:
    other = node.connect()
    node.send_raw(frame)
    assert [effect.connection for effect in node.effects_of(CloseConnection)] == [node.connection]
    assert node.request(ApiVersionsRequest(), connection=other).error_code is ErrorCode.NONE


def test_an_idle_connection_is_closed(node: NodeDriver) -> None:
    node.advance(600_002)
    assert [effect.reason for effect in node.effects_of(CloseConnection)] == ["idle"]


def test_a_connection_is_not_idle_while_it_waits_nor_just_after(node: NodeDriver) -> None:
    node.create_topic("orders")
    node.holds_flushes = True
    node.submit(produce_request("orders", batch_of(b"slow")), version=9)
    node.advance(600_002)
    node.finish_flushes()
    node.advance(2_000)
    assert node.effects_of(CloseConnection) == []
    node.advance(600_002)
    assert [effect.reason for effect in node.effects_of(CloseConnection)] == ["idle"]
