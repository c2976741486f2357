"""Who leads: from the ISR, else from those who are eligible, else nobody; and what it costs."""

from __future__ import annotations

import pytest
from tests.support.controller_driver import SESSION_MS, ControllerDriver

from tidelog.controller.configs import ConfigChange, Operation
from tidelog.controller.elect_leaders import plan_leader_rebalance
from tidelog.controller.elections import Election, choose_leader, choose_unclean_leader
from tidelog.controller.log_ends import LogEnd, LogEnds
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import (
    NO_LEADER,
    BrokerEpoch,
    LeaderEpoch,
    NodeId,
    Offset,
    TopicPartition,
)
from tidelog.model.safeguards import ALL_SAFEGUARDS, Safeguard

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


def test_an_unclean_election_takes_the_fullest_log() -> None:
    def chosen(**ends: tuple[int, int]) -> NodeId:
        numbers = {"one": ONE, "two": TWO, "three": THREE}
        return choose_unclean_leader(
            [THREE, ONE, TWO],
            last_known=[ONE, TWO],
            is_usable=lambda _: True,
            log_ends={numbers[name]: log_end(*end) for name, end in ends.items()},
        )

    assert chosen(one=(3, 10), two=(-1, 0), three=(3, 9)) == ONE
    assert chosen(one=(3, 10), two=(4, 2), three=(3, 9)) == TWO
    assert chosen(three=(0, 1)) == THREE, "who says nothing comes after all that do"
    assert chosen(one=(3, 10), two=(3, 10), three=(3, 10)) == TWO, "the last that was eligible"
    assert chosen(one=(3, 10), three=(3, 10)) == ONE
    assert chosen() == TWO


def log_end(last_epoch: int, end: int, *, broker_epoch: int = 1) -> LogEnd:
    return LogEnd(BrokerEpoch(broker_epoch), LeaderEpoch(last_epoch), Offset(end))


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


def elect_waiting(driver: ControllerDriver, **ends: tuple[int, int]) -> None:
    """With what the nodes say that they have, under their present registrations."""
    (state,) = driver.controller.waiting_for_log_ends()
    numbers = {"one": ONE, "two": TWO, "three": THREE}
    told = {
        numbers[name]: log_end(*end, broker_epoch=driver.epochs[numbers[name]])
        for name, end in ends.items()
    }
    log_ends = {state.key: LogEnds(state.leader_epoch, told)}
    driver.commit(driver.controller.elect_waiting(log_ends))


def test_an_unclean_topic_elects_the_fullest_once_it_was_told(driver: ControllerDriver) -> None:
    driver.create(unclean_leader_election_enable="true")
    driver.alter_isr(1)
    fence(driver, 1)
    assert driver.state().leader == NO_LEADER
    elect_waiting(driver, two=(0, 5), three=(0, 7))
    state = driver.state()
    assert (state.leader, state.isr, state.elr) == (THREE, (THREE,), ())
    assert driver.controller.waiting_for_log_ends() == []


def test_an_unclean_topic_elects_the_only_one_that_is_up_at_once(driver: ControllerDriver) -> None:
    driver.create(unclean_leader_election_enable="true")
    driver.alter_isr(1)
    fence(driver, 3, 1)
    assert driver.state().leader == TWO


def test_who_is_left_of_several_that_were_to_be_asked_is_elected(driver: ControllerDriver) -> None:
    driver.create(unclean_leader_election_enable="true")
    driver.alter_isr(1)
    fence(driver, 1, 2)
    assert driver.state().leader == NO_LEADER
    elect_waiting(driver)
    assert driver.state().leader == THREE


def test_what_was_told_before_a_node_registered_again_does_not_count(
    driver: ControllerDriver,
) -> None:
    driver.create(unclean_leader_election_enable="true")
    driver.alter_isr(1)
    fence(driver, 1)
    (state,) = driver.controller.waiting_for_log_ends()
    ends = {
        TWO: log_end(0, 9, broker_epoch=driver.epochs[TWO]),
        THREE: log_end(0, 7, broker_epoch=driver.epochs[THREE]),
    }
    driver.advance(SESSION_MS, alive=(3,))
    driver.start(2)
    log_ends = {state.key: LogEnds(state.leader_epoch, ends)}
    driver.commit(driver.controller.elect_waiting(log_ends))
    assert driver.state().leader == THREE


def test_a_new_controller_knows_who_waits(driver: ControllerDriver) -> None:
    driver.create(unclean_leader_election_enable="true")
    driver.alter_isr(1)
    fence(driver, 1)
    driver.fail_over()
    elect_waiting(driver, two=(0, 5), three=(0, 7))
    assert driver.state().leader == THREE


def test_without_the_safeguard_an_empty_log_is_elected() -> None:
    driver = ControllerDriver(safeguards=ALL_SAFEGUARDS - {Safeguard.UNCLEAN_BY_LOG})
    driver.start(1, 2, 3)
    driver.create(unclean_leader_election_enable="true")
    driver.alter_isr(1)
    fence(driver, 1)
    assert driver.state().leader == TWO


def test_a_clean_topic_waits(driver: ControllerDriver) -> None:
    driver.create()
    driver.alter_isr(1)
    fence(driver, 1)
    assert driver.state().leader == NO_LEADER


def test_allowing_unclean_elections_elects_what_nobody_leads(driver: ControllerDriver) -> None:
    driver.create()
    driver.alter_isr(1)
    fence(driver, 1)
    change = ConfigChange("unclean.leader.election.enable", Operation.SET, "true")
    assert driver.controller.waiting_for_log_ends() == []
    driver.commit(driver.controller.alter_topic("t", [change], defaults={}))
    elect_waiting(driver, two=(0, 3), three=(0, 2))
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


@pytest.mark.parametrize("fullest", [TWO, THREE])
def test_an_unclean_election_on_request_takes_the_fullest_that_is_up(
    driver: ControllerDriver, fullest: NodeId
) -> None:
    driver.create()
    driver.alter_isr(1)
    fence(driver, 1)
    name, state = TopicPartition("t", 0), driver.state()
    ends = {
        node: log_end(0, 9 if node in (ONE, fullest) else 0, broker_epoch=driver.epochs[node])
        for node in (ONE, TWO, THREE)
    }
    log_ends = {state.key: LogEnds(state.leader_epoch, ends)}
    decision = driver.controller.elect_leaders([name], Election.UNCLEAN, log_ends)
    driver.commit(decision)
    assert [outcome.error for outcome in decision.response] == [ErrorCode.NONE]
    assert driver.state().leader == fullest


def test_an_unclean_election_on_request_does_not_wait_for_those_that_say_nothing(
    driver: ControllerDriver,
) -> None:
    driver.create()
    driver.alter_isr(1)
    fence(driver, 1)
    driver.commit(driver.controller.elect_leaders(None, Election.UNCLEAN))
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


def test_a_node_whose_log_may_lack_records_is_let_in_and_not_elected(
    driver: ControllerDriver,
) -> None:
    driver.create(min_insync_replicas="2")
    fence(driver, 1, 2, 3)
    key = driver.state().key
    assert driver.state().elr == (TWO, THREE)
    assert not driver.beat(2, may_lack=(key,)).is_fenced
    assert (driver.state().leader, driver.state().elr) == (NO_LEADER, (THREE,))
    driver.beat(3)
    assert driver.state().leader == THREE


def test_the_last_that_had_everything_is_elected_whatever_it_says(driver: ControllerDriver) -> None:
    driver.create(min_insync_replicas="2")
    fence(driver, 1, 2, 3)
    key = driver.state().key
    driver.beat(2, may_lack=(key,))
    driver.beat(3, may_lack=(key,))
    assert driver.state().leader == THREE


def test_a_leader_that_is_damaged_and_alone_in_sync_hands_over_to_one_that_is_eligible(
    driver: ControllerDriver,
) -> None:
    driver.create(min_insync_replicas="2")
    fence(driver, 3, 2)
    driver.beat(2)
    state = driver.state()
    assert (state.leader, state.isr, state.elr) == (ONE, (ONE,), (TWO,))
    driver.beat(1, may_lack=(state.key,))
    state = driver.state()
    assert (state.leader, state.isr) == (TWO, (TWO,))
    assert ONE not in state.elr
