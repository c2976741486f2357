"""A node alone becomes a quorum of one with all that it has, and others learn of it by asking."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.neighbours import Neighbours
from tests.support.node_driver import NodeDriver

from tidelog.broker.start import StartRefused
from tidelog.metadata.image import Image
from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    PartitionData,
    TopicData,
)
from tidelog.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tidelog.wire.requests import decode_response, encode_request

VOTERS = "1@127.0.0.1:9001"


@pytest.fixture
def alone(tmp_path: Path) -> NodeDriver:
    """With a topic of two partitions, and three records in one of them."""
    driver = NodeDriver(tmp_path / "1")
    driver.create_topic("orders", partitions=2)
    driver.produce("orders", b"a", b"b", b"c")
    return driver


@pytest.fixture
def neighbours(tmp_path: Path) -> Neighbours:
    return Neighbours(tmp_path)


def serves(neighbours: Neighbours, number: int) -> bool:
    return neighbours.nodes[number].is_serving


def facts(image: Image) -> object:
    return (
        image.cluster_id,
        {name: topic.topic_id for name, topic in image.topics.items()},
        [(state.name, state.replicas, state.isr) for state in image.partitions()],
    )


@pytest.mark.parametrize("is_clean", [True, False], ids=["after a stop", "after a crash"])
def test_a_node_alone_becomes_a_quorum_of_one_and_keeps_everything(
    alone: NodeDriver, neighbours: Neighbours, is_clean: bool
) -> None:
    before = facts(alone.node.state.image)
    if is_clean:
        alone.stop()
    node = neighbours.start(1, controller_quorum_voters=VOTERS)
    neighbours.run_until(lambda: node.is_serving, "the first member")
    neighbours.run_until(
        lambda: all(state.leader == 1 for state in node.state.image.partitions()), "leaders"
    )
    assert facts(node.state.image) == before
    ends = [replica.log.log_end_offset for replica in node.state.replicas.by_key.values()]
    assert ends == [3, 0]


def test_a_member_goes_on_after_its_own_crashes(alone: NodeDriver, neighbours: Neighbours) -> None:
    before = facts(alone.node.state.image)
    for _ in range(3):
        node = neighbours.start(1, controller_quorum_voters=VOTERS)
        neighbours.run_until(lambda: serves(neighbours, 1), "a start")
        neighbours.kill(1)
    assert facts(node.state.image) == before


def test_the_first_answer_after_a_crash_is_right(alone: NodeDriver, neighbours: Neighbours) -> None:
    """Asked before the node knows more than its own directory says."""
    alone.stop()
    neighbours.start(1, controller_quorum_voters=VOTERS)
    neighbours.run_until(lambda: serves(neighbours, 1), "the first start")
    neighbours.kill(1)
    neighbours.start(1, controller_quorum_voters=VOTERS)
    topic = MetadataRequestTopic(name="orders")
    frame = encode_request(MetadataRequest(topics=[topic]), 12, correlation_id=1, client_id="test")
    neighbours.ask(1, frame)
    neighbours.run_until(lambda: bool(neighbours.answers), "an answer")
    _, answer = decode_response(3, 12, neighbours.answers[0])
    assert [broker.node_id for broker in answer.brokers] == [1]
    assert [row.error_code for row in answer.topics] == [ErrorCode.NONE]
    assert {row.leader_id for row in answer.topics[0].partitions} == {1}


def test_a_member_is_not_started_alone_again(alone: NodeDriver, neighbours: Neighbours) -> None:
    alone.stop()
    neighbours.start(1, controller_quorum_voters=VOTERS)
    neighbours.run_until(lambda: serves(neighbours, 1), "the first member")
    neighbours.stop(1)
    with pytest.raises(StartRefused, match="member of a cluster"):
        neighbours.start(1)


def test_a_node_that_knows_only_an_address_learns_who_leads_and_is_let_in(
    alone: NodeDriver, neighbours: Neighbours
) -> None:
    alone.stop()
    neighbours.start(1, controller_quorum_voters=VOTERS)
    two = neighbours.start(2, controller_quorum_bootstrap_servers="127.0.0.1:9001")
    neighbours.run_until(lambda: two.is_serving, "the second")
    assert facts(two.state.image) == facts(neighbours.image(1))
    three = neighbours.start(3, controller_quorum_bootstrap_servers="127.0.0.1:9002")
    neighbours.run_until(lambda: three.is_serving, "the third, by way of the second")
    assert sorted(three.state.image.nodes) == [1, 2, 3]


def test_a_node_that_joined_finds_the_cluster_again_after_both_stopped(
    alone: NodeDriver, neighbours: Neighbours
) -> None:
    alone.stop()
    neighbours.start(1, controller_quorum_voters=VOTERS)
    two = neighbours.start(2, controller_quorum_bootstrap_servers="127.0.0.1:9001")
    neighbours.run_until(lambda: two.is_serving, "the second")
    neighbours.stop(2)
    neighbours.stop(1)
    two = neighbours.start(2, controller_quorum_bootstrap_servers="127.0.0.1:9001")
    neighbours.start(1, controller_quorum_voters=VOTERS)
    neighbours.run_until(lambda: two.is_serving and serves(neighbours, 1), "both")


def test_any_node_tells_how_the_voters_are_doing(alone: NodeDriver, neighbours: Neighbours) -> None:
    """Tools ask whom they know; only the leader knows."""
    alone.stop()
    neighbours.start(1, controller_quorum_voters=VOTERS)
    two = neighbours.start(2, controller_quorum_bootstrap_servers="127.0.0.1:9001")
    neighbours.run_until(lambda: two.is_serving, "the second")
    topic = TopicData(
        topic_name="__cluster_metadata", partitions=[PartitionData(partition_index=0)]
    )
    request = DescribeQuorumRequest(topics=[topic])
    neighbours.ask(2, encode_request(request, 2, correlation_id=1, client_id="test"))
    neighbours.run_until(lambda: bool(neighbours.answers), "an answer")
    _, answer = decode_response(55, 2, neighbours.answers[0])
    told = answer.topics[0].partitions[0]
    assert (told.error_code, told.leader_id) == (ErrorCode.NONE, 1)
    assert [row.replica_id for row in told.current_voters] == [1]
    assert [row.replica_id for row in told.observers] == [2]
