"""`tidelog.testing.Node`: a broker that starts, dies and comes back in a test's own process."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import aiokafka
import confluent_kafka
import pytest
from tests.support.eventually import attempts, eventually

from tidelog.broker.apis.table import HANDLERS
from tidelog.model.settings import InvalidSetting
from tidelog.testing import Node, NodeError

QUIET = {"log_level": 0, "reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 100}
METADATA = 3


@pytest.fixture
def node() -> Iterator[Node]:
    with Node() as node:
        yield node


def producer_for(node: Node, **options: Any) -> confluent_kafka.Producer:
    return confluent_kafka.Producer(
        {"bootstrap.servers": node.bootstrap, "enable.idempotence": True, **QUIET, **options}
    )


def values(node: Node, topic: str) -> list[bytes | None]:
    return [message.value for message in node.records(topic)]


def test_a_real_client_works_with_it(node: Node) -> None:
    node.create_topic("orders", partitions=2)
    producer = producer_for(node)
    producer.produce("orders", b"apples", key=b"alice", headers=[("source", b"web")], partition=1)
    assert producer.flush(30) == 0
    (message,) = node.records("orders")
    assert (message.key, message.value, message.partition) == (b"alice", b"apples", 1)
    assert message.headers == [("source", b"web")]
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": node.bootstrap, "group.id": "unused", **QUIET}
    )
    consumer.assign([confluent_kafka.TopicPartition("orders", 1, 0)])
    received = consumer.poll(30)
    assert received is not None
    assert received.value() == b"apples"
    consumer.close()


def test_an_asyncio_client_works_on_the_tests_own_loop() -> None:
    async def run() -> None:
        with Node() as node:
            producer = aiokafka.AIOKafkaProducer(
                bootstrap_servers=node.bootstrap, enable_idempotence=True
            )
            await producer.start()
            await producer.send_and_wait("orders", b"apples")
            await producer.stop()
            assert values(node, "orders") == [b"apples"]
            consumer = aiokafka.AIOKafkaConsumer(
                "orders", bootstrap_servers=node.bootstrap, auto_offset_reset="earliest"
            )
            await consumer.start()
            assert (await consumer.getone()).value == b"apples"
            await consumer.stop()

    asyncio.run(run())


def test_records_come_back_as_they_were_produced(node: Node) -> None:
    assert node.produce("orders", "a", b"b", None, key="k", timestamp_ms=1000) == [0, 1, 2]
    assert node.produce("orders", "c", headers=[("h", "1")]) == [3]
    assert node.produce("orders") == []
    found = node.records("orders")
    assert [message.value for message in found] == [b"a", b"b", None, b"c"]
    assert [message.offset for message in found] == [0, 1, 2, 3]
    assert found[0].timestamp_ms == 1000
    assert found[3].headers == [("h", b"1")]
    assert found[3].text == "c"


def test_more_records_than_fit_one_answer_are_all_read(node: Node) -> None:
    for _ in range(5):
        node.produce("orders", *["x" * 200_000] * 4)
    assert len(node.records("orders")) == 20


def test_settings_reach_the_node_and_its_topics() -> None:
    with Node({"num.partitions": 3, "auto.create.topics.enable": False}) as node:
        node.create_topic("three", partitions=-1)
        node.create_topic("small", max_message_bytes=1000)
        assert node.produce("three", "x", partition=2) == [0]
        with pytest.raises(NodeError, match="MESSAGE_TOO_LARGE"):
            node.produce("small", "x" * 2000)


def test_a_wrong_setting_is_refused_before_anything_starts() -> None:
    with pytest.raises(InvalidSetting, match=r"num\.partition"):
        Node({"num.partition": 3})


def test_what_the_broker_refuses_is_said_in_one_sentence(node: Node) -> None:
    node.create_topic("orders")
    with pytest.raises(NodeError, match="TOPIC_ALREADY_EXISTS"):
        node.create_topic("orders")
    with pytest.raises(NodeError, match="there is no topic 'nothing'"):
        node.records("nothing")


def test_its_directory_is_gone_afterwards() -> None:
    with Node() as node:
        node.produce("orders", "x")
        assert (node.data_dir / "topics").is_dir()
    assert not node.data_dir.exists()
    assert not node.is_running


def test_a_directory_of_ones_own_is_kept_and_left_clean(tmp_path: Path) -> None:
    with Node(data_dir=tmp_path / "data") as node:
        node.produce("orders", "kept")
    assert (tmp_path / "data" / "clean-shutdown").is_file()
    with Node(data_dir=tmp_path / "data") as node:
        assert values(node, "orders") == [b"kept"]


def test_two_nodes_do_not_share_a_directory(tmp_path: Path) -> None:
    with (
        Node(data_dir=tmp_path),
        pytest.raises(NodeError, match="another process uses"),
    ):
        Node(data_dir=tmp_path)


def test_ten_nodes_run_at_once_and_know_nothing_of_each_other() -> None:
    with ExitStack() as stack:
        nodes = [stack.enter_context(Node()) for _ in range(10)]
        assert len({node.port for node in nodes}) == 10
        for number, node in enumerate(nodes):
            node.produce("orders", str(number))
        assert [values(node, "orders") for node in nodes] == [[b"%d" % n] for n in range(10)]


def test_nothing_is_left_running_afterwards() -> None:
    before = threading.active_count()
    for _ in range(3):
        with Node() as node:
            node.produce("orders", "x")
            node.crash()
            node.restart()
    assert threading.active_count() == before


def test_a_crash_loses_nothing_that_was_acknowledged(node: Node) -> None:
    acknowledged: list[bytes] = []

    def delivered(error: confluent_kafka.KafkaError | None, message: Any) -> None:
        if error is None:
            acknowledged.append(message.value())

    producer = producer_for(node)
    sent = [b"%d" % number for number in range(3000)]
    for number, value in enumerate(sent):
        producer.produce("orders", value, on_delivery=delivered)
        producer.poll(0)
        if number in (1000, 2000):
            for _ in attempts("acknowledgements"):
                if len(acknowledged) >= number // 2:
                    break
                producer.poll(0.1)
            node.crash()
            node.restart()
    assert producer.flush(60) == 0
    assert acknowledged == sent
    assert values(node, "orders") == sent


def test_a_crashed_node_refuses_connections_and_keeps_its_port(node: Node) -> None:
    bootstrap = node.bootstrap
    node.crash()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((node.host, node.port))
    with pytest.raises(NodeError, match=r"node\.restart\(\)"):
        node.records("orders")
    node.restart()
    assert node.bootstrap == bootstrap
    socket.create_connection((node.host, node.port)).close()


def test_a_crash_resets_connections(node: Node) -> None:
    with socket.create_connection((node.host, node.port), timeout=120) as client:
        eventually(lambda: node.describe()["connections"], "the connection")
        node.crash()
        with pytest.raises(ConnectionResetError):
            client.recv(1)


def test_a_clean_stop_is_one_after_which_a_restart_has_everything(node: Node) -> None:
    node.produce("orders", "x")
    node.stop()
    assert (node.data_dir / "clean-shutdown").is_file()
    node.stop()
    node.restart()
    node.restart()
    assert values(node, "orders") == [b"x"]


def test_a_node_describes_itself(node: Node) -> None:
    node.produce("orders", "x")
    described = node.describe()
    assert described["storage_error"] is None
    assert "orders-0" in str(described["partitions"])
    assert node.bootstrap in repr(node)


def test_a_defect_of_the_broker_fails_the_test_that_met_it(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def defective(*_: object) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setitem(HANDLERS, METADATA, defective)
    with pytest.raises(NodeError, match="defect"), Node() as node, pytest.raises(NodeError):
        node.records("orders")
    assert "a bug" in caplog.text
