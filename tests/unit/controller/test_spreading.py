"""Plans for many partitions: more copies, fewer copies, leaders spread evenly."""

from __future__ import annotations

import pytest
from tests.support.controller_driver import ControllerDriver

from tidelog.controller.spreading import plan_factor, plan_leaders
from tidelog.metadata.image import PartitionState
from tidelog.model.ids import NodeId


@pytest.fixture
def driver() -> ControllerDriver:
    """All of one topic on node 1; two further nodes came later."""
    driver = ControllerDriver()
    driver.start(1)
    driver.create(replicas=((1,),) * 6)
    driver.start(2, 3)
    return driver


def states(driver: ControllerDriver) -> list[PartitionState]:
    return list(driver.image.partitions())


def test_more_copies_go_to_the_other_nodes_and_what_is_there_stays(
    driver: ControllerDriver,
) -> None:
    moves = plan_factor(driver.image, states(driver), 2)
    assert len(moves) == 6
    assert all(move.replicas is not None and move.replicas[0] == 1 for move in moves)
    added = [move.replicas[1] for move in moves if move.replicas is not None]
    assert (added.count(NodeId(2)), added.count(NodeId(3))) == (3, 3)


def test_a_partition_that_has_enough_is_left_alone(driver: ControllerDriver) -> None:
    assert plan_factor(driver.image, states(driver), 1) == []


def test_with_fewer_copies_the_leader_stays_and_the_fullest_node_gives(
    driver: ControllerDriver,
) -> None:
    driver.reassign(1, 2)
    driver.alter_isr(1, 2)
    (move,) = plan_factor(driver.image, states(driver)[:1], 1)
    assert move.replicas == (1,)


def test_a_copy_that_is_not_in_sync_goes_first(driver: ControllerDriver) -> None:
    driver.reassign(1, 2, 3)
    driver.alter_isr(1, 2, 3)
    driver.alter_isr(1, 3)
    (move,) = plan_factor(driver.image, states(driver)[:1], 2)
    assert move.replicas == (1, 3)


def test_leaders_are_spread_by_the_order_of_replicas_alone(driver: ControllerDriver) -> None:
    moves = plan_factor(driver.image, states(driver), 3)
    spread = plan_leaders(driver.image, states(driver), moves)
    first = [move.replicas[0] for move in spread if move.replicas is not None]
    assert sorted(first.count(NodeId(n)) for n in (1, 2, 3)) == [2, 2, 2]
    assert {move.name for move in spread} == {move.name for move in moves}
    assert all(sorted(move.replicas or ()) == [1, 2, 3] for move in spread)


def test_a_node_that_is_away_is_not_made_a_leader(driver: ControllerDriver) -> None:
    moves = plan_factor(driver.image, states(driver), 3)
    driver.beat(2, wants_fence=True)
    spread = plan_leaders(driver.image, states(driver), moves)
    first = [move.replicas[0] for move in spread if move.replicas is not None]
    assert sorted(first.count(NodeId(n)) for n in (1, 2, 3)) == [0, 3, 3]


def test_an_even_spread_is_left_as_it_is() -> None:
    driver = ControllerDriver()
    driver.start(1, 2, 3)
    driver.create(replicas=((1, 2), (2, 3), (3, 1)))
    assert plan_leaders(driver.image, states(driver), []) == []


def test_what_is_being_moved_already_is_left_alone(driver: ControllerDriver) -> None:
    driver.reassign(2)
    moves = plan_leaders(driver.image, states(driver), [])
    assert all(move.name.partition != 0 for move in moves)
