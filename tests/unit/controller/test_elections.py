"""Who leads: from the ISR, else from those who are eligible, else nobody; and what it costs."""

from __future__ import annotations

import pytest
from tests.support.controller_driver import SESSION_MS, ControllerDriver

from tidelog.controller.configs import ConfigChange, Operation
from tidelog.controller.elect_leaders import plan_leader_rebalance
from tidelog.controller.elections import Election, choose_leader, choose_unclean_leader
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NO_LEADER, NodeId, TopicPartition

ONE, TWO, THREE = NodeId(1), NodeId(2), NodeId(3)


@pytest.fixture
def driver() -> ControllerDriver:
    driver = ControllerDriver()
    driver.start(1, 2, 3)
    return driver


def fence(driver: ControllerDriver, *nodes: int) -> None:
    for node in nodes:
        driver.beat(node, wants_fence=True)


def test_the_first_replica_in_sync_leads() -> None:
    chosen = choose_leader(
        [THREE, ONE, TWO], isr=[TWO, ONE], eligible=[THREE], is_usable=lambda _: True
    )
    assert chosen == ONE


def test_an_eligible_replica_leads_if_nobody_in_sync_can() -> None:
    chosen = choose_leader(
        [THREE, ONE, TWO], isr=[ONE], eligible=[TWO], is_usable=lambda node: node != ONE
    )
    assert chosen == TWO


def test_nobody_leads_rather_than_one_that_may_lack_records() -> None:
    chosen = choose_leader([THREE, ONE], isr=[], eligible=[], is_usable=lambda _: True)
    assert chosen == NO_LEADER


def test_an_unclean_election_prefers_who_lost_its_standing_last() -> None:
    chosen = choose_unclean_leader(
        [THREE, ONE, TWO], last_known=[ONE, TWO], is_usable=lambda _: True
    )
    assert chosen == TWO


def test_a_fenced_leader_is_replaced_and_both_epochs_grow(driver: ControllerDriver) -> None:
    driver.create()
    fence(driver, 1)
    state = driver.state()
    assert (state.leader, state.isr) == (TWO, (TWO, THREE))
    assert (state.leader_epoch, state.partition_epoch) == (1, 1)


def test_a_fenced_follower_changes_the_partition_epoch_alone(driver: ControllerDriver) -> None:
    driver.create()
    fence(driver, 3)
    state = driver.state()
    assert (state.leader, state.isr) == (ONE, (ONE, TWO))
    assert (state.leader_epoch, state.partition_epoch) == (0, 1)


def test_who_leaves_while_enough_stay_is_not_eligible(driver: ControllerDriver) -> None:
    driver.create(min_insync_replicas="2")
    fence(driver, 3)
    assert driver.state().elr == ()


def test_who_leaves_when_too_few_stay_is_eligible(driver: ControllerDriver) -> None:
    driver.create(min_insync_replicas="2")
    fence(driver, 3, 2)
    assert (driver.state().isr, driver.state().elr) == ((ONE,), (TWO,))


def test_enough_in_sync_again_ends_eligibility(driver: ControllerDriver) -> None:
    driver.create(min_insync_replicas="2")
    fence(driver, 3, 2)
    driver.beat(3)
    assert driver.alter_isr(1, 3).error is ErrorCode.NONE
    assert (driver.state().isr, driver.state().elr) == ((ONE, THREE), ())


def test_the_last_in_sync_is_eligible_while_away_and_leads_when_back(
    driver: ControllerDriver,
) -> None:
    driver.create()
    fence(driver, 1, 2, 3)
    state = driver.state()
    assert (state.leader, state.isr, state.elr) == (NO_LEADER, (), (THREE,))
    driver.beat(1)
    assert driver.state().leader == NO_LEADER
    driver.beat(3)
    state = driver.state()
    assert (state.leader, state.isr, state.elr) == (THREE, (THREE,), ())


def test_an_unclean_topic_elects_whoever_is_alive(driver: ControllerDriver) -> None:
    driver.create(unclean_leader_election_enable="true")
    driver.alter_isr(1)
    fence(driver, 1)
    state = driver.state()
    assert (state.leader, state.isr, state.elr) == (TWO, (TWO,), ())


def test_a_clean_topic_waits(driver: ControllerDriver) -> None:
    driver.create()
    driver.alter_isr(1)
    fence(driver, 1)
    assert driver.state().leader == NO_LEADER


def test_allowing_unclean_elections_elects_at_once(driver: ControllerDriver) -> None:
    driver.create()
    driver.alter_isr(1)
    fence(driver, 1)
    change = ConfigChange("unclean.leader.election.enable", Operation.SET, "true")
    driver.commit(driver.controller.alter_topic("t", [change], defaults={}))
    assert driver.state().leader == TWO


def test_asking_for_fewer_in_sync_ends_eligibility_in_the_same_decision(
    driver: ControllerDriver,
) -> None:
    driver.create(min_insync_replicas="2")
    fence(driver, 3, 2)
    change = ConfigChange("min.insync.replicas", Operation.SET, "1")
    driver.commit(driver.controller.alter_topic("t", [change], defaults={}))
    assert (driver.state().isr, driver.state().elr) == ((ONE,), ())


def test_the_controllers_default_holds_for_topics_that_say_nothing(
    driver: ControllerDriver,
) -> None:
    given = {"min.insync.replicas": "2", "flush.policy": "os", "segment.bytes": "4096"}
    driver.commit(driver.controller.adopt_defaults(given))
    assert driver.image.defaults == {"min.insync.replicas": "2", "flush.policy": "os"}
    driver.create()
    fence(driver, 3, 2)
    assert driver.state().elr == (TWO,)
    driver.commit(driver.controller.adopt_defaults({}))
    assert driver.state().elr == ()
    assert driver.controller.adopt_defaults({}).records == []


def test_an_unclean_election_on_request_takes_who_is_there(driver: ControllerDriver) -> None:
    driver.create()
    driver.alter_isr(1)
    fence(driver, 1)
    name = TopicPartition("t", 0)
    decision = driver.controller.elect_leaders([name], Election.UNCLEAN)
    driver.commit(decision)
    assert [outcome.error for outcome in decision.response] == [ErrorCode.NONE]
    assert driver.state().leader == TWO


def test_elections_that_can_not_be_are_refused(driver: ControllerDriver) -> None:
    driver.create()
    name = TopicPartition("t", 0)

    def errors(election: Election, *names: TopicPartition) -> list[ErrorCode]:
        decision = driver.controller.elect_leaders(names, election)
        driver.commit(decision)
        return [outcome.error for outcome in decision.response]

    assert errors(Election.PREFERRED, name) == [ErrorCode.ELECTION_NOT_NEEDED]
    assert errors(Election.UNCLEAN, name) == [ErrorCode.ELECTION_NOT_NEEDED]
    unknown = [TopicPartition("t", 9), TopicPartition("u", 0)]
    assert errors(Election.PREFERRED, *unknown) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 2
    fence(driver, 1)
    assert errors(Election.PREFERRED, name) == [ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE]
    fence(driver, 2, 3)
    assert errors(Election.UNCLEAN, name) == [ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE]


def test_asked_for_all_the_answer_has_only_those_that_needed_it(driver: ControllerDriver) -> None:
    driver.create(replicas=((1, 2, 3), (2, 3, 1)))
    fence(driver, 1)
    driver.beat(1)
    driver.alter_isr(2, 3, 1)
    decision = driver.controller.elect_leaders(None, Election.PREFERRED)
    driver.commit(decision)
    assert [outcome.name.partition for outcome in decision.response] == [0]
    assert driver.state().leader == ONE


def test_leaders_go_home_once_in_sync(driver: ControllerDriver) -> None:
    driver.create()
    fence(driver, 1)
    driver.beat(1)
    assert plan_leader_rebalance(driver.image) == []
    driver.alter_isr(2, 3, 1)
    driver.log += (records := plan_leader_rebalance(driver.image))
    driver.controller.appended(records, driver.offset)
    assert driver.state().leader == ONE


def test_leaders_go_home_by_themselves_after_a_while() -> None:
    driver = ControllerDriver(rebalance_interval_ms=60_000)
    driver.start(1, 2, 3)
    driver.create()
    fence(driver, 1)
    driver.beat(1)
    driver.alter_isr(2, 3, 1)
    driver.advance(60_000 - SESSION_MS, alive=(1, 2, 3))
    assert driver.state().leader == TWO
    driver.advance(SESSION_MS, alive=(1, 2, 3))
    assert driver.state().leader == ONE
