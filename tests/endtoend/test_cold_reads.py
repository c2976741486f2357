"""One consumer reads what is not in memory, and the disk is slow: nobody else notices. The disk
gives nothing at all until it is told to: it is no question of time who is answered meanwhile."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.support.eventually import eventually

import tidelog
from tidelog.model.ids import TopicPartition
from tidelog.testing import Node


@pytest.fixture
def node() -> Iterator[Node]:
    """With a topic of three segments, of which the last is in memory."""
    with Node() as node:
        node.create_topic("archive", segment_bytes=1024)
        node.create_topic("orders")
        for number in range(3):
            node.produce("archive", f"{number:600d}")
        node.hold_reads()
        yield node


def reads_of(node: Node) -> list[str]:
    pending = node.describe()["pending"]
    assert isinstance(pending, list)
    return [row for row in pending if "to be read" in row]


def wait_for_a_read(node: Node) -> None:
    eventually(lambda: reads_of(node), "a fetch that waits for the disk")


def test_others_are_served_while_the_disk_gives_nothing(node: Node) -> None:
    with tidelog.Consumer("archive", bootstrap=node.bootstrap) as reader:
        wait_for_a_read(node)
        assert node.produce("orders", "2 apples") == [0]
        assert [message.text for message in node.records("orders")] == ["2 apples"]
        assert reads_of(node), "the archive is not read yet"
        node.release_reads()
        assert [next(reader).offset for _ in range(3)] == [0, 1, 2]
    assert not reads_of(node)


def test_records_that_are_deleted_while_they_are_read_are_not_given_out(node: Node) -> None:
    with tidelog.Consumer("archive", bootstrap=node.bootstrap) as reader:
        wait_for_a_read(node)
        with tidelog.Admin(node.bootstrap) as admin:
            admin.delete_records({TopicPartition("archive", 0): 2})
        node.release_reads()
        assert next(reader).offset == 2


def test_a_node_stops_while_the_disk_gives_nothing(node: Node) -> None:
    with tidelog.Consumer("archive", bootstrap=node.bootstrap):
        wait_for_a_read(node)
        node.stop()
    assert not node.is_running
