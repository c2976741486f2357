"""Faults on demand, and what real clients make of them."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]
from tests.support.eventually import attempts

from tidelog.testing import Node, NodeError
from tidelog.wire.messages import API_BY_KEY
from tidelog.wire.messages.api_versions import ApiVersionsRequest
from tidelog.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tidelog.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tidelog.wire.requests import decode_response, encode_request
from tidelog.wire.schema import schema_of

QUIET = {"log_level": 0, "reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 100}
VERSIONS = {"ApiVersions": 3, "Metadata": 9, "Fetch": 12}


@pytest.fixture
def node() -> Iterator[Node]:
    with Node() as node:
        node.create_topic("orders")
        yield node


class Sender:
    """An idempotent producer that remembers what became of its records."""

    def __init__(self, node: Node, **options: Any) -> None:
        self.errors: list[str] = []
        self.acknowledged = 0
        self._client = confluent_kafka.Producer(
            {
                "bootstrap.servers": node.bootstrap,
                "enable.idempotence": True,
                "linger.ms": 0,
                "retry.backoff.ms": 10,
                **QUIET,
                **options,
            }
        )

    def send(self, *values: str) -> None:
        for value in values:
            self._client.produce("orders", value.encode(), on_delivery=self._delivered)

    def wait(self) -> None:
        assert self._client.flush(60) == 0

    def give_up(self) -> None:
        """Send nothing again."""
        self._client.purge()
        self.wait()

    def serve_until_struck(self, fault: Any) -> None:
        for _ in attempts("the request"):
            if fault.hits:
                return
            self._client.poll(0.02)

    def _delivered(self, error: confluent_kafka.KafkaError | None, message: Any) -> None:
        if error is None:
            self.acknowledged += 1
        else:
            self.errors.append(error.name())


class Pipe:
    """One connection on which several requests may be under way."""

    def __init__(self, node: Node) -> None:
        self._socket = socket.create_connection((node.host, node.port), timeout=120)
        self._stream = self._socket.makefile("rb")
        self._asked: dict[int, tuple[int, int]] = {}

    def ask(self, request: Any) -> int:
        api_key = schema_of(type(request)).api_key
        assert api_key is not None
        version = VERSIONS[API_BY_KEY[api_key].name]
        number = len(self._asked) + 1
        self._asked[number] = (api_key, version)
        self._socket.sendall(
            encode_request(request, version, correlation_id=number, client_id="pipe")
        )
        return number

    def answer(self) -> tuple[int, Any]:
        size = int.from_bytes(self._stream.read(4), "big")
        frame = memoryview(self._stream.read(size))
        number = int.from_bytes(frame[:4], "big")
        return decode_response(*self._asked[number], frame)

    def has_answer(self) -> bool:
        self._socket.settimeout(0.1)
        try:
            return bool(self._socket.recv(1, socket.MSG_PEEK))
        except TimeoutError:
            return False
        finally:
            self._socket.settimeout(30)

    def close(self) -> None:
        self._stream.close()
        self._socket.close()


@pytest.fixture
def pipe(node: Node) -> Iterator[Pipe]:
    pipe = Pipe(node)
    yield pipe
    pipe.close()


def first_message(consumer: confluent_kafka.Consumer) -> Any:
    for _ in attempts("a message"):
        message = consumer.poll(1)
        if message is not None and message.error() is None:
            return message
    return None


def long_poll() -> FetchRequest:
    wanted = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)
    return FetchRequest(
        max_wait_ms=3_600_000,
        min_bytes=1,
        topics=[FetchTopic(topic="orders", partitions=[wanted])],
    )


def metadata_of_orders() -> MetadataRequest:
    return MetadataRequest(topics=[MetadataRequestTopic(name="orders")])


def values(node: Node) -> list[str]:
    return [message.text for message in node.records("orders")]


# --- fail -------------------------------------------------------------------------------------


def test_a_producer_tries_again_after_an_error_that_passes(node: Node) -> None:
    fault = node.fail("Produce", error="NOT_LEADER_OR_FOLLOWER", times=2)
    sender = Sender(node)
    sender.send("a", "b")
    sender.wait()
    assert fault.hits == 2
    assert sender.errors == []
    assert values(node) == ["a", "b"]


def test_a_refused_request_is_not_executed(node: Node) -> None:
    node.fail("Produce", error="TOPIC_AUTHORIZATION_FAILED")
    sender = Sender(node, **{"enable.idempotence": False})
    sender.send("a")
    sender.wait()
    assert sender.errors == ["TOPIC_AUTHORIZATION_FAILED"]
    assert values(node) == []


def test_a_fault_without_end_ends_when_healed(node: Node) -> None:
    fault = node.fail("Produce", error="NOT_LEADER_OR_FOLLOWER", times=None)
    sender = Sender(node)
    sender.send("a")
    sender.serve_until_struck(fault)
    node.heal()
    sender.wait()
    assert values(node) == ["a"]


def test_a_producer_without_acknowledgements_is_cut_off(node: Node) -> None:
    fault = node.fail("Produce", error="NOT_LEADER_OR_FOLLOWER")
    sender = Sender(node, **{"enable.idempotence": False, "acks": 0})
    sender.send("lost")
    sender.wait()
    sender.serve_until_struck(fault)
    for _ in attempts("a record on another connection"):
        sender.send("a")
        sender.wait()
        if values(node):
            break
    assert "lost" not in values(node)


@pytest.mark.parametrize(
    ("api", "error"),
    [
        ("Fetch", "NOT_LEADER_OR_FOLLOWER"),
        ("ListOffsets", "LEADER_NOT_AVAILABLE"),
        ("Metadata", "LEADER_NOT_AVAILABLE"),
        ("FindCoordinator", "COORDINATOR_NOT_AVAILABLE"),
        ("JoinGroup", "COORDINATOR_LOAD_IN_PROGRESS"),
        ("SyncGroup", "REBALANCE_IN_PROGRESS"),
        ("OffsetFetch", "COORDINATOR_LOAD_IN_PROGRESS"),
    ],
)
def test_a_consumer_lives_through_errors_of_every_step(node: Node, api: str, error: str) -> None:
    node.produce("orders", "a")
    fault = node.fail(api, error=error, times=1)
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": node.bootstrap,
            "group.id": "readers",
            "auto.offset.reset": "earliest",
            "retry.backoff.ms": 10,
            "topic.metadata.refresh.interval.ms": 500,
            **QUIET,
        }
    )
    consumer.subscribe(["orders"])
    assert first_message(consumer).value() == b"a"
    assert fault.hits == 1
    consumer.close()


def test_an_admin_call_is_refused_in_its_own_shape(node: Node) -> None:
    node.fail("CreateTopics", error="POLICY_VIOLATION")
    admin = AdminClient({"bootstrap.servers": node.bootstrap, **QUIET})
    future = admin.create_topics([NewTopic("forbidden", 1, 1)])["forbidden"]
    with pytest.raises(confluent_kafka.KafkaException) as caught:
        future.result(30)
    assert caught.value.args[0].name() == "POLICY_VIOLATION"
    with pytest.raises(NodeError, match="no topic"):
        node.records("forbidden")


def test_a_client_that_is_too_new_asks_again_in_the_oldest_version(node: Node) -> None:
    fault = node.fail("ApiVersions", error="UNSUPPORTED_VERSION", times=2)
    sender = Sender(node)
    sender.send("a")
    sender.wait()
    assert fault.hits == 2
    assert values(node) == ["a"]


def test_a_refusal_waits_for_its_turn(node: Node, pipe: Pipe) -> None:
    node.fail("Metadata", error="LEADER_NOT_AVAILABLE")
    first = pipe.ask(long_poll())
    second = pipe.ask(metadata_of_orders())
    assert not pipe.has_answer()
    node.produce("orders", "a")
    assert pipe.answer()[0] == first
    number, refused = pipe.answer()
    assert number == second
    assert refused.topics[0].error_code.name == "LEADER_NOT_AVAILABLE"


# --- delay and loss ---------------------------------------------------------------------------


def test_a_delayed_request_is_carried_out_when_its_time_comes(node: Node) -> None:
    fault = node.delay("Produce", ms=3_600_000)
    sender = Sender(node, **{"request.timeout.ms": 60_000, "message.timeout.ms": 120_000})
    sender.send("a")
    sender.serve_until_struck(fault)
    assert (sender.acknowledged, values(node)) == (0, [])
    node.advance(hours=1)
    sender.wait()
    assert (sender.acknowledged, values(node)) == (1, ["a"])


def test_what_a_connection_sends_after_a_delayed_request_waits_behind_it(
    node: Node, pipe: Pipe
) -> None:
    node.delay("Metadata", ms=60_000, times=2)
    order = [
        pipe.ask(ApiVersionsRequest()),
        pipe.ask(metadata_of_orders()),
        pipe.ask(ApiVersionsRequest()),
        pipe.ask(metadata_of_orders()),
        pipe.ask(ApiVersionsRequest()),
    ]
    assert pipe.answer()[0] == order[0]
    assert not pipe.has_answer()
    node.advance(minutes=1)
    assert [pipe.answer()[0] for _ in range(2)] == order[1:3]
    assert not pipe.has_answer()
    node.advance(minutes=1)
    assert [pipe.answer()[0] for _ in range(2)] == order[3:]


def test_a_short_delay_ends_by_itself(node: Node, pipe: Pipe) -> None:
    fault = node.delay("Metadata", ms=50)
    pipe.ask(metadata_of_orders())
    assert pipe.answer()[1].topics[0].name == "orders"
    assert fault.hits == 1


def test_a_crash_forgets_delayed_requests(node: Node) -> None:
    fault = node.delay("Produce", ms=3_600_000)
    sender = Sender(node)
    sender.send("a")
    sender.serve_until_struck(fault)
    node.crash()
    sender.give_up()
    assert len(sender.errors) == 1
    node.restart()
    node.advance(hours=2)
    assert values(node) == []


def test_a_lost_answer_makes_an_idempotent_producer_write_no_record_twice(node: Node) -> None:
    fault = node.lose_response("Produce", times=3)
    sender = Sender(node)
    sender.send("a", "b", "c")
    sender.wait()
    assert fault.hits == 3
    assert values(node) == ["a", "b", "c"]


def test_a_lost_answer_makes_a_plain_producer_write_a_record_twice(node: Node) -> None:
    node.lose_response("Produce")
    sender = Sender(node, **{"enable.idempotence": False})
    sender.send("a")
    sender.wait()
    assert values(node) == ["a", "a"]


# --- connections, disk, standstill ------------------------------------------------------------


def test_dropped_connections_are_reset_and_may_come_back(node: Node, pipe: Pipe) -> None:
    sender = Sender(node)
    sender.send("a")
    sender.wait()
    pipe.ask(long_poll())
    node.drop_connections()
    with pytest.raises((ConnectionResetError, ConnectionAbortedError)):
        pipe.answer()
        pipe.answer()
    sender.send("b")
    sender.wait()
    assert values(node) == ["a", "b"]


def test_a_full_disk_takes_no_records_and_gives_those_it_has(node: Node) -> None:
    node.produce("orders", "before")
    node.fill_disk()
    with pytest.raises(NodeError, match="KAFKA_STORAGE_ERROR"):
        node.produce("orders", "lost")
    with pytest.raises(NodeError, match="KAFKA_STORAGE_ERROR"):
        node.create_topic("more")
    assert values(node) == ["before"]
    sender = Sender(node)
    sender.send("after")
    node.free_disk()
    sender.wait()
    assert values(node) == ["before", "after"]


def test_a_disk_that_is_full_at_a_crash_loses_nothing(node: Node) -> None:
    node.produce("orders", "before")
    node.fill_disk()
    with pytest.raises(NodeError, match="KAFKA_STORAGE_ERROR"):
        node.produce("orders", "lost")
    node.crash()
    node.free_disk()
    node.restart()
    assert values(node) == ["before"]


def test_a_full_disk_stays_full_over_a_restart(node: Node) -> None:
    node.produce("orders", "before")
    node.fill_disk()
    node.crash()
    node.restart()
    assert values(node) == ["before"]
    with pytest.raises(NodeError, match="KAFKA_STORAGE_ERROR"):
        node.produce("orders", "lost")
    node.free_disk()
    node.produce("orders", "after")
    assert values(node) == ["before", "after"]


def test_a_paused_node_answers_when_it_is_resumed(node: Node, pipe: Pipe) -> None:
    node.pause()
    number = pipe.ask(metadata_of_orders())
    assert not pipe.has_answer()
    with pytest.raises(NodeError, match="paused"):
        node.produce("orders", "x")
    node.resume()
    assert pipe.answer()[0] == number


def test_a_paused_node_can_be_crashed(node: Node, pipe: Pipe) -> None:
    node.pause()
    pipe.ask(metadata_of_orders())
    node.crash()
    node.restart()
    node.produce("orders", "x")
    assert values(node) == ["x"]


# --- time -------------------------------------------------------------------------------------


def test_a_long_poll_ends_when_time_is_advanced(node: Node, pipe: Pipe) -> None:
    number = pipe.ask(long_poll())
    assert not pipe.has_answer()
    node.advance(hours=1)
    answered, response = pipe.answer()
    assert answered == number
    assert not response.responses[0].partitions[0].records


def test_a_member_is_put_out_of_its_group_when_its_session_is_over(node: Node) -> None:
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": node.bootstrap,
            "group.id": "readers",
            "session.timeout.ms": 45_000,
            "auto.offset.reset": "earliest",
            **QUIET,
        }
    )
    consumer.subscribe(["orders"])
    node.produce("orders", "x")
    first_message(consumer)
    before = member_ids(node, "readers")
    assert len(before) == 1
    node.advance(seconds=46)
    assert not before & member_ids(node, "readers")
    consumer.close()


def member_ids(node: Node, group: str) -> set[str]:
    admin = AdminClient({"bootstrap.servers": node.bootstrap, **QUIET})
    described = admin.describe_consumer_groups([group])[group].result(30)
    return {member.member_id for member in described.members}


def test_time_outlives_a_crash_and_stamps_what_the_test_produces(node: Node) -> None:
    node.produce("orders", "now")
    node.advance(days=2)
    node.crash()
    node.restart()
    node.produce("orders", "later")
    now, later = node.records("orders")
    assert later.timestamp_ms - now.timestamp_ms >= 2 * 24 * 3_600_000
