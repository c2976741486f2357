"""`tidelog.Producer`, `tidelog.Admin`, and `tidelog.Consumer` without a group."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest
from tests.support.eventually import PATIENCE_S, attempts

import tidelog
from tidelog.client.admin import BROKER_DEFAULT
from tidelog.model.ids import TopicPartition
from tidelog.testing import Node


@pytest.fixture(scope="module")
def shared() -> Iterator[Node]:
    with Node() as node:
        yield node


@pytest.fixture
def topic(shared: Node, request: pytest.FixtureRequest) -> str:
    name: str = request.node.name[:200].replace("[", ".").replace("]", "")
    shared.create_topic(name, partitions=3)
    return name


@pytest.fixture
def node() -> Iterator[Node]:
    with Node() as node:
        yield node


def read(node: Node, *topics: str) -> list[tidelog.Message]:
    with tidelog.Consumer(
        *topics, until_end=True, idle_timeout_s=PATIENCE_S, bootstrap=node.bootstrap
    ) as consumer:
        return list(consumer)


# --- producing --------------------------------------------------------------------------------


def test_a_record_arrives_with_all_that_it_has(shared: Node, topic: str) -> None:
    with tidelog.Producer(shared.bootstrap) as producer:
        receipt = producer.send(
            topic,
            "2 apples",
            key="alice",
            headers=[("a", "1"), ("a", b"2"), ("b", None)],
            partition=1,
            timestamp_ms=1_700_000_000_000,
        ).result()
    assert receipt == (topic, 1, 0, 1_700_000_000_000)
    assert read(shared, topic) == [
        tidelog.Message(
            topic,
            1,
            0,
            key=b"alice",
            value=b"2 apples",
            headers=[("a", b"1"), ("a", b"2"), ("b", None)],
            timestamp_ms=1_700_000_000_000,
        )
    ]


def test_a_tombstone_has_no_value(shared: Node, topic: str) -> None:
    with tidelog.Producer(shared.bootstrap) as producer:
        producer.send(topic, None, key=b"alice")
    (message,) = read(shared, topic)
    assert (message.key, message.value) == (b"alice", None)


def test_a_key_goes_to_one_partition_in_order(shared: Node, topic: str) -> None:
    with tidelog.Producer(shared.bootstrap) as producer:
        for number in range(100):
            producer.send(topic, str(number), key="alice")
    messages = read(shared, topic)
    assert len({message.partition for message in messages}) == 1
    assert [message.text for message in messages] == [str(number) for number in range(100)]


def test_at_the_end_of_the_block_everything_is_acknowledged(shared: Node, topic: str) -> None:
    with tidelog.Producer(shared.bootstrap, linger_ms=50) as producer:
        deliveries = [producer.send(topic, "x") for _ in range(500)]
    assert all(delivery.done() for delivery in deliveries)
    assert producer.deliveries.acknowledged == 500


def test_a_failure_nobody_asked_about_is_raised_at_the_end(shared: Node, topic: str) -> None:
    with (
        pytest.raises(
            tidelog.MessageTooLarge, match="1 record was not delivered: a record is larger"
        ),
        tidelog.Producer(shared.bootstrap) as producer,
    ):
        producer.send(topic, b"x" * 2_000_000)
        producer.send(topic, "small")
    assert [message.text for message in read(shared, topic)] == ["small"]


def test_a_failure_that_was_heard_of_is_not_raised_again(shared: Node, topic: str) -> None:
    with tidelog.Producer(shared.bootstrap) as producer:
        delivery = producer.send(topic, b"x" * 2_000_000)
        with pytest.raises(tidelog.MessageTooLarge):
            delivery.result()
    assert producer.deliveries.failed == 1


def test_the_blocks_own_exception_is_the_one_that_comes_out(shared: Node, topic: str) -> None:
    with (
        pytest.raises(ZeroDivisionError),
        tidelog.Producer(shared.bootstrap, linger_ms=1000) as producer,
    ):
        producer.send(topic, "sent before")
        producer.send(topic, b"x" * 2_000_000)
        raise ZeroDivisionError
    assert [message.text for message in read(shared, topic)] == ["sent before"]


def test_an_answer_that_does_not_come_is_a_timeout(node: Node) -> None:
    node.create_topic("orders")
    fault = node.delay("Produce", ms=3_600_000)
    with tidelog.Producer(node.bootstrap) as producer:
        delivery = producer.send("orders", "x")
        for _ in attempts("the request"):
            with pytest.raises(TimeoutError):
                delivery.result(timeout_s=0.05)
            if fault.hits:
                break
        node.advance(hours=1)
        assert delivery.result().offset == 0


def test_a_producer_is_exactly_once_over_crashes_and_lost_answers(node: Node) -> None:
    node.create_topic("orders")
    sent = [str(number) for number in range(600)]
    with tidelog.Producer(node.bootstrap, linger_ms=1) as producer:
        for number, value in enumerate(sent):
            producer.send("orders", value)
            if number in (150, 300):
                node.lose_response("Produce")
            if number in (200, 400):
                node.crash()
                node.restart()
    assert [message.text for message in node.records("orders")] == sent


def test_a_broker_that_never_answers_is_said_to_be_missing() -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        bootstrap = f"127.0.0.1:{nobody.getsockname()[1]}"
        for connect in (
            lambda: tidelog.Producer(bootstrap),
            lambda: tidelog.Admin(bootstrap),
            lambda: tidelog.Consumer("orders", bootstrap=bootstrap),
        ):
            with pytest.raises(tidelog.NoBroker, match=f"no broker answers at {bootstrap}"):
                connect()


def test_a_record_that_is_not_acknowledged_in_time_may_have_been_written(node: Node) -> None:
    node.create_topic("orders")
    node.fail("Produce", error="NOT_LEADER_OR_FOLLOWER", times=None)
    with (
        pytest.raises(tidelog.NotAcknowledged, match="may or may not have been written"),
        tidelog.Producer(node.bootstrap, delivery_timeout_ms=500) as producer,
    ):
        producer.send("orders", "x")


# --- consuming without a group ----------------------------------------------------------------


def test_all_partitions_of_all_topics_are_read(node: Node) -> None:
    node.create_topic("one", partitions=2)
    node.produce("one", "a", partition=0)
    node.produce("one", "b", partition=1)
    node.produce("two", "c")
    assert sorted(message.text for message in read(node, "one", "two")) == ["a", "b", "c"]


def test_reading_from_the_end_sees_what_comes_later(node: Node) -> None:
    node.produce("orders", "before")
    with tidelog.Consumer("orders", start="latest", bootstrap=node.bootstrap) as consumer:
        for _ in attempts("a message"):
            if consumer.poll(0.1) is not None:
                break
            node.produce("orders", "after")
        consumer.stop()
        assert list(consumer) == []
    assert read(node, "orders")[0].text == "before"


def test_a_loop_ends_when_nothing_comes_any_more(node: Node) -> None:
    """If the machine is so slow that nothing has come yet, the next loop goes on."""
    node.produce("orders", "a", "b")
    texts: list[str] = []
    with tidelog.Consumer("orders", idle_timeout_s=1.0, bootstrap=node.bootstrap) as consumer:
        for _ in attempts("the messages"):
            texts += [message.text for message in consumer]
            if len(texts) == 2:
                break
    assert texts == ["a", "b"]


def test_a_loop_ends_when_another_thread_says_so(node: Node) -> None:
    node.produce("orders", "a")
    with tidelog.Consumer("orders", bootstrap=node.bootstrap) as consumer:
        next(consumer)
        ending = threading.Thread(target=consumer.stop)
        ending.start()
        assert list(consumer) == []
        ending.join()


def test_an_empty_topic_ends_at_once(node: Node) -> None:
    node.create_topic("orders", partitions=2)
    assert read(node, "orders") == []


def test_a_topic_that_is_not_there_is_said_to_be_missing(shared: Node) -> None:
    with pytest.raises(tidelog.UnknownTopic, match="there is no topic 'nothing'"):
        read(shared, "nothing")


def test_a_consumer_reads_on_after_a_crash(node: Node) -> None:
    node.produce("orders", "a")
    with tidelog.Consumer(
        "orders", idle_timeout_s=PATIENCE_S, bootstrap=node.bootstrap
    ) as consumer:
        assert next(consumer).text == "a"
        node.crash()
        node.restart()
        node.produce("orders", "b")
        assert next(consumer).text == "b"


# --- admin ------------------------------------------------------------------------------------


def test_a_topics_life(node: Node) -> None:
    with tidelog.Admin(node.bootstrap) as admin:
        admin.create_topic("orders", partitions=2, settings={"retention.ms": "60000"})
        with pytest.raises(tidelog.TopicExists, match="'orders' exists already"):
            admin.create_topic("orders", partitions=BROKER_DEFAULT)
        assert [topic.name for topic in admin.topics()] == ["orders"]
        admin.add_partitions("orders", total=3)
        assert len(admin.topic("orders").partitions) == 3
        node.produce("orders", "a", "b", partition=2)
        place = TopicPartition("orders", 2)
        assert admin.offsets([place]) == {place: (0, 2)}
        admin.delete_topic("orders")
        with pytest.raises(tidelog.UnknownTopic):
            admin.topic("orders")


def test_records_before_an_offset_are_deleted(node: Node) -> None:
    node.produce("orders", "a", "b", "c")
    place = TopicPartition("orders", 0)
    with tidelog.Admin(node.bootstrap) as admin:
        assert admin.delete_records({place: 2}) == {place: 2}
        assert admin.offsets([place]) == {place: (2, 3)}
    assert [message.text for message in read(node, "orders")] == ["c"]


def test_a_topics_settings_are_told_with_their_source(node: Node) -> None:
    with tidelog.Admin(node.bootstrap) as admin:
        admin.create_topic("orders", settings={"retention.ms": "60000"})
        settings = admin.settings("orders")
        assert settings["retention.ms"].is_own
        assert settings["retention.ms"] == ("60000", "dynamic topic config")
        assert settings["cleanup.policy"].value == "delete"
        assert not settings["cleanup.policy"].is_own


def test_a_topics_settings_can_be_altered_and_taken_back(node: Node) -> None:
    with tidelog.Admin(node.bootstrap) as admin:
        admin.create_topic("orders")
        default = admin.settings("orders")["retention.ms"]
        admin.alter_settings("orders", {"retention.ms": "60000"})
        assert admin.settings("orders")["retention.ms"].value == "60000"
        admin.alter_settings("orders", {"retention.ms": None})
        assert admin.settings("orders")["retention.ms"] == default
        with pytest.raises(tidelog.ClientError, match="INVALID_CONFIG"):
            admin.alter_settings("orders", {"retention.ms": "soon"})
