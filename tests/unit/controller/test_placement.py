"""Placement: racks apart, one topic evenly, all topics evenly, and only on nodes that are there."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.controller_driver import ControllerDriver

from tidelog.controller.placement import choose_replicas
from tidelog.controller.topics import USE_DEFAULT, TopicRules, TopicSpec
from tidelog.metadata.image import NodeState
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import BrokerEpoch, NodeId


def nodes_in(*racks: str | None) -> list[NodeState]:
    return [
        NodeState(NodeId(index), "h", 1, rack, BrokerEpoch(1))
        for index, rack in enumerate(racks, 1)
    ]


@given(
    racks=st.lists(st.sampled_from([None, "a", "b", "c"]), min_size=1, max_size=7),
    partitions=st.integers(1, 30),
    data=st.data(),
)
def test_replicas_differ_and_leaders_are_even(
    racks: list[str | None], partitions: int, data: st.DataObject
) -> None:
    nodes = nodes_in(*racks)
    factor = data.draw(st.integers(1, len(nodes)))
    first = data.draw(st.integers(0, len(nodes) - 1))
    placed = choose_replicas(nodes, partitions=partitions, replication_factor=factor, first=first)
    assert all(len(set(replicas)) == factor for replicas in placed)
    leaders = Counter(replicas[0] for replicas in placed)
    counts = [leaders[node.node_id] for node in nodes]
    assert max(counts) - min(counts) <= 1


@given(sizes=st.lists(st.integers(1, 3), min_size=3, max_size=4), partitions=st.integers(1, 30))
def test_with_enough_racks_no_two_copies_share_one(sizes: list[int], partitions: int) -> None:
    nodes = nodes_in(
        *(rack for rack, size in zip("abcd", sizes, strict=False) for _ in range(size))
    )
    rack_of = {node.node_id: node.rack for node in nodes}
    placed = choose_replicas(nodes, partitions=partitions, replication_factor=3, first=0)
    assert all(len({rack_of[node] for node in replicas}) == 3 for replicas in placed)


def test_without_racks_copies_are_even_too() -> None:
    placed = choose_replicas(nodes_in(*[None] * 5), partitions=20, replication_factor=3, first=2)
    copies = Counter(node for replicas in placed for node in replicas)
    assert set(copies.values()) == {12}


@pytest.fixture
def driver() -> ControllerDriver:
    driver = ControllerDriver()
    driver.start(1, 2, 3)
    return driver


def create(driver: ControllerDriver, *specs: TopicSpec) -> list[ErrorCode]:
    decision = driver.controller.create_topics(specs)
    driver.commit(decision)
    return [outcome.error for outcome in decision.response]


def test_topics_of_one_partition_are_spread_over_the_nodes(driver: ControllerDriver) -> None:
    create(driver, *[TopicSpec(f"t{index}", 1, 1) for index in range(9)])
    leaders = Counter(state.leader for state in driver.image.partitions())
    assert set(leaders.values()) == {3}


def test_a_fenced_or_leaving_node_gets_nothing_while_others_are_enough(
    driver: ControllerDriver,
) -> None:
    driver.beat(1, wants_fence=True)
    driver.beat(2, wants_shutdown=True)
    create(driver, TopicSpec("t", 6, 1))
    assert {state.leader for state in driver.image.partitions()} == {3}


def test_a_fenced_node_makes_up_the_factor_outside_the_isr(driver: ControllerDriver) -> None:
    driver.beat(2, wants_fence=True)
    assert create(driver, TopicSpec("t", 6, 3), TopicSpec("u", 6, 2)) == [ErrorCode.NONE] * 2
    for state in driver.image.topics["t"].partitions:
        assert sorted(state.replicas) == [1, 2, 3]
        assert sorted(state.isr) == [1, 3]
        assert state.replicas[0] == state.leader
    assert all(sorted(s.replicas) == [1, 3] for s in driver.image.topics["u"].partitions)
    driver.beat(2)
    assert driver.alter_isr(*driver.state().replicas).error is ErrorCode.NONE


def test_a_leaving_node_makes_up_the_factor_too(driver: ControllerDriver) -> None:
    driver.beat(2, wants_shutdown=True)
    create(driver, TopicSpec("t", 1, 3))
    assert sorted(driver.state().replicas) == [1, 2, 3]
    assert sorted(driver.state().isr) == [1, 3]


def test_more_replicas_than_registered_nodes_are_refused(driver: ControllerDriver) -> None:
    driver.beat(2, wants_fence=True)
    assert create(driver, TopicSpec("t", 1, 4)) == [ErrorCode.INVALID_REPLICATION_FACTOR]
    driver.beat(1, wants_fence=True)
    driver.commit(driver.controller.unregister(NodeId(1)))
    assert create(driver, TopicSpec("t", 1, 3)) == [ErrorCode.INVALID_REPLICATION_FACTOR]


def test_one_replica_of_each_partition_must_be_up(driver: ControllerDriver) -> None:
    for node in (1, 2, 3):
        driver.beat(node, wants_fence=True)
    decision = driver.controller.create_topics([TopicSpec("t", 1, 1)])
    assert decision.response[0].error is ErrorCode.INVALID_REPLICATION_FACTOR
    assert "start one" in (decision.response[0].message or "")


def test_an_internal_topic_counts_the_nodes_that_are_away(driver: ControllerDriver) -> None:
    driver.beat(3, wants_fence=True)
    create(driver, TopicSpec("__consumer_offsets", 4))
    states = driver.image.topics["__consumer_offsets"].partitions
    assert {len(state.replicas) for state in states} == {3}
    assert {len(state.isr) for state in states} == {2}


def test_more_partitions_get_the_topics_factor_though_a_node_is_away(
    driver: ControllerDriver,
) -> None:
    create(driver, TopicSpec("t", 1, 3))
    driver.beat(2, wants_fence=True)
    driver.commit(driver.controller.create_partitions("t", count=4, assignments=None))
    added = driver.image.topics["t"].partitions[1:]
    assert {tuple(sorted(state.replicas)) for state in added} == {(1, 2, 3)}
    assert {tuple(sorted(state.isr)) for state in added} == {(1, 3)}
    driver.commit(driver.controller.unregister(NodeId(2)))
    refused = driver.controller.create_partitions("t", count=5, assignments=None)
    assert refused.response.error is ErrorCode.INVALID_REPLICATION_FACTOR


def test_with_no_node_at_all_nothing_is_created() -> None:
    driver = ControllerDriver()
    assert create(driver, TopicSpec("t", 1, 1)) == [ErrorCode.INVALID_REPLICATION_FACTOR]


def test_the_default_factor_is_the_nodes_setting() -> None:
    rules = TopicRules(2, 100, default_replication_factor=2, internal_factors={"__x": 5})
    driver = ControllerDriver(rules=rules)
    driver.start(1, 2, 3)
    create(driver, TopicSpec("t"), TopicSpec("__x"), TopicSpec("u", USE_DEFAULT, 1))
    factors = {name: len(t.partitions[0].replicas) for name, t in driver.image.topics.items()}
    assert factors == {"t": 2, "__x": 3, "u": 1}


def test_an_assignment_by_hand_may_name_a_node_that_is_away(driver: ControllerDriver) -> None:
    driver.beat(1, wants_fence=True)
    create(driver, TopicSpec("t", assignments={0: [1, 2]}))
    assert (driver.state().leader, driver.state().isr) == (2, (2,))
    errors = create(driver, TopicSpec("u", assignments={0: [1]}))
    assert errors == [ErrorCode.INVALID_REPLICA_ASSIGNMENT]


def test_more_partitions_are_placed_as_if_they_had_always_been(driver: ControllerDriver) -> None:
    create(driver, TopicSpec("t", 2, 2))
    driver.commit(driver.controller.create_partitions("t", count=6, assignments=None))
    states = driver.image.topics["t"].partitions
    assert set(Counter(state.leader for state in states).values()) == {2}
    assert set(Counter(node for state in states for node in state.replicas).values()) == {4}
