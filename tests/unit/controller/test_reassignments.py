"""Moving partitions: nothing is given up before everything has arrived."""

from __future__ import annotations

import pytest
from tests.support.controller_driver import ControllerDriver

from tidelog.controller.reassignments import Reassignment, plan_drain, plan_spread
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NodeId, TopicPartition


@pytest.fixture
def driver() -> ControllerDriver:
    driver = ControllerDriver()
    driver.start(1, 2, 3, 4, 5)
    driver.create()
    return driver


def sets(driver: ControllerDriver) -> dict[str, tuple[NodeId, ...]]:
    state = driver.state()
    return {
        "replicas": state.replicas,
        "adding": state.adding_replicas,
        "removing": state.removing_replicas,
        "isr": state.isr,
    }


def test_the_old_replicas_stay_until_all_new_ones_are_in_sync(driver: ControllerDriver) -> None:
    assert driver.reassign(4, 5, 1) is ErrorCode.NONE
    assert sets(driver) == {
        "replicas": (4, 5, 1, 2, 3),
        "adding": (4, 5),
        "removing": (2, 3),
        "isr": (1, 2, 3),
    }
    driver.alter_isr(1, 2, 3, 4)
    driver.alter_isr(1, 2, 3, 4, 5)
    assert driver.state().is_reassigning, "the leader has to let them go"
    assert driver.alter_isr(1, 4, 5).error is ErrorCode.FENCED_LEADER_EPOCH
    assert sets(driver) == {"replicas": (4, 5, 1), "adding": (), "removing": (), "isr": (1, 4, 5)}
    assert driver.state().leader == 1
    assert driver.state().leader_epoch == 1


def test_the_leader_goes_with_its_replica(driver: ControllerDriver) -> None:
    """It hands over first: until its successor lets it go, nothing is committed without it."""
    driver.reassign(4, 2)
    assert driver.alter_isr(1, 2, 3, 4).error is ErrorCode.NEW_LEADER_ELECTED
    state = driver.state()
    assert (state.leader, state.replicas, state.isr) == (4, (4, 2, 1, 3), (1, 2, 3, 4))
    assert state.is_reassigning
    driver.alter_isr(4, 2)
    state = driver.state()
    assert (state.leader, state.replicas, state.isr) == (4, (4, 2), (4, 2))
    assert not state.is_reassigning


def test_a_leader_that_is_gone_is_not_waited_for(driver: ControllerDriver) -> None:
    driver.reassign(4, 2)
    driver.alter_isr(1, 2, 3, 4)
    driver.alter_isr(1, 2, 4)
    driver.beat(1, wants_fence=True)
    state = driver.state()
    assert (state.leader, state.replicas, state.isr) == (4, (4, 2), (2, 4))


def test_fewer_replicas_without_the_leader_need_its_farewell(driver: ControllerDriver) -> None:
    driver.reassign(2, 3)
    state = driver.state()
    assert (state.leader, state.replicas, state.isr) == (2, (2, 3, 1), (1, 2, 3))
    driver.alter_isr(2, 3)
    assert sets(driver) == {"replicas": (2, 3), "adding": (), "removing": (), "isr": (2, 3)}


def test_fewer_replicas_need_a_farewell_too(driver: ControllerDriver) -> None:
    """Who is to go may have led until just now, and not know that it does so no more."""
    driver.reassign(2, 1)
    assert driver.state().is_reassigning
    driver.alter_isr(1, 2)
    assert sets(driver) == {"replicas": (2, 1), "adding": (), "removing": (), "isr": (1, 2)}


def test_a_target_that_is_away_is_waited_for(driver: ControllerDriver) -> None:
    driver.beat(2, wants_fence=True)
    driver.reassign(1, 2)
    assert driver.state().is_reassigning
    driver.beat(2)
    driver.alter_isr(1, 3, 2)
    driver.alter_isr(1, 2)
    assert sets(driver) == {"replicas": (1, 2), "adding": (), "removing": (), "isr": (1, 2)}


def test_whoever_is_away_is_not_waited_for(driver: ControllerDriver) -> None:
    driver.reassign(1, 2)
    driver.beat(3, wants_fence=True)
    assert sets(driver) == {"replicas": (1, 2), "adding": (), "removing": (), "isr": (1, 2)}


def test_who_is_to_go_leads_while_nobody_who_is_to_stay_can(driver: ControllerDriver) -> None:
    driver.reassign(4)
    driver.alter_isr(1, 2, 3, 4)
    assert driver.state().leader == 4
    driver.beat(4, wants_fence=True)
    state = driver.state()
    assert (state.leader, state.is_reassigning) == (1, True)


def test_another_order_changes_the_preferred_leader_alone(driver: ControllerDriver) -> None:
    driver.reassign(3, 2, 1)
    state = driver.state()
    assert (state.replicas, state.leader, state.leader_epoch) == ((3, 2, 1), 1, 0)


def test_a_reassignment_is_cancelled(driver: ControllerDriver) -> None:
    driver.reassign(4, 5, 1)
    driver.alter_isr(1, 2, 3, 4)
    assert driver.cancel() is ErrorCode.NONE
    state = driver.state()
    assert sorted(state.replicas) == [1, 2, 3]
    assert (state.is_reassigning, state.isr) == (False, (1, 2, 3))
    assert driver.cancel() is ErrorCode.NO_REASSIGNMENT_IN_PROGRESS


def test_a_new_replica_that_leads_already_hands_back(driver: ControllerDriver) -> None:
    driver.reassign(4, 2)
    driver.alter_isr(1, 2, 3, 4)
    assert driver.state().leader == 4
    assert driver.cancel() is ErrorCode.NONE
    state = driver.state()
    assert (state.leader, state.removing_replicas) == (2, (4,))
    assert 4 in state.isr
    driver.alter_isr(1, 2, 3)
    state = driver.state()
    assert sorted(state.replicas) == [1, 2, 3]
    assert not state.is_reassigning


def test_a_cancel_that_would_lose_the_only_copies_is_refused(driver: ControllerDriver) -> None:
    driver.create("u", ((1,),))
    driver.reassign(4, 5, name="u")
    driver.alter_isr(1, 4, name="u")
    driver.beat(1, wants_fence=True)
    assert driver.state("u").isr == (4,)
    assert driver.cancel(name="u") is ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_a_target_is_replaced_and_who_had_nothing_goes_at_once(driver: ControllerDriver) -> None:
    driver.reassign(4, 2, 3)
    driver.reassign(5, 2, 3)
    assert sets(driver) == {
        "replicas": (5, 2, 3, 1),
        "adding": (5,),
        "removing": (1,),
        "isr": (1, 2, 3),
    }


def test_who_is_in_sync_is_kept_until_the_new_target_is(driver: ControllerDriver) -> None:
    driver.reassign(4, 5, 3)
    driver.alter_isr(1, 2, 3, 4)
    driver.reassign(5, 2, 3)
    assert sets(driver)["replicas"] == (5, 2, 3, 4, 1)
    driver.alter_isr(1, 2, 3, 4, 5)
    driver.alter_isr(2, 3, 5)
    assert sets(driver)["replicas"] == (5, 2, 3)


@pytest.mark.parametrize("target", [(), (1, 1), (9,)])
def test_a_target_that_can_not_be_is_refused(
    driver: ControllerDriver, target: tuple[int, ...]
) -> None:
    assert driver.reassign(*target) is ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_unknown_and_repeated_partitions_are_refused(driver: ControllerDriver) -> None:
    name = TopicPartition("t", 0)
    asked = [
        Reassignment(TopicPartition("t", 4), (NodeId(1),)),
        Reassignment(name, (NodeId(1), NodeId(2))),
        Reassignment(name, (NodeId(1),)),
    ]
    decision = driver.controller.reassign(asked)
    assert [outcome.error for outcome in decision.response] == [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NONE,
        ErrorCode.INVALID_REQUEST,
    ]


def test_the_number_of_replicas_may_be_held(driver: ControllerDriver) -> None:
    asked = [Reassignment(TopicPartition("t", 0), (NodeId(1), NodeId(4)))]
    decision = driver.controller.reassign(asked, may_change_factor=False)
    assert decision.response[0].error is ErrorCode.INVALID_REPLICATION_FACTOR


def test_what_is_being_moved_is_listed(driver: ControllerDriver) -> None:
    driver.create("u", ((1, 2), (2, 3)))
    driver.reassign(4, 2, name="u")
    moving = TopicPartition("u", 0)
    assert [state.name for state in driver.controller.list_reassignments(None)] == [moving]
    assert driver.controller.list_reassignments([TopicPartition("u", 1)]) == []


def test_a_drained_node_has_nothing_left(driver: ControllerDriver) -> None:
    driver.create("u", ((1, 2), (2, 1), (3, 4)))
    moves, stuck = plan_drain(driver.image, NodeId(1))
    assert stuck == []
    assert sorted(move.name for move in moves) == [("t", 0), ("u", 0), ("u", 1)]
    driver.commit(driver.controller.reassign(moves))
    for arrived in list(driver.image.partitions()):
        topic, number = arrived.name
        driver.alter_isr(*map(int, arrived.replicas), name=topic, partition=number)
        if driver.state(topic, number).is_reassigning:  # its leader has handed over
            driver.alter_isr(*map(int, arrived.target_replicas), name=topic, partition=number)
    assert all(NodeId(1) not in state.replicas for state in driver.image.partitions())
    assert not any(state.is_reassigning for state in driver.image.partitions())


def test_a_drain_says_what_has_nowhere_to_go() -> None:
    driver = ControllerDriver()
    driver.start(1, 2)
    driver.create("t", ((1, 2),))
    driver.create("u", ((1,),))
    moves, stuck = plan_drain(driver.image, NodeId(1))
    assert stuck == [TopicPartition("t", 0)]
    assert moves == [Reassignment(TopicPartition("u", 0), (NodeId(2),))]


def test_a_drain_keeps_racks_apart() -> None:
    driver = ControllerDriver()
    driver.start(1, 2, 3, 4, rack1="a", rack2="b", rack3="b", rack4="c")
    driver.create(replicas=((1, 2),))
    moves, _ = plan_drain(driver.image, NodeId(1))
    assert moves == [Reassignment(TopicPartition("t", 0), (NodeId(4), NodeId(2)))]


def test_a_new_node_gets_its_share_with_few_moves() -> None:
    driver = ControllerDriver()
    driver.start(1, 2)
    driver.create(replicas=((1,), (2,)) * 6)
    driver.start(3)
    moves = plan_spread(driver.image)
    driver.commit(driver.controller.reassign(moves))
    targets = [state.target_replicas[0] for state in driver.image.partitions()]
    assert len(moves) == 4
    assert [targets.count(NodeId(node)) for node in (1, 2, 3)] == [4, 4, 4]
    assert plan_spread(driver.image) == []


def test_spreading_puts_no_two_copies_into_one_rack() -> None:
    driver = ControllerDriver()
    driver.start(1, 2, 3, rack1="a", rack2="b", rack3="b")
    driver.create(replicas=((1, 2),) * 4)
    driver.commit(driver.controller.reassign(plan_spread(driver.image)))
    racks = [
        {driver.image.nodes[node].rack for node in state.target_replicas}
        for state in driver.image.partitions()
    ]
    assert racks == [{"a", "b"}] * 4
    copies = [node for state in driver.image.partitions() for node in state.target_replicas]
    assert [copies.count(NodeId(node)) for node in (1, 2, 3)] == [4, 2, 2]
