"""Heartbeats: who is alive, who is fenced, and who may go."""

from __future__ import annotations

import pytest
from tests.support.controller_driver import SESSION_MS, ControllerDriver

from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NO_LEADER, NodeId

ONE, TWO, THREE = NodeId(1), NodeId(2), NodeId(3)


@pytest.fixture
def driver() -> ControllerDriver:
    driver = ControllerDriver()
    driver.start(1, 2, 3)
    return driver


def fenced(driver: ControllerDriver) -> list[int]:
    return [node_id for node_id, node in driver.image.nodes.items() if node.is_fenced]


def test_a_silent_node_is_fenced_when_its_session_is_over(driver: ControllerDriver) -> None:
    driver.advance(SESSION_MS - 500, alive=(1, 2))
    assert fenced(driver) == []
    driver.advance(500, alive=(1, 2))
    assert fenced(driver) == [THREE]


def test_the_deadline_is_the_first_session_to_end(driver: ControllerDriver) -> None:
    driver.advance(1000, alive=(1, 2))
    assert driver.controller.next_deadline() == SESSION_MS
    driver.advance(SESSION_MS, alive=(1, 2))
    assert driver.controller.next_deadline() == driver.now_ms + SESSION_MS


def test_all_sessions_may_end_at_once(driver: ControllerDriver) -> None:
    driver.create()
    driver.advance(SESSION_MS)
    assert fenced(driver) == [ONE, TWO, THREE]
    assert driver.state().leader == NO_LEADER


def test_a_new_controller_gives_everybody_a_full_session(driver: ControllerDriver) -> None:
    driver.advance(SESSION_MS - 500, alive=(1, 2))
    driver.fail_over()
    driver.advance(SESSION_MS - 500, alive=(1, 2))
    assert fenced(driver) == []
    driver.advance(500, alive=(1, 2))
    assert fenced(driver) == [THREE]


def test_a_node_heard_of_again_is_let_in(driver: ControllerDriver) -> None:
    driver.advance(SESSION_MS, alive=(1, 2))
    assert not driver.beat(3).is_fenced
    assert fenced(driver) == []


def test_a_node_that_was_away_has_to_know_what_it_leads_no_more(driver: ControllerDriver) -> None:
    """Else it would have a session again, and go on where it was."""
    driver.create()
    before = driver.offset
    driver.advance(SESSION_MS, alive=(2, 3))
    assert driver.state().leader == TWO
    assert driver.beat(1, seen=before).is_fenced
    assert fenced(driver) == [ONE]
    assert not driver.beat(1).is_fenced


def test_a_leader_that_was_replaced_while_alive_has_to_know_it(driver: ControllerDriver) -> None:
    """Its disk may be slow, and its heartbeats are not: they bring no lease until then."""
    driver.create()
    before = driver.offset
    driver.reassign(TWO, THREE)
    assert driver.state().leader == TWO
    told = driver.beat(1, seen=before)
    assert (told.is_fenced, told.is_caught_up) == (False, False)
    assert driver.beat(3, seen=before).is_caught_up, "it is not concerned"
    assert driver.beat(1).is_caught_up


@pytest.mark.parametrize("epoch", [-1, 0, 2, 77])
def test_a_stale_broker_epoch_is_refused_and_keeps_nobody_alive(
    driver: ControllerDriver, epoch: int
) -> None:
    driver.advance(SESSION_MS - 500, alive=(1, 2))
    assert driver.beat(3, epoch=epoch).error is ErrorCode.STALE_BROKER_EPOCH
    driver.advance(500, alive=(1, 2))
    assert fenced(driver) == [THREE]


def test_a_node_may_ask_to_be_fenced(driver: ControllerDriver) -> None:
    driver.create()
    outcome = driver.beat(1, wants_fence=True)
    assert outcome.is_fenced
    assert driver.state().leader == TWO
    assert driver.beat(1, wants_fence=True).is_fenced


def test_leaders_move_before_a_node_may_go(driver: ControllerDriver) -> None:
    driver.create()
    outcome = driver.beat(1, wants_shutdown=True)
    assert (outcome.is_fenced, outcome.should_shut_down) == (False, False)
    assert driver.state().leader == TWO
    assert ONE not in driver.state().isr
    assert not driver.beat(1, wants_shutdown=True).should_shut_down
    driver.beat(2)
    assert not driver.beat(1, wants_shutdown=True).should_shut_down
    driver.beat(3)
    outcome = driver.beat(1, wants_shutdown=True)
    assert (outcome.is_fenced, outcome.should_shut_down) == (True, True)
    assert fenced(driver) == [ONE]


def test_a_node_that_is_away_keeps_nobody_from_going(driver: ControllerDriver) -> None:
    driver.beat(3, wants_fence=True)
    driver.beat(1, wants_shutdown=True)
    driver.beat(2)
    assert driver.beat(1, wants_shutdown=True).should_shut_down


def test_a_fenced_node_may_go_at_once(driver: ControllerDriver) -> None:
    driver.beat(1, wants_fence=True)
    assert driver.beat(1, wants_shutdown=True).should_shut_down


def test_a_node_that_shuts_down_gets_nothing_new(driver: ControllerDriver) -> None:
    driver.beat(1, wants_shutdown=True)
    driver.create()
    assert (driver.state().leader, driver.state().isr) == (TWO, (TWO, THREE))
    assert driver.alter_isr(2, 3, 1).error is ErrorCode.INELIGIBLE_REPLICA


def test_a_node_that_went_cleanly_may_come_back_at_once(driver: ControllerDriver) -> None:
    epoch = driver.epochs[ONE]
    driver.beat(1, wants_shutdown=True)
    outcome = driver.register(1, previous_epoch=epoch)
    assert outcome.error is ErrorCode.NONE
    assert not driver.beat(1).is_fenced
    assert not driver.image.nodes[ONE].is_shutting_down


def test_what_is_known_of_sessions_can_be_printed(driver: ControllerDriver) -> None:
    described = driver.controller.describe()
    assert [row["node_id"] for row in described["sessions"]] == [1, 2, 3]  # type: ignore[attr-defined]


def test_the_node_of_the_former_controller_gets_a_moment() -> None:
    driver = ControllerDriver()
    driver.start(1, 2, 3)
    driver.create()
    driver.controller.begin(driver.now_ms, driver.offset, former=NodeId(1))
    assert not driver.image.nodes[NodeId(1)].is_fenced
    driver.advance(500, alive=(2,))
    assert driver.image.nodes[NodeId(1)].is_fenced
    assert driver.state().leader == NodeId(2)
    driver.advance(2000, alive=(2,))
    assert not driver.image.nodes[NodeId(3)].is_fenced
    driver.advance(1000, alive=(2,))
    assert driver.image.nodes[NodeId(3)].is_fenced


def test_a_node_whose_connection_is_closed_is_waited_for_until_its_lease_is_over() -> None:
    driver = ControllerDriver()
    driver.start(1, 2, 3)
    driver.controller.lost_touch(NodeId(1))
    driver.controller.lost_touch(NodeId(1))
    driver.advance(1500, alive=(2, 3))
    assert not driver.image.nodes[NodeId(1)].is_fenced
    driver.advance(500, alive=(2, 3))
    assert driver.image.nodes[NodeId(1)].is_fenced


def test_a_node_that_is_heard_of_on_another_connection_has_a_full_session() -> None:
    driver = ControllerDriver()
    driver.start(1, 2, 3)
    driver.controller.lost_touch(NodeId(1))
    driver.beat(1)
    driver.advance(2500, alive=(2, 3))
    assert not driver.image.nodes[NodeId(1)].is_fenced


# --- where nodes have a session elsewhere, too ---------------------------------------------------


def test_nobody_who_is_present_is_fenced_however_silent(driver: ControllerDriver) -> None:
    driver.see(1, 2, 3)
    driver.advance(3 * SESSION_MS, alive=(1, 2))
    assert fenced(driver) == []
    assert driver.controller.next_deadline() is None
    driver.see(1, 2)
    driver.advance(500, alive=(1, 2))
    assert fenced(driver) == [THREE]


def test_who_is_gone_keeps_what_it_leads_until_it_was_not_heard_of_for_a_session(
    driver: ControllerDriver,
) -> None:
    driver.see(1, 2)
    driver.advance(SESSION_MS - 500, alive=(1, 2))
    assert fenced(driver) == []
    driver.advance(500, alive=(1, 2))
    assert fenced(driver) == [THREE]


def test_who_is_not_present_is_neither_kept_alive_nor_let_in(driver: ControllerDriver) -> None:
    driver.see(1, 2)
    for _ in range(6):
        assert driver.beat(3).error is ErrorCode.BROKER_NOT_AVAILABLE
        driver.advance(500, alive=(1, 2))
    assert fenced(driver) == [THREE]
    assert driver.beat(3).error is ErrorCode.BROKER_NOT_AVAILABLE
    driver.see(1, 2, 3)
    assert not driver.beat(3).is_fenced


def test_a_new_controller_waits_for_promises_of_one_that_was_not_certain(
    driver: ControllerDriver,
) -> None:
    driver.see(1, 2)
    driver.fail_over()
    driver.advance(2 * SESSION_MS - 500, alive=(1, 2))
    assert fenced(driver) == []
    driver.advance(500, alive=(1, 2))
    assert fenced(driver) == [THREE]


def test_an_uncertain_controller_promises_only_if_all_are_cut_off(
    driver: ControllerDriver,
) -> None:
    driver.see(1, 2, 3)

    def refused(*nodes: int, cut_off: tuple[int, ...] = (1, 2, 3)) -> list[int]:
        said = {n: driver.beat(n, is_cut_off=n in cut_off, is_certain=False) for n in nodes}
        return [n for n, outcome in said.items() if outcome.error is not ErrorCode.NONE]

    assert refused(1, 2) == [1, 2], "the third has not said so"
    assert refused(3, 1, 2) == []
    assert refused(1, 2, 3, cut_off=(1, 2)) == [3], "the third is in touch"
    assert refused(1, 2, cut_off=(1, 2)) == [1, 2]
    assert refused(3, 1) == []
    driver.now_ms += SESSION_MS
    assert refused(1, 2) == [1, 2], "what the third said is too long ago"


def test_a_fenced_node_does_not_keep_an_uncertain_controller_from_promising(
    driver: ControllerDriver,
) -> None:
    driver.advance(SESSION_MS, alive=(1, 2))
    driver.see(1, 2)
    driver.beat(1, is_cut_off=True, is_certain=False)
    driver.beat(2, is_cut_off=True, is_certain=False)
    assert driver.beat(1, is_cut_off=True, is_certain=False).error is ErrorCode.NONE


def test_who_holds_the_directory_of_the_last_one_registers_without_waiting(
    driver: ControllerDriver,
) -> None:
    last = driver.epochs[THREE]
    assert driver.register(3, previous_epoch=last).error is (
        ErrorCode.DUPLICATE_BROKER_REGISTRATION
    )
    driver.see(1, 2, 3)
    other = driver.register(3, previous_epoch=last - 1)
    assert other.error is ErrorCode.DUPLICATE_BROKER_REGISTRATION
    assert driver.register(3, previous_epoch=last).epoch > last


def test_a_controller_that_was_late_itself_fences_nobody_for_that(driver: ControllerDriver) -> None:
    """It was stopped for longer than a session: the heartbeats of that time wait to be read."""
    driver.advance(500, alive=(1, 2, 3))
    driver.now_ms += 2 * SESSION_MS
    driver.controller.was_late(2 * SESSION_MS - 1000, driver.now_ms)
    driver.advance(0)
    assert fenced(driver) == []
    driver.advance(SESSION_MS - 1000, alive=(1, 2))
    assert fenced(driver) == [THREE], "the time in which it listened counts"


def test_being_late_makes_no_session_longer_than_a_new_one(driver: ControllerDriver) -> None:
    for _ in range(5):
        driver.controller.was_late(SESSION_MS, driver.now_ms)
    assert driver.controller.next_deadline() == driver.now_ms + SESSION_MS
