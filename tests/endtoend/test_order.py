"""Answers come in the order of the requests, and who waits makes only himself wait."""

from __future__ import annotations

from tests.endtoend.observing import assert_healthy
from tests.support.node_driver import batch_of
from tests.support.node_process import RunningNode
from tests.support.raw_client import (
    LATEST,
    RawClient,
    fetch_request,
    list_offsets_request,
    opened,
    patient_produce,
)

from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tidelog.wire.messages.fetch import FetchResponse
from tidelog.wire.messages.produce import ProduceResponse

_LONG_MS = 600_000


def test_what_follows_a_waiting_fetch_waits_for_it(node: RunningNode, client: RawClient) -> None:
    client.create_topic("t")
    client.send(fetch_request("t", 0, max_wait_ms=_LONG_MS), 12)
    client.send(ApiVersionsRequest())
    client.send(ApiVersionsRequest())
    with RawClient(node) as other:
        other.ping()
        other.must_produce("t", b"at last")
    first = client.receive()
    assert isinstance(first, FetchResponse)
    assert opened(first.responses[0].partitions[0]) == {0: b"at last"}
    assert isinstance(client.receive(), ApiVersionsResponse)
    assert isinstance(client.receive(), ApiVersionsResponse)


def test_a_produce_behind_a_waiting_fetch_on_one_connection_ends_its_wait(
    client: RawClient,
) -> None:
    """Some clients have one connection for everything: it must not wait for itself."""
    client.create_topic("t")
    client.send(fetch_request("t", 0, max_wait_ms=_LONG_MS), 12)
    client.send(patient_produce("t", batch_of(b"mine")), 9)
    first, second = client.receive(), client.receive()
    assert isinstance(first, FetchResponse)
    assert opened(first.responses[0].partitions[0]) == {0: b"mine"}
    assert isinstance(second, ProduceResponse)
    assert second.responses[0].partition_responses[0].base_offset == 0


def test_a_fetch_that_waits_in_vain_is_answered_empty(client: RawClient) -> None:
    client.create_topic("t")
    client.send(fetch_request("t", 0, max_wait_ms=100), 12)
    client.send(ApiVersionsRequest())
    data = client.receive().responses[0].partitions[0]
    assert (data.error_code, bytes(data.records)) == (ErrorCode.NONE, b"")
    assert isinstance(client.receive(), ApiVersionsResponse)


def test_more_waiting_requests_than_one_connection_may_have_are_answered_in_the_end(
    node: RunningNode, client: RawClient
) -> None:
    """The node stops reading at 128 and goes on when there is room."""
    client.create_topic("t")
    for _ in range(500):
        client.send(fetch_request("t", 0, max_wait_ms=_LONG_MS), 12)
    with RawClient(node) as other:
        other.must_produce("t", b"for all")
    for _ in range(500):
        assert opened(client.receive().responses[0].partitions[0]) == {0: b"for all"}
    assert_healthy(node)


def test_waiting_clients_that_go_away_are_forgotten(node: RunningNode, client: RawClient) -> None:
    client.create_topic("t")
    for _ in range(200):
        with RawClient(node) as fleeting:
            fleeting.send(fetch_request("t", 0, max_wait_ms=_LONG_MS), 12)
    assert client.must_produce("t", b"x") == 0
    assert_healthy(node)


def test_no_acks_means_no_answer_and_an_error_ends_the_connection(
    node: RunningNode, client: RawClient
) -> None:
    client.create_topic("t")
    for number in range(100):
        value = b"%d" % number
        client.send_unanswered(patient_produce("t", batch_of(value), acks=0), 9)
    client.ping()
    assert client.must_produce("t", b"last") == 100
    assert client.read("t") == {
        **{number: b"%d" % number for number in range(100)},
        100: b"last",
    }
    client.send_unanswered(patient_produce("nowhere", batch_of(b"x"), acks=0), 9)
    assert client.is_closed_by_node()
    assert_healthy(node)


def test_a_read_behind_a_write_on_one_connection_sees_it(client: RawClient) -> None:
    """Sent without waiting for the write's answer, which is on its way to the disk."""
    client.create_topic("t")
    for number in range(20):
        client.send(patient_produce("t", batch_of(b"%d" % number)), 9)
        client.send(list_offsets_request("t", LATEST))
    for number in range(20):
        assert client.receive().responses[0].partition_responses[0].base_offset == number
        assert client.receive().topics[0].partitions[0].offset == number + 1
