"""Addresses, and finding out at once that nobody is there."""

from __future__ import annotations

import socket

import pytest

from tidelog.client import ClientError, Connection
from tidelog.client.admin import Partition, Topic
from tidelog.client.connection import connection_to
from tidelog.client.producer import Deliveries


def test_several_addresses_may_be_given() -> None:
    connection = Connection("one:1, two:2,[::1]:3")
    assert connection.addresses() == [("one", 1), ("two", 2), ("::1", 3)]


@pytest.mark.parametrize("text", ["", "host", "host:", ":9092", "host:0", "host:70000", "h:1,"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ClientError, match="must be HOST:PORT"):
        Connection(text).addresses()


def test_one_living_node_of_several_is_enough() -> None:
    with socket.create_server(("127.0.0.1", 0)) as somebody, socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        ports = nobody.getsockname()[1], somebody.getsockname()[1]
        Connection(",".join(f"127.0.0.1:{port}" for port in ports)).probe()


def test_nobody_there_is_said_at_once() -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        with pytest.raises(ClientError, match="no broker answers"):
            Connection(f"127.0.0.1:{nobody.getsockname()[1]}").probe()


def test_options_are_written_librdkafkas_way() -> None:
    made = Connection("one:1").configuration(linger_ms=5)
    assert made["linger.ms"] == 5
    assert made["bootstrap.servers"] == "one:1"
    assert made["log_level"] == 0


def test_options_of_ones_own_win() -> None:
    connection = Connection("one:1", options={"security.protocol": "SSL", "linger.ms": 7})
    made = connection.configuration(linger_ms=5)
    assert (made["linger.ms"], made["security.protocol"]) == (7, "SSL")


def test_the_cluster_is_the_one_given_or_the_environments_or_this_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("TIDELOG_BOOTSTRAP", raising=False)
    assert connection_to(None).bootstrap == "127.0.0.1:9092"
    monkeypatch.setenv("TIDELOG_BOOTSTRAP", "two:2")
    assert connection_to(None).bootstrap == "two:2"
    assert connection_to("one:1").bootstrap == "one:1"
    given = Connection("three:3")
    assert connection_to(given) is given


def test_a_topic_gives_the_partition_asked_for() -> None:
    topic = Topic("orders", tuple(Partition(number, 1, (1,), (1,)) for number in range(3)))
    assert topic.chosen(None) == [("orders", 0), ("orders", 1), ("orders", 2)]
    assert topic.chosen(1) == [("orders", 1)]
    with pytest.raises(ClientError, match="no partition 3"):
        topic.chosen(3)


def test_deliveries_remember_the_first_and_last_offset_of_each_partition() -> None:
    deliveries = Deliveries()
    for partition, offset in ((0, 7), (0, 6), (0, 9), (1, -1001)):
        deliveries.note_offset(partition, offset)
    assert deliveries.offsets == {0: (6, 9)}
