"""Registration: a new epoch each time, one process per node id, and who is believed."""

from __future__ import annotations

from random import Random
from uuid import UUID

import pytest
from tests.support.controller_driver import RULES, SESSION_MS, ControllerDriver

from tidelog.controller.controller import Controller
from tidelog.controller.registry import Registration, decide_register
from tidelog.controller.topics import TopicSpec
from tidelog.metadata.image import Image, Listener
from tidelog.metadata.records import NodeRecord
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NO_BROKER_EPOCH, NO_LEADER, BrokerEpoch, NodeId
from tidelog.model.limits import MAX_NODES

ONE, TWO, THREE = NodeId(1), NodeId(2), NodeId(3)
LISTENERS = (Listener("PLAINTEXT", "h", 9092), Listener("INTERNAL", "i", 9093))


@pytest.fixture
def driver() -> ControllerDriver:
    driver = ControllerDriver()
    driver.start(1, 2, 3)
    return driver


def die(driver: ControllerDriver, node: int) -> int:
    """The session ends; gives the epoch of the life that ended."""
    others = tuple(each for each in (1, 2, 3) if each != node)
    driver.advance(SESSION_MS, alive=others)
    assert driver.image.nodes[NodeId(node)].is_fenced
    return driver.epochs[NodeId(node)]


def test_broker_epochs_grow_over_all_nodes(driver: ControllerDriver) -> None:
    assert [driver.epochs[node] for node in (ONE, TWO, THREE)] == [1, 2, 3]
    die(driver, 1)
    assert driver.register(1).epoch == 4


def test_epochs_are_not_given_again_after_a_node_is_forgotten(driver: ControllerDriver) -> None:
    die(driver, 3)
    driver.commit(driver.controller.unregister(THREE))
    driver.fail_over()
    assert driver.register(3).epoch == 4


def test_a_registered_node_is_fenced_until_it_has_caught_up(driver: ControllerDriver) -> None:
    driver.register(4)
    assert driver.image.nodes[NodeId(4)].is_fenced
    outcome = driver.beat(4, seen=driver.offset - 1)
    assert (outcome.is_fenced, outcome.is_caught_up) == (True, False)
    outcome = driver.beat(4)
    assert (outcome.is_fenced, outcome.is_caught_up) == (False, True)


def test_a_second_process_of_the_same_id_is_refused(driver: ControllerDriver) -> None:
    assert driver.register(1).error is ErrorCode.DUPLICATE_BROKER_REGISTRATION
    die(driver, 1)
    assert driver.register(1).error is ErrorCode.NONE


def test_the_same_process_again_gets_the_same_answer(driver: ControllerDriver) -> None:
    first = driver.register(4, incarnation=UUID(int=99))
    length = len(driver.log)
    assert driver.register(4, incarnation=UUID(int=99)) == first
    assert len(driver.log) == length


def test_a_new_controller_lets_nobody_replace_a_node_at_once(driver: ControllerDriver) -> None:
    driver.advance(SESSION_MS - 500, alive=(2, 3))
    driver.fail_over()
    assert driver.register(1).error is ErrorCode.DUPLICATE_BROKER_REGISTRATION


@pytest.mark.parametrize(
    ("asked", "error"),
    [
        (Registration(ONE, (), cluster_id="c"), ErrorCode.INVALID_REGISTRATION),
        (Registration(NodeId(-1), LISTENERS), ErrorCode.INVALID_REGISTRATION),
        (Registration(ONE, LISTENERS, cluster_id="d"), ErrorCode.INCONSISTENT_CLUSTER_ID),
        (Registration(ONE, LISTENERS, cluster_id="c"), ErrorCode.NONE),
    ],
)
def test_a_registration_is_checked(asked: Registration, error: ErrorCode) -> None:
    decision = decide_register(Image(cluster_id="c"), asked, has_session=False)
    assert decision.response.error is error
    assert bool(decision.records) is (error is ErrorCode.NONE)


def test_there_is_an_end_to_nodes() -> None:
    full, _ = Image().replay(
        [
            NodeRecord(node_id=n, host="h", port=1, rack=None, epoch=n + 1, is_fenced=True)
            for n in range(MAX_NODES)
        ]
    )
    one_more = Registration(NodeId(MAX_NODES), LISTENERS)
    decision = decide_register(full, one_more, has_session=False)
    assert decision.response.error is ErrorCode.INVALID_REGISTRATION
    known = decide_register(full, Registration(ONE, LISTENERS), has_session=False)
    assert known.response.error is ErrorCode.NONE


def test_all_addresses_are_kept_and_the_first_is_for_clients() -> None:
    decision = decide_register(Image(), Registration(ONE, LISTENERS, rack="r"), has_session=False)
    image, _ = Image().replay(decision.records)
    node = image.nodes[ONE]
    assert (node.host, node.port, node.rack, node.listeners) == ("h", 9092, "r", LISTENERS)


def test_after_a_clean_stop_a_node_stays_eligible(driver: ControllerDriver) -> None:
    driver.create(replicas=((1, 2),), min_insync_replicas="2")
    epoch = die(driver, 1)
    assert driver.state().elr == (ONE,)
    driver.register(1, previous_epoch=epoch)
    assert driver.state().elr == (ONE,)


@pytest.mark.parametrize("previous", [NO_BROKER_EPOCH, 2, 77])
def test_otherwise_it_is_eligible_nowhere(driver: ControllerDriver, previous: int) -> None:
    driver.create(replicas=((1, 2),), min_insync_replicas="2")
    die(driver, 1)
    driver.register(1, previous_epoch=previous)
    state = driver.state()
    assert (state.isr, state.elr, state.last_known_elr) == ((TWO,), (), (ONE,))


def test_the_last_replica_is_not_elected_after_a_crash(driver: ControllerDriver) -> None:
    driver.create(replicas=((1, 2),))
    driver.alter_isr(1)
    die(driver, 1)
    driver.register(1)
    driver.beat(1)
    state = driver.state()
    assert (state.leader, state.elr, state.last_known_elr) == (NO_LEADER, (), (ONE,))


def test_a_crash_costs_nothing_that_was_flushed_first(driver: ControllerDriver) -> None:
    driver.create(replicas=((1, 2),), min_insync_replicas="2")
    epoch = die(driver, 1)
    driver.register(1, previous_epoch=epoch, has_crashed=True)
    assert driver.state().elr == (ONE,)


def test_a_crash_may_cost_what_was_not(driver: ControllerDriver) -> None:
    driver.create(replicas=((1, 2),), min_insync_replicas="2", flush_policy="os")
    epoch = die(driver, 1)
    driver.register(1, previous_epoch=epoch, has_crashed=True)
    state = driver.state()
    assert (state.isr, state.elr, state.last_known_elr) == ((TWO,), (), (ONE,))


@pytest.mark.parametrize("is_known", [True, False], ids=["known directory", "another directory"])
def test_after_crashes_of_all_the_last_of_them_leads(
    driver: ControllerDriver, is_known: bool
) -> None:
    driver.create(replicas=((1, 2, 3),), min_insync_replicas="2", flush_policy="os")
    driver.advance(SESSION_MS)
    lives = [driver.epochs[node] for node in (ONE, TWO, THREE)]
    for node, epoch in zip((3, 1, 2), (lives[2], lives[0], lives[1]), strict=True):
        is_vouched = is_known or node != 2
        previous = epoch if is_vouched else NO_BROKER_EPOCH
        driver.register(node, previous_epoch=previous, has_crashed=True)
    assert driver.state().elr == ((TWO,) if is_known else ())
    for node in (1, 3, 2):
        assert driver.state().leader == NO_LEADER
        driver.beat(node)
    state = driver.state()
    assert (state.leader, state.isr) == ((TWO, (TWO,)) if is_known else (NO_LEADER, ()))


def test_the_only_replica_goes_on_leading_after_a_crash(driver: ControllerDriver) -> None:
    driver.create(replicas=((1,),))
    die(driver, 1)
    assert driver.state().leader == NO_LEADER
    driver.register(1)
    driver.beat(1)
    state = driver.state()
    assert (state.leader, state.isr, state.leader_epoch) == (ONE, (ONE,), 2)


def test_a_replica_that_is_just_being_added_makes_no_difference(driver: ControllerDriver) -> None:
    driver.create(replicas=((1,),))
    assert driver.reassign(2) is ErrorCode.NONE
    die(driver, 1)
    driver.register(1)
    driver.beat(1)
    assert driver.state().leader == ONE


def test_an_unregistered_node_is_in_no_isr_and_stays_a_replica(driver: ControllerDriver) -> None:
    driver.create(min_insync_replicas="3")
    assert driver.controller.unregister(THREE).response is ErrorCode.INVALID_REQUEST
    die(driver, 3)
    assert driver.state().elr == (THREE,)
    driver.commit(driver.controller.unregister(THREE))
    state = driver.state()
    assert (state.replicas, state.isr, state.elr) == ((ONE, TWO, THREE), (ONE, TWO), ())
    assert THREE not in driver.image.nodes
    assert driver.controller.unregister(THREE).response is ErrorCode.BROKER_ID_NOT_REGISTERED


def alone(image: Image, *, previous_epoch: int = NO_BROKER_EPOCH) -> Controller:
    """The next start of a node that is its own controller."""
    controller = Controller(image, RULES, Random(1))
    asked = Registration(ONE, LISTENERS, previous_epoch=BrokerEpoch(previous_epoch))
    controller.appended(controller.start_alone(asked).records)
    controller.image.validate()
    return controller


def test_a_node_alone_leads_on_after_a_clean_stop_in_the_same_epoch() -> None:
    controller = alone(Image())
    controller.appended(controller.create_topics([TopicSpec("t")]).records)
    controller = alone(controller.image, previous_epoch=1)
    state = controller.image.topics["t"].partitions[0]
    assert (state.leader, state.leader_epoch) == (ONE, 0)
    assert controller.image.nodes[ONE].epoch == 2


def test_a_node_alone_leads_on_after_a_crash_in_the_next_epoch() -> None:
    controller = alone(Image())
    controller.appended(controller.create_topics([TopicSpec("t")]).records)
    controller = alone(controller.image)
    state = controller.image.topics["t"].partitions[0]
    assert (state.leader, state.isr, state.leader_epoch) == (ONE, (ONE,), 1)


def test_producer_ids_are_given_to_the_registered_process_only(driver: ControllerDriver) -> None:
    blocks = []
    for node in (ONE, TWO):
        decision = driver.controller.allocate_producer_ids_for(node, driver.epochs[node])
        driver.commit(decision)
        blocks.append(decision.response)
    assert blocks == [range(1000), range(1000, 2000)]
    refused = driver.controller.allocate_producer_ids_for(ONE, driver.epochs[TWO])
    assert (refused.records, refused.response) == ([], ErrorCode.STALE_BROKER_EPOCH)
