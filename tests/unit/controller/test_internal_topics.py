"""Internal topics grow to what is configured when nodes have come; people may decide otherwise."""

from __future__ import annotations

import pytest
from tests.support.controller_driver import ControllerDriver

from tidelog.controller.internal_topics import MAX_GROWING
from tidelog.controller.topics import TopicSpec
from tidelog.metadata.image import PartitionState
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NodeId
from tidelog.model.topic_settings import INTERNAL_FACTOR

OFFSETS = "__consumer_offsets"
COUNT = MAX_GROWING + 2


@pytest.fixture
def driver() -> ControllerDriver:
    """Created while the cluster was a node alone; the other nodes come later."""
    driver = ControllerDriver()
    driver.start(1)
    driver.commit(driver.controller.create_topics([TopicSpec(OFFSETS, COUNT)]))
    driver.create("t", ((1,),))
    return driver


def states(driver: ControllerDriver) -> tuple[PartitionState, ...]:
    return driver.image.topics[OFFSETS].partitions


def grow(driver: ControllerDriver) -> int:
    """How many partitions got a replica more to wait for."""
    decision = driver.controller.grow_internal_topics()
    assert all(outcome.error is ErrorCode.NONE for outcome in decision.response)
    driver.commit(decision)
    return len(decision.response)


def all_catch_up(driver: ControllerDriver) -> None:
    for state in states(driver):
        driver.alter_isr(*state.replicas, name=OFFSETS, partition=state.key.partition)


def factors(driver: ControllerDriver) -> set[int]:
    return {len(state.target_replicas) for state in states(driver)}


def test_nothing_grows_while_there_are_no_nodes_for_it(driver: ControllerDriver) -> None:
    assert grow(driver) == 0
    driver.register(2)
    assert grow(driver) == 0, "a node that is fenced gets nothing"


def test_it_grows_a_few_partitions_at_a_time_to_what_is_configured(
    driver: ControllerDriver,
) -> None:
    driver.start(2, 3)
    assert grow(driver) == MAX_GROWING
    assert sum(state.is_reassigning for state in states(driver)) == MAX_GROWING
    assert grow(driver) == 0, "until those are in sync"
    all_catch_up(driver)
    assert grow(driver) == COUNT - MAX_GROWING
    all_catch_up(driver)
    assert factors(driver) == {3}
    assert grow(driver) == 0
    assert driver.state("t").replicas == (1,), "other topics are left as they are"


def test_it_grows_with_each_node_that_comes(driver: ControllerDriver) -> None:
    driver.start(2)
    while grow(driver):
        all_catch_up(driver)
    assert factors(driver) == {2}
    driver.start(3)
    while grow(driver):
        all_catch_up(driver)
    assert factors(driver) == {3}


def test_more_nodes_than_configured_replicas_change_nothing(driver: ControllerDriver) -> None:
    driver.start(2, 3)
    while grow(driver):
        all_catch_up(driver)
    driver.start(4)
    assert grow(driver) == 0


def test_what_people_reduce_stays_so(driver: ControllerDriver) -> None:
    driver.start(2, 3)
    while grow(driver):
        all_catch_up(driver)
    for partition in range(COUNT):
        assert driver.reassign(1, 2, name=OFFSETS, partition=partition) is ErrorCode.NONE
        driver.alter_isr(1, 2, name=OFFSETS, partition=partition)
    assert driver.image.topics[OFFSETS].configs[INTERNAL_FACTOR] == "2"
    assert grow(driver) == 0
    driver.reassign(1, 2, 3, name=OFFSETS)
    assert INTERNAL_FACTOR not in driver.image.topics[OFFSETS].configs
    assert grow(driver) > 0


def test_what_people_take_back_is_not_begun_again(driver: ControllerDriver) -> None:
    driver.start(2, 3)
    grow(driver)
    assert driver.cancel(name=OFFSETS) is ErrorCode.NONE
    assert driver.image.topics[OFFSETS].configs[INTERNAL_FACTOR] == "1"
    assert grow(driver) == 0


def test_a_move_to_other_nodes_decides_nothing_about_their_number(
    driver: ControllerDriver,
) -> None:
    driver.start(2)
    driver.reassign(2, name=OFFSETS)
    driver.reassign(2, name="t")
    assert all(INTERNAL_FACTOR not in topic.configs for topic in driver.image.topics.values())


def test_a_partition_that_nobody_leads_is_left_alone(driver: ControllerDriver) -> None:
    driver.start(2, 3)
    driver.beat(1, wants_fence=True)
    assert grow(driver) == 0
    driver.beat(NodeId(1))
    assert grow(driver) == MAX_GROWING
