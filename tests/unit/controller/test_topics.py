"""Deciding on topics: pure functions of the image."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.controller.controller import Controller
from tidelog.controller.nodes import PRODUCER_ID_BLOCK
from tidelog.controller.placement import choose_replicas
from tidelog.controller.topics import TopicRules, TopicSpec
from tidelog.metadata.image import Image, NodeState
from tidelog.metadata.records import NodeRecord
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NO_TOPIC_ID, BrokerEpoch, NodeId

RULES = TopicRules(default_partitions=4, max_partitions=100)


@pytest.fixture
def controller() -> Controller:
    nodes = [NodeRecord(node_id=n, host="h", port=1, rack=None, epoch=1) for n in (1, 2, 3)]
    image, _ = Image().replay(nodes)
    return Controller(image, RULES, Random(7))


def create(controller: Controller, *specs: TopicSpec) -> list[ErrorCode]:
    decision = controller.create_topics(specs)
    controller.appended(decision.records)
    controller.image.validate()
    return [outcome.error for outcome in decision.response]


def test_a_decision_changes_nothing_until_its_records_are_appended(controller: Controller) -> None:
    decision = controller.create_topics([TopicSpec("orders")])
    assert controller.image.topics == {}
    controller.appended(decision.records)
    assert len(controller.image.topics["orders"].partitions) == 4


def test_a_second_command_sees_the_first_before_it_is_committed(controller: Controller) -> None:
    assert create(controller, TopicSpec("orders")) == [ErrorCode.NONE]
    assert create(controller, TopicSpec("orders")) == [ErrorCode.TOPIC_ALREADY_EXISTS]


def test_each_topic_of_a_command_stands_on_its_own(controller: Controller) -> None:
    errors = create(controller, TopicSpec("good"), TopicSpec("not good"), TopicSpec("better"))
    assert errors == [ErrorCode.NONE, ErrorCode.INVALID_TOPIC_EXCEPTION, ErrorCode.NONE]


def test_a_topic_named_twice_is_refused_both_times(controller: Controller) -> None:
    assert create(controller, TopicSpec("t"), TopicSpec("t")) == [ErrorCode.INVALID_REQUEST] * 2


def test_the_partition_limit_counts_what_the_same_command_creates(controller: Controller) -> None:
    errors = create(controller, TopicSpec("a", partitions=60), TopicSpec("b", partitions=60))
    assert errors == [ErrorCode.NONE, ErrorCode.INVALID_PARTITIONS]


@pytest.mark.parametrize(
    ("assignments", "error"),
    [
        ({0: [1, 2], 1: [2, 3]}, ErrorCode.NONE),
        ({0: [1], 2: [1]}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ({0: [1, 1]}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ({0: [9]}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ({0: []}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ({0: [1], 1: [1, 2]}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
)
def test_an_assignment_by_hand_is_checked(
    controller: Controller, assignments: dict[int, list[int]], error: ErrorCode
) -> None:
    assert create(controller, TopicSpec("t", assignments=assignments)) == [error]


def test_an_assignment_and_numbers_together_are_refused(controller: Controller) -> None:
    spec = TopicSpec("t", partitions=1, assignments={0: [1]})
    assert create(controller, spec) == [ErrorCode.INVALID_REQUEST]


def test_deleting_twice_in_one_command_deletes_once(controller: Controller) -> None:
    create(controller, TopicSpec("t"))
    decision = controller.delete_topics([("t", NO_TOPIC_ID), ("t", NO_TOPIC_ID)])
    assert len(decision.records) == 1
    assert [outcome.error for outcome in decision.response] == [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]


def test_producer_id_blocks_never_overlap(controller: Controller) -> None:
    blocks = []
    for _ in range(3):
        decision = controller.allocate_producer_ids()
        controller.appended(decision.records)
        blocks.append(decision.response)
    assert [block.start for block in blocks] == [0, PRODUCER_ID_BLOCK, 2 * PRODUCER_ID_BLOCK]


@given(
    nodes=st.integers(1, 9),
    partitions=st.integers(1, 50),
    first=st.integers(0, 8),
    data=st.data(),
)
def test_replicas_differ_and_leaders_are_spread(
    nodes: int, partitions: int, first: int, data: st.DataObject
) -> None:
    factor = data.draw(st.integers(1, nodes))
    ids = [NodeId(n) for n in range(nodes)]
    states = [NodeState(n, "h", 1, None, BrokerEpoch(1)) for n in ids]
    placed = choose_replicas(states, partitions=partitions, replication_factor=factor, first=first)
    leaders = [replicas[0] for replicas in placed]
    counts = [leaders.count(node) for node in ids]
    assert max(counts) - min(counts) <= 1
    assert all(len(set(replicas)) == factor for replicas in placed)
