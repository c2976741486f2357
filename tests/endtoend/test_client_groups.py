"""`tidelog.Consumer` in groups: what comes again, what is lost, who reads what."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from tests.support.eventually import PATIENCE_S, eventually

import tidelog
from tidelog.model.ids import TopicPartition
from tidelog.testing import Node

PLACE = TopicPartition("orders", 0)


@pytest.fixture
def node() -> Iterator[Node]:
    with Node() as node:
        yield node


@pytest.fixture
def admin(node: Node) -> tidelog.Admin:
    return tidelog.Admin(node.bootstrap)


def consumer_of(node: Node, *, group: str = "billing", **options: Any) -> tidelog.Consumer:
    return tidelog.Consumer(
        "orders", group=group, idle_timeout_s=PATIENCE_S, bootstrap=node.bootstrap, **options
    )


def texts(consumer: tidelog.Consumer) -> list[str]:
    return [message.text for message in consumer]


def rest(node: Node, **options: Any) -> list[str]:
    """What is left to the group."""
    with consumer_of(node, until_end=True, **options) as consumer:
        return texts(consumer)


# --- at least once ----------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_what_was_processed_does_not_come_again(node: Node, protocol: str) -> None:
    node.produce("orders", "a", "b", "c")
    assert rest(node, protocol=protocol) == ["a", "b", "c"]
    node.produce("orders", "d")
    assert rest(node, protocol=protocol) == ["d"]


def test_a_message_whose_processing_failed_comes_again(node: Node, admin: tidelog.Admin) -> None:
    node.produce("orders", "a", "b", "c")
    with pytest.raises(ZeroDivisionError), consumer_of(node) as consumer:
        for message in consumer:
            if message.text == "b":
                raise ZeroDivisionError
    assert admin.committed("billing") == {PLACE: 1}
    assert rest(node) == ["b", "c"]


def test_a_break_says_nothing_about_the_current_message(node: Node) -> None:
    node.produce("orders", "a", "b", "c")
    with consumer_of(node) as consumer:
        for message in consumer:
            if message.text == "b":
                break
    assert rest(node) == ["b", "c"]


def test_a_commit_before_the_break_does(node: Node, admin: tidelog.Admin) -> None:
    node.produce("orders", "a", "b", "c")
    with consumer_of(node) as consumer:
        for message in consumer:
            if message.text == "b":
                consumer.commit()
                assert admin.committed("billing") == {PLACE: 2}
                break
    assert rest(node) == ["c"]


def test_a_commit_of_nothing_is_no_error(node: Node) -> None:
    node.create_topic("orders")
    with consumer_of(node) as consumer:
        consumer.commit()


def test_a_consumer_that_is_stopped_has_processed_its_last_message(node: Node) -> None:
    node.produce("orders", "a", "b", "c")
    with consumer_of(node) as consumer:
        for message in consumer:
            if message.text == "b":
                consumer.stop()
    assert rest(node) == ["c"]


# --- at most once -----------------------------------------------------------------------------


def test_a_message_is_committed_before_it_is_handed_over(node: Node, admin: tidelog.Admin) -> None:
    node.produce("orders", "a", "b", "c")
    with consumer_of(node, processing="at-most-once") as consumer:
        first = next(consumer)
        assert admin.committed("billing")[PLACE] > first.offset
        assert [first.text, next(consumer).text, next(consumer).text] == ["a", "b", "c"]


def test_a_message_whose_processing_failed_does_not_come_again(node: Node) -> None:
    node.produce("orders", "a")
    with (
        pytest.raises(ZeroDivisionError),
        consumer_of(node, processing="at-most-once") as consumer,
    ):
        for _ in consumer:
            raise ZeroDivisionError
    node.produce("orders", "b")
    assert rest(node) == ["b"]


def test_what_could_not_be_committed_is_not_handed_over(node: Node) -> None:
    node.produce("orders", "a", "b")
    fault = node.fail("OffsetCommit", error="GROUP_AUTHORIZATION_FAILED")
    with consumer_of(node, processing="at-most-once", until_end=True) as consumer:
        assert texts(consumer) == ["a", "b"]
    assert fault.hits == 1


# --- several members --------------------------------------------------------------------------


def shares(admin: tidelog.Admin) -> list[int]:
    """How many partitions each member has."""
    groups = admin.described(["billing"])
    return sorted(len(member.partitions) for group in groups for member in group.members)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_members_share_the_partitions_and_nobody_reads_anothers(
    node: Node, admin: tidelog.Admin, protocol: str
) -> None:
    node.create_topic("orders", partitions=4)
    members = [consumer_of(node, protocol=protocol) for _ in range(2)]
    stop = threading.Event()
    seen: list[list[str]] = [[], []]

    def work(consumer: tidelog.Consumer, texts: list[str]) -> None:
        while not stop.is_set():
            message = consumer.poll(0.05)
            if message is not None:
                texts.append(message.text)

    threads = [threading.Thread(target=work, args=pair) for pair in zip(members, seen, strict=True)]
    for thread in threads:
        thread.start()
    eventually(lambda: shares(admin) == [2, 2], "a partition for each")
    for partition in range(4):
        node.produce(
            "orders", *[f"{partition}-{number}" for number in range(10)], partition=partition
        )
    eventually(lambda: sum(map(len, seen)) >= 40, "every message")
    stop.set()
    for thread in threads:
        thread.join()
    for member in members:
        member.close()
    expected = [f"{partition}-{number}" for partition in range(4) for number in range(10)]
    assert sorted(seen[0] + seen[1]) == sorted(expected)
    assert all(seen)
    assert rest(node) == []


def test_a_member_that_leaves_leaves_its_partitions_to_the_others(node: Node) -> None:
    node.produce("orders", "a")
    first = consumer_of(node)
    assert next(first).text == "a"
    first.commit()
    second = consumer_of(node)
    first.close()
    node.produce("orders", "b")
    assert next(second).text == "b"
    second.close()


def test_a_static_member_comes_back_without_a_rebalance(node: Node, admin: tidelog.Admin) -> None:
    node.produce("orders", "a")
    with consumer_of(node, instance_id="till-1") as consumer:
        next(consumer)
        consumer.commit()
        assert [member.instance_id for member in admin.group("billing").members] == ["till-1"]
    node.produce("orders", "b")
    with consumer_of(node, instance_id="till-1") as consumer:
        assert next(consumer).text == "b"
        assert [member.instance_id for member in admin.group("billing").members] == ["till-1"]


def test_a_pattern_finds_its_topics(node: Node) -> None:
    node.produce("orders-eu", "a")
    node.produce("orders-us", "b")
    node.produce("invoices", "c")
    with tidelog.Consumer(
        "^orders-",
        group="billing",
        until_end=True,
        idle_timeout_s=PATIENCE_S,
        bootstrap=node.bootstrap,
    ) as consumer:
        assert sorted(texts(consumer)) == ["a", "b"]


def test_a_member_goes_on_after_a_crash_of_the_broker(node: Node) -> None:
    node.produce("orders", "a", "b")
    with consumer_of(node) as consumer:
        assert next(consumer).text == "a"
        consumer.commit()
        node.crash()
        node.restart()
        node.produce("orders", "c")
        assert [next(consumer).text, next(consumer).text] == ["b", "c"]


def test_a_topic_that_is_not_there_is_said_to_be_missing(node: Node) -> None:
    with (
        pytest.raises(tidelog.UnknownTopic, match="there is no topic 'orders'"),
        consumer_of(node) as consumer,
    ):
        next(consumer)


# --- admin ------------------------------------------------------------------------------------


def test_a_groups_life_as_the_admin_sees_it(node: Node, admin: tidelog.Admin) -> None:
    node.produce("orders", "a", "b", "c")
    with consumer_of(node) as consumer:
        next(consumer)
        described = admin.group("billing")
        assert (described.state, described.type) == ("stable", "classic")
        assert described.assignor == "cooperative-sticky"
        assert [member.partitions for member in described.members] == [(PLACE,)]
        with pytest.raises(tidelog.GroupError, match="group 'billing'"):
            admin.delete_group("billing")
        consumer.commit()
    assert [(group.name, group.state) for group in admin.groups()] == [("billing", "empty")]
    assert admin.committed("billing") == {PLACE: 1}
    admin.set_committed("billing", {PLACE: 2})
    assert rest(node) == ["c"]
    admin.delete_group("billing")
    assert admin.groups() == []
    with pytest.raises(tidelog.GroupError, match="billing"):
        admin.group("billing")
